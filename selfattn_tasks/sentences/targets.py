"""Scores of relatedness as distributions over whole numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from .record import HIGHEST, LOWEST


def distribution(scores: Tensor, lowest: float = LOWEST, highest: float = HIGHEST) -> Tensor:
    """The distribution over ``lowest, lowest + 1, ..., highest`` whose mean is the score.

    All of it lies on the two whole numbers beside the score (Tai et al. 2015, eq. 15, which
    Bi-BloSAN takes over): 3.7 is [0, 0, 0.3, 0.7, 0], and the highest score has no upper neighbour.

    Args:
        scores: ``(B,)``, from ``lowest`` to ``highest``.
        lowest: of the scale.
        highest: of the scale, a whole number of steps above.

    Returns:
        ``(B, classes)``; each row sums to 1.
    """
    steps = torch.arange(lowest, highest + 1, device=scores.device, dtype=scores.dtype)
    # 1 - distance to the score, where that is positive: eq. 15 without its case distinction.
    return (1 - (scores.unsqueeze(-1) - steps).abs()).clamp(min=0)
