"""The fusion gate of the papers: how much of a token to keep beside its context."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from selfattn.layers.linear import PerHeadLinear


class FusionGate(nn.Module):
    """``g = sigmoid(W [v; s] + b)``, then ``g * v + (1 - g) * s``, for each head on its own.

    Args:
        num_heads: number of heads H.
        width: width D of a head.
        dropout: dropout on the input of the linear map.
    """

    def __init__(self, num_heads: int, width: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.linear = PerHeadLinear(num_heads, 2 * width, width)

    def forward(self, v: Tensor, s: Tensor) -> Tensor:
        """Fuse values and contexts, ``(B, H, T, D)`` each, to ``(B, H, T, D)``."""
        gate = self.share(v, s)
        return gate * v + (1 - gate) * s

    def share(self, v: Tensor, s: Tensor) -> Tensor:
        """The share g of each value that is kept, ``(B, H, T, D)`` in [0, 1]."""
        return torch.sigmoid(self.linear(self.dropout(torch.cat([v, s], -1))))
