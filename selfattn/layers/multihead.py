"""Dot-product multi-head attention behind the same contract, as the baseline."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.config import MultiHeadConfig
from selfattn.layers.base import SelfAttention, join_heads, split_heads, xavier_linear
from selfattn.layers.inspection import Inspection, looking_into, mask_names, visible_softmax
from selfattn.masks import PositionalMask


class MultiHead(SelfAttention):
    """Multi-head self-attention (Vaswani et al. 2017) on PyTorch's fused operator.

    Args:
        config: the switches.
        embed_dim: width C of the input.
        num_heads: number of heads H.

    Raises:
        UserError: if the heads do not divide the width.
    """

    def __init__(self, config: MultiHeadConfig, embed_dim: int, num_heads: int) -> None:
        super().__init__(embed_dim, num_heads)
        self.config = config
        self.head_width(None)  # refuses heads that do not divide the width
        self.q_proj = xavier_linear(embed_dim, embed_dim, config.bias)
        self.k_proj = xavier_linear(embed_dim, embed_dim, config.bias)
        self.v_proj = xavier_linear(embed_dim, embed_dim, config.bias)
        self.out_proj = xavier_linear(embed_dim, embed_dim, config.bias)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """See ``SelfAttention.forward``.

        Raises:
            UserError: if x is not ``(B, T, C)`` or the mask not bool ``(B, T)``.
        """
        self.check_input(x, padding_mask)
        q, k, v = self._heads(x, self.q_proj, self.k_proj, self.v_proj)
        visible = None if padding_mask is None else _visible(padding_mask)
        dropout = self.config.attention_dropout if self.training else 0.0
        # (B, H, T, D)
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, dropout_p=dropout)
        y: Tensor = self.out_proj(join_heads(context))
        return y

    def inspect(self, x: Tensor, padding_mask: Tensor | None = None) -> Inspection:
        """See ``SelfAttention.inspect``."""
        self.check_input(x, padding_mask)
        with looking_into(self):
            q, k = self._heads(x, self.q_proj, self.k_proj)
            score = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5  # (B, H, T, T)
            none = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
            visible = _visible(none if padding_mask is None else padding_mask)
            masks = mask_names([PositionalMask()] * self.num_heads)
            return Inspection(masks, visible_softmax(score, visible))

    def _heads(self, x: Tensor, *projections: nn.Module) -> Iterator[Tensor]:
        return (split_heads(project(x), self.num_heads) for project in projections)


def _visible(padding_mask: Tensor) -> Tensor:
    """Visible keys ``(B, 1, 1, T)``: a sentence of padding alone sees itself, lest it be NaN."""
    empty = padding_mask.all(1, keepdim=True)
    return (~padding_mask | empty)[:, None, None, :]
