"""The papers' multi-head baseline for sentences, whose heads need not divide the width."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..errors import UserError
from ..layers.base import join_heads, split_heads, xavier_linear, zero_padding
from ..layers.dropout import Dropout
from ..masks import head_masks
from ..ops.dot_product import dot_product
from .base import Context
from .timing import places


class MultiHeadContext(Context):
    """Dot-product attention on ``x + sinusoid``, without biases and without an output map.

    Args:
        embed_dim: width of the input.
        hidden_size: half of the output's width, which the heads share: 8 x 75 are published.
        dropout: on the input of the maps and on the attention weights.
        heads: number of heads.
        head_dim: width of a head (default: its share of the output).
        masks: positional masks of the heads, as MTSA has them; published: none.
        include_self: whether a token sees itself under a directional mask.
        window: see only keys within this distance in tokens.

    Raises:
        UserError: if the heads do not divide the output's width, or the masks do not fit.

    Differs:
        As in the authors' code, the wave lengths of the sinusoid grow twice as fast as those of
        Vaswani et al. (2017): feature f has ``10000^(2 f / d)``. Positions count from a sentence's
        first real token. Dropout on the input is drawn once for queries, keys and values. Weights
        are drawn as one matrix for each head; in the code all heads' maps are one tensor of rank 4,
        whose Glorot values are 4.9 times smaller at the published sizes.
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_size: int,
        *,
        dropout: float = 0.0,
        heads: int = 8,
        head_dim: int | None = None,
        masks: str = "none",
        include_self: bool = False,
        window: int | None = None,
    ) -> None:
        if head_dim is None and 2 * hidden_size % heads:
            raise UserError(
                f"heads {heads} does not divide the output's width {2 * hidden_size} (twice "
                f"hidden_size); choose a divisor, or head_dim"
            )
        head_dim = 2 * hidden_size // heads if head_dim is None else head_dim
        super().__init__(embed_dim, heads * head_dim)
        self.heads = heads
        self.masks = head_masks(masks, heads, include_self, window)
        self.dropout = Dropout(dropout)
        self.qkv = xavier_linear(embed_dim, 3 * self.out_dim, bias=False, heads=3 * heads)

    def encode(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        x = x + positions(x, padding_mask)
        q, k, v = (split_heads(t, self.heads) for t in self.qkv(self.dropout(x)).chunk(3, -1))
        dropout = self.dropout.p if self.training else 0.0
        y = dot_product(q, k, v, masks=self.masks, padding_mask=padding_mask, dropout_p=dropout)
        return zero_padding(join_heads(y), padding_mask)


def positions(x: Tensor, padding_mask: Tensor | None) -> Tensor:
    """The published code's sinusoid for tokens ``(B, T, d)``: ``(1 or B, T, d)``."""
    length, width = x.shape[1:]
    feature = torch.arange(0, width, 2, device=x.device, dtype=torch.float32)
    position = torch.arange(length, device=x.device, dtype=torch.float32)
    angle = position[:, None] * 10000.0 ** (-2 * feature / width)
    table = torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, :width].to(x.dtype)
    return F.embedding(places(x, padding_mask), table)
