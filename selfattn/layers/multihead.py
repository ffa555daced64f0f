"""Dot-product multi-head attention behind the same contract, as the baseline."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from selfattn.config import MultiHeadConfig
from selfattn.layers.base import SelfAttention, join_heads, split_heads, xavier_linear
from selfattn.layers.distance import distance_bias
from selfattn.layers.inspection import (
    Inspection,
    looking_into,
    mask_names,
    visible_keys,
    visible_softmax,
)
from selfattn.masks import head_masks
from selfattn.ops._distance import by_position
from selfattn.ops.dot_product import dot_product, not_padding


class MultiHead(SelfAttention):
    """Multi-head self-attention (Vaswani et al. 2017), also under positional masks.

    Args:
        config: the switches.
        embed_dim: width C of the input.
        num_heads: number of heads H.

    Raises:
        UserError: if the heads do not divide the width, or the masks do not fit the heads.
    """

    def __init__(self, config: MultiHeadConfig, embed_dim: int, num_heads: int) -> None:
        super().__init__(embed_dim, num_heads)
        self.config = config
        self.head_width(None)  # refuses heads that do not divide the width
        self.masks = head_masks(config.masks, num_heads, config.include_self, config.window)
        self.q_proj = xavier_linear(embed_dim, embed_dim, config.bias)
        self.k_proj = xavier_linear(embed_dim, embed_dim, config.bias)
        self.v_proj = xavier_linear(embed_dim, embed_dim, config.bias)
        self.out_proj = xavier_linear(embed_dim, embed_dim, config.bias)
        self.distance = distance_bias(self.masks, config.distance)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """See ``SelfAttention.forward``.

        Raises:
            UserError: if x is not ``(B, T, C)`` or the mask not bool ``(B, T)``.
        """
        self.check_input(x, padding_mask)
        q, k, v = self._heads(x, self.q_proj, self.k_proj, self.v_proj)
        context = dot_product(
            q,
            k,
            v,
            masks=self.masks,
            padding_mask=padding_mask,
            distance_bias=self._distance_bias(x.shape[1]),
            dropout_p=self.config.attention_dropout if self.training else 0.0,
        )
        y: Tensor = self.out_proj(join_heads(context))
        return y

    def inspect(self, x: Tensor, padding_mask: Tensor | None = None) -> Inspection:
        """See ``SelfAttention.inspect``."""
        self.check_input(x, padding_mask)
        with looking_into(self):
            q, k = self._heads(x, self.q_proj, self.k_proj)
            score = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
            bias = self._distance_bias(x.shape[1])
            if bias is not None:
                score = score + by_position(bias)
            visible = visible_keys(self.masks, x.shape[1], padding_mask, x)
            if padding_mask is not None and self._sees_everything():
                visible = not_padding(padding_mask)
            return Inspection(mask_names(self.masks), visible_softmax(score, visible))

    def _heads(self, x: Tensor, *projections: nn.Module) -> Iterator[Tensor]:
        return (split_heads(project(x), self.num_heads) for project in projections)

    def _distance_bias(self, length: int) -> Tensor | None:
        """The bias by distance, ``(H, length)``."""
        return None if self.distance is None else self.distance(length)

    def _sees_everything(self) -> bool:
        """Whether neither masks nor a bias are on."""
        return self.config.masks == "none" and self.config.window is None and self.distance is None

    def extra_repr(self) -> str:
        """The switches, for ``print(module)``."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, config={self.config}"
