"""A learnable penalty for distance, in addition to the positional masks."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..config.base import DISTANCES
from ..errors import check_choice
from ..masks import PositionalMask
from .base import working


class DistanceBias(nn.Module):
    """``-slope * |i - j|`` or ``-slope * log(1 + |i - j|)``, with a slope of its own for each head.

    Added to the token2token score where the positional mask is added. The MTSA paper names such
    masks (Im and Cho 2017, who train one factor on the distance) beside windows, without numbers.
    ``"linear"`` makes weights fall by a factor with each token, as ALiBi's (Press et al. 2022) do;
    ``"log"`` makes them fall as the power ``(1 + |i - j|) ** -slope``.

    Slopes are above 0, because the logarithm is what is learnt: an optimiser changes a slope by a
    share of itself, and never into a reward for distance, which would grow without bound in
    sentences longer than those of training.

    Args:
        masks: positional mask of each of H heads; heads with one direction share a range of slopes.
        kind: ``"linear"`` or ``"log"``.

    Differs:
        ALiBi's slopes are fixed, 2^(-8 k / n) for the head k of n. Here they start at
        2^(-8 (k - 1/2) / n), the same range for any n, over the n heads of each direction;
        ``"log"`` starts at 1.
    """

    def __init__(self, masks: Sequence[PositionalMask], kind: str) -> None:
        super().__init__()
        self.kind = kind
        powers = torch.tensor(powers_of(masks, 0.5) if kind == "linear" else [0.0] * len(masks))
        self.log_slope = nn.Parameter(powers * torch.tensor(2.0).log())

    def forward(self, x: Tensor) -> Tensor:
        """The bias by distance for tokens ``(..., T, C)``: ``(H, T)``, in float32 or more."""
        slope = working(self.log_slope).exp()
        distance = torch.arange(x.shape[-2], dtype=slope.dtype, device=slope.device)
        return -slope[:, None] * (distance if self.kind == "linear" else distance.log1p())

    def kept_parameters(self) -> list[nn.Parameter]:
        """What an initialiser of the whole model leaves as it is."""
        return [self.log_slope]

    def extra_repr(self) -> str:
        """The sizes that ``print(module)`` shows."""
        return f"num_heads={len(self.log_slope)}, kind={self.kind}"


def powers_of(masks: Sequence[PositionalMask], offset: float) -> list[float]:
    """``-8 (k + offset) / n`` for the head k = 0 .. n - 1 of the n that share its direction."""
    directions = [mask.direction for mask in masks]
    return [
        -8 * (directions[:head].count(direction) + offset) / directions.count(direction)
        for head, direction in enumerate(directions)
    ]


def distance_bias(masks: Sequence[PositionalMask], kind: str) -> DistanceBias | None:
    """The module for a name in ``DISTANCES``; None for ``"none"``."""
    check_choice("distance", kind, DISTANCES)
    return None if kind == "none" else DistanceBias(masks, kind)
