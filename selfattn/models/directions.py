"""Sentences read from both ends, wherever they are padded."""

import torch
from torch import Tensor, nn

from ..layers.base import zero_padding
from ..layers.linear import map_heads
from ..masks import check_padding_mask


class Directions:
    """The two orders in which a bi-directional recurrent network reads a batch.

    In both of them a sentence's tokens come first and its padding last, so that no state ever
    depends on padding. Nothing is read back from the device for that.

    Args:
        x: the batch ``(B, T, d)``; only its shape and device count.
        padding_mask: bool ``(B, T)``, True = padding, or None.
    """

    def __init__(self, x: Tensor, padding_mask: Tensor | None) -> None:
        check_padding_mask(padding_mask, x.shape[:2])
        self.padding_mask = padding_mask
        self.orders: list[Tensor] = []
        if padding_mask is None:
            return
        batch, length = padding_mask.shape
        position = torch.arange(length, device=x.device)
        count = (~padding_mask).sum(1, keepdim=True)
        forward = padding_mask.byte().argsort(dim=1, stable=True)  # (B, T), tokens first
        backward = forward.gather(1, (count - 1 - position) % length)
        row = length * torch.arange(batch, device=x.device)[:, None]
        self.orders = [(row + order).flatten() for order in (forward, backward)]

    def split(self, x: Tensor) -> Tensor:
        """``(B, T, d)`` -> ``(2, B, T, d)``, [forward, backward], each in its order of reading."""
        if not self.orders:
            return torch.stack([x, x.flip(1)])
        rows = x.flatten(0, 1)
        return torch.stack([rows[order].view(x.shape) for order in self.orders])

    def project(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """``x W + b`` of each direction's own, step after step.

        Args:
            x: ``(B, T, d)``.
            weight: ``(2, d, e)``.
            bias: ``(2, e)``.

        Returns:
            ``(T, 2, B, e)``.
        """
        return map_heads(self.split(x).permute(2, 0, 1, 3), weight, bias)

    def join_steps(self, states: Tensor) -> Tensor:
        """States ``(T, 2, B, h)`` -> ``(B, T, 2 h)``, 0 at padding."""
        forward, backward = states.permute(1, 2, 0, 3).unbind()
        return self.join(forward, backward)

    def join(self, forward: Tensor, backward: Tensor) -> Tensor:
        """States ``(B, T, h)`` in their orders of reading -> ``(B, T, 2 h)``, 0 at padding."""
        if not self.orders:
            return torch.cat([forward, backward.flip(1)], -1)
        there = [
            y.reshape(-1, y.shape[-1])[order.argsort()].view(y.shape)
            for y, order in zip((forward, backward), self.orders, strict=True)
        ]
        return zero_padding(torch.cat(there, -1), self.padding_mask)


def glorot_parts(inputs: int, states: int, outputs: int) -> tuple[Tensor, Tensor]:
    """A matrix of ``[x; h]`` drawn as one: ``(inputs, outputs)`` and ``(states, outputs)``."""
    whole = nn.init.xavier_uniform_(torch.empty(inputs + states, outputs))
    x, h = whole.split([inputs, states])
    return x, h
