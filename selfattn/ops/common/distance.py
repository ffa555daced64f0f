"""A bias by the distance between query and key, without a ``T x T`` tensor."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import UserError

NOT_FUSED = "it has no distance bias; 'eager' and 'auto' have"


def check(bias: Tensor | None, heads: int, length: int) -> None:
    """Refuse a table that is not a floating ``(heads, length)``; None is accepted."""
    if bias is not None and not isinstance(bias, Tensor):
        raise UserError(f"distance_bias is a {type(bias).__name__}; it must be a tensor or None")
    if bias is not None and (bias.shape != (heads, length) or not bias.is_floating_point()):
        raise UserError(
            f"distance_bias has shape {tuple(bias.shape)} and dtype {bias.dtype}; it must be "
            f"(heads, T) = ({heads}, {length}) of floating numbers"
        )


def by_position(bias: Tensor) -> Tensor:
    """``(H, T)`` by distance -> ``(H, T, T)``, [query, key]; for references and pictures."""
    position = torch.arange(bias.shape[1], device=bias.device)
    return bias[:, (position - position[:, None]).abs()]


class DistanceTable:
    """A bias by distance ``(H, T)``, read in blocks of [query, key], and its gradient.

    The bias of a key at distance t in tokens is ``bias[:, t]``.
    """

    def __init__(self, bias: Tensor, dtype: torch.dtype) -> None:
        bias = bias.detach().to(dtype)
        # By offset key - query, from 1 - T to T - 1.
        self._values = torch.cat([bias[:, 1:].flip(1), bias], 1)
        self._grad: Tensor | None = None
        self.length = bias.shape[1]

    def _offsets(self, start: int, stop: int, lo: int, hi: int) -> slice:
        """Where the offsets lie that the keys ``[lo, hi)`` have from the queries."""
        middle = self.length - 1
        return slice(lo - stop + 1 + middle, hi - start + middle)

    def block(self, heads: slice, start: int, stop: int, lo: int, hi: int) -> Tensor:
        """The bias of keys ``[lo, hi)`` for queries ``[start, stop)``: ``(h, n_q, n_k)``."""
        values = self._values[heads, self._offsets(start, stop, lo, hi)]
        return values.unfold(1, hi - lo, 1).flip(1)  # the last query's offsets begin first

    def add_gradient(
        self, heads: slice, start: int, stop: int, lo: int, hi: int, grad: Tensor
    ) -> None:
        """Add the gradient of such a block, ``(h, n_q, n_k)``."""
        if self._grad is None:
            self._grad = torch.zeros_like(self._values)
        queries, keys = stop - start, hi - lo
        # A row more of zeros than needed, read in rows that are shorter by one: each row moves by
        # one against the row before it, and what belongs to one offset becomes a column.
        rows = F.pad(grad.flip(1), (0, queries)).flatten(1)[:, : queries * (keys + queries - 1)]
        total = rows.unflatten(1, (queries, -1)).sum(1)  # (h, offsets)
        self._grad[heads, self._offsets(start, stop, lo, hi)] += total.to(self._grad.dtype)

    def gradient(self) -> Tensor:
        """The gradient of the table, ``(H, T)``."""
        if self._grad is None:
            return torch.zeros_like(self._values[:, self.length - 1 :])
        both = self._grad[:, self.length - 1 :].clone()
        both[:, 1:] += self._grad[:, : self.length - 1].flip(1)
        return both
