"""Attention dropout of the numerator: two factors that multiply (MTSA, appendix A.3).

One factor belongs to the (query, key) pairs, the other one to the (key, feature) pairs. Each keeps
an entry with probability ``sqrt(1 - dropout_p)`` and scales it by the inverse. Where all features
share their weights, as in dot-product attention, only the pairs are dropped.
"""

from collections.abc import Sequence

import torch
from torch import Tensor


def keep_probability(dropout_p: float) -> float:
    """Probability that one of the two factors keeps an entry."""
    return float((1.0 - dropout_p) ** 0.5)


def keep_probabilities(dropout_p: float, pairs_only: bool) -> tuple[float, float]:
    """Those of the factor on (query, key) pairs and of the one on (key, feature) pairs."""
    return (1.0 - dropout_p, 1.0) if pairs_only else (keep_probability(dropout_p),) * 2


def draw_factors(
    pairs: Sequence[int],
    features: Sequence[int],
    dropout_p: float,
    like: Tensor,
    pairs_only: bool = False,
) -> tuple[Tensor, Tensor]:
    """Both factors in these shapes from torch's generator, for the backend ``"reference"``."""
    keeps = zip((pairs, features), keep_probabilities(dropout_p, pairs_only), strict=True)
    on_pairs, on_features = (
        (torch.rand(*shape, device=like.device) < keep).to(like.dtype) / keep
        for shape, keep in keeps
    )
    return on_pairs, on_features


class FactorDropout:
    """Both factors piece by piece, replayed from a seed."""

    def __init__(
        self, dropout_p: float, seed: int, device: torch.device, pairs_only: bool = False
    ) -> None:
        self.pairs_only = pairs_only
        self.keep = keep_probabilities(dropout_p, pairs_only)[0]
        self._generator = torch.Generator(device).manual_seed(seed)

    def factor(self, like: Tensor, *shape: int) -> Tensor:
        """0 and 1 / keep in a shape, or that of a tensor; successive calls continue the stream."""
        # Contiguous: numbers are drawn in the order of memory, and a replay has strides of its own.
        out = like.new_empty(shape or like.shape)
        return out.bernoulli_(self.keep, generator=self._generator).div_(self.keep)
