"""Dot-product multi-head attention behind the same contract, as the baseline."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from selfattn.config import MultiHeadConfig
from selfattn.layers.base import SelfAttention, join_heads, split_heads, xavier_linear


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
            UserError: if x is not ``(B, T, C)`` or the mask not ``(B, T)``.
        """
        self.check_input(x, padding_mask)
        q, k, v = (
            split_heads(project(x), self.num_heads)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        visible = None
        if padding_mask is not None:
            # A sentence of padding alone sees itself, or its softmax would be NaN.
            empty = padding_mask.all(1, keepdim=True)
            visible = (~padding_mask | empty)[:, None, None, :]
        dropout = self.config.attention_dropout if self.training else 0.0
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, dropout_p=dropout)
        y: Tensor = self.out_proj(join_heads(context))
        return y
