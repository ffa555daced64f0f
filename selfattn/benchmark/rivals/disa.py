"""DiSA (Shen et al. 2018) around the operator: two directions, each with its maps and its gate."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.layers.base import xavier_linear
from selfattn.masks import PositionalMask

Operator = Callable[..., Tensor]
DIRECTIONS = (PositionalMask("forward"), PositionalMask("backward"))


class DiSAOperator(nn.Module):
    """The operator alone, both directions in one call, on ``(B, T, 2 C)`` three times.

    Args:
        operator: ``selfattn.ops.disa``.
        backend: which form of it.
    """

    def __init__(self, operator: Operator, backend: str) -> None:
        super().__init__()
        self.operator = operator
        self.backend = backend

    def forward(
        self, x: Tensor, a: Tensor, b: Tensor, padding_mask: Tensor | None = None
    ) -> Tensor:
        """Attend: ``(B, T, 2 C)``."""
        return self.operator(
            x, a, b, mask=DIRECTIONS, padding_mask=padding_mask, backend=self.backend
        )


class DiSABlock(nn.Module):
    """Two directional self-attentions (DiSAN eq. 15-20), ``(B, T, C)`` -> ``(B, T, 2 C)``.

    Args:
        embed_dim: width C of the input and of each direction.
        operator: ``selfattn.ops.disa``.
        backend: which form of it.
    """

    def __init__(self, embed_dim: int, operator: Operator, backend: str) -> None:
        super().__init__()
        self.attend = DiSAOperator(operator, backend)
        directions = range(len(DIRECTIONS))
        self.value = nn.ModuleList(xavier_linear(embed_dim, embed_dim) for _ in directions)
        self.key = nn.ModuleList(xavier_linear(embed_dim, embed_dim, False) for _ in directions)
        self.query = nn.ModuleList(xavier_linear(embed_dim, embed_dim) for _ in directions)
        self.gate_value = nn.ModuleList(xavier_linear(embed_dim, embed_dim) for _ in directions)
        self.gate_context = nn.ModuleList(xavier_linear(embed_dim, embed_dim) for _ in directions)
        # The published gate has a third bias beside those of its two maps.
        self.gate_bias = nn.Parameter(torch.zeros(2 * embed_dim))

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Attend in both directions."""
        value = torch.cat([F.elu(linear(x)) for linear in self.value], -1)
        a, b = _each(self.key, value), _each(self.query, value)
        context = self.attend(value, a, b, padding_mask)
        keep, take = _each(self.gate_value, value), _each(self.gate_context, context)
        gate = torch.sigmoid(keep + take + self.gate_bias)
        return gate * value + (1 - gate) * context


def _each(maps: nn.ModuleList, x: Tensor) -> Tensor:
    """One map for each equal part of the features."""
    parts = x.chunk(len(maps), -1)
    return torch.cat([linear(part) for linear, part in zip(maps, parts, strict=True)], -1)
