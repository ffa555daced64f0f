"""Relative position representations: learnt vectors of the distance in keys and values."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .base import working
from .inspection import visible_softmax


class RelativePositions(nn.Module):
    """``a^K`` and ``a^V`` of Shaw et al. (2018), shared by the heads of a layer.

    Distances beyond ``clip`` share a vector: ``a_ij = w[clip(j - i, -clip, clip)]``. Both tables
    have ``2 clip + 1`` vectors as wide as a head. Memory is quadratic in T: scores and weights are
    written out, ``B H T T``; the paper's tensor ``T T D`` is not.

    Args:
        width: features D of a head.
        clip: the largest distance with a vector of its own, k in the paper, in tokens.

    Differs:
        The paper does not name an initialisation; here it is Xavier uniform.
    """

    def __init__(self, width: int, clip: int) -> None:
        super().__init__()
        self.clip = clip
        self.keys = nn.Parameter(torch.empty(2 * clip + 1, width))
        self.values = nn.Parameter(torch.empty(2 * clip + 1, width))
        nn.init.xavier_uniform_(self.keys)
        nn.init.xavier_uniform_(self.values)

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        """``q_i (k_j + a^K_ij)^T / sqrt(D)``, ``(B, H, T, T)`` (eq. 4)."""
        q = q * q.shape[-1] ** -0.5  # at first: half precision holds no large products
        # Float32: the gradient of gather sums up to T numbers, as scatter_add does below.
        by_distance = working(q @ self.keys.transpose(0, 1))  # (B, H, T, 2 clip + 1)
        pairs = q @ k.transpose(-1, -2)  # (B, H, T, T)
        scores: Tensor = pairs + by_distance.gather(-1, self._rows(pairs))
        return scores

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        visible: Tensor,
        bias: Tensor | None = None,
        dropout_p: float = 0.0,
    ) -> Tensor:
        """``sum_j alpha_ij (v_j + a^V_ij)`` (eq. 3), alpha the softmax of the scores.

        The result is ``(B, H, T, D)`` as q, k and v, and exactly 0 where a query sees no key by
        ``visible``, bool ``(B or 1, H, T, T)``; the bias ``(H, T, T)`` is added to the scores.
        """
        scores = self.scores(q, k)
        weights = visible_softmax(scores if bias is None else scores + bias, visible)
        weights = F.dropout(weights, dropout_p)
        by_distance = weights.new_zeros(*weights.shape[:3], 2 * self.clip + 1)
        by_distance = by_distance.scatter_add(-1, self._rows(weights), weights).to(v.dtype)
        y: Tensor = weights.to(v.dtype) @ v + by_distance @ self.values.to(v.dtype)  # eq. 3
        return y

    def _rows(self, pairs: Tensor) -> Tensor:
        """Row of the tables for each pair, expanded to ``(B, H, T, T)``."""
        position = torch.arange(pairs.shape[-1], device=pairs.device)
        ahead = position - position[:, None]  # j - i
        return (ahead.clamp(-self.clip, self.clip) + self.clip).expand_as(pairs)

    def extra_repr(self) -> str:
        """The sizes that ``print(module)`` shows."""
        return f"width={self.keys.shape[1]}, clip={self.clip}"
