"""Dot-product multi-head attention behind the same contract, as the baseline."""

from torch import Tensor

from ..config import MultiHeadConfig
from ..errors import UserError
from ..masks import head_masks, visible_pairs
from ..ops.common.distance import by_position
from ..ops.dot_product import dot_product, not_padding
from .base import SelfAttention, join_heads, scaled_products, split_heads, xavier_linear
from .distance import distance_bias
from .inspection import Inspection, looking_into, mask_names, visible_softmax
from .positions import Alibi, rotate
from .relative import RelativePositions


class MultiHead(SelfAttention):
    """Multi-head self-attention (Vaswani et al. 2017), also with masks and positions of its own.

    Args:
        config: the switches.
        embed_dim: width C of the input.
        num_heads: number of heads H.

    Raises:
        UserError: if the heads do not divide the width, the masks do not fit the heads, or heads
            of an odd width have rotary positions.
    """

    def __init__(self, config: MultiHeadConfig, embed_dim: int, num_heads: int) -> None:
        super().__init__(embed_dim, num_heads)
        self.config = MultiHeadConfig.checked(config)
        width = self.head_width(None)  # refuses heads that do not divide the width
        if config.positions == "rotary" and width % 2:
            raise UserError(
                f"positions 'rotary' turn pairs of features, but a head has {width} (embed_dim "
                f"{embed_dim} / num_heads {num_heads}); it must be an even number"
            )
        self.masks = head_masks(config.masks, num_heads, config.include_self, config.window)
        self.q_proj = xavier_linear(embed_dim, embed_dim, config.bias)
        self.k_proj = xavier_linear(embed_dim, embed_dim, config.bias)
        self.v_proj = xavier_linear(embed_dim, embed_dim, config.bias)
        self.out_proj = xavier_linear(embed_dim, embed_dim, config.bias)
        self.distance = (
            Alibi(self.masks)
            if config.positions == "alibi"
            else distance_bias(self.masks, config.distance)
        )
        relative = config.positions == "relative"
        self.relative = RelativePositions(width, config.relative_clip) if relative else None

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """See ``SelfAttention.forward``."""
        q, k, v = self._project(x, padding_mask)
        dropout = self.config.attention_dropout if self.training else 0.0
        bias = None if self.distance is None else self.distance(x)
        if self.relative is not None:
            visible = visible_pairs(self.masks, x.shape[1], padding_mask, x.device)
            far = None if bias is None else by_position(bias)
            context = self.relative(q, k, v, visible, far, dropout)
        else:
            context = dot_product(
                q,
                k,
                v,
                masks=self.masks,
                padding_mask=padding_mask,
                distance_bias=bias,
                dropout_p=dropout,
            )
        y: Tensor = self.out_proj(join_heads(context))  # (B, T, C)
        return y

    def inspect(self, x: Tensor, padding_mask: Tensor | None = None) -> Inspection:
        """See ``SelfAttention.inspect``."""
        with looking_into(self):
            q, k, _ = self._project(x, padding_mask)
            if self.relative is not None:
                score = self.relative.scores(q, k)
            else:
                score = scaled_products(q, k)
            if self.distance is not None:
                score = score + by_position(self.distance(x))
            visible = visible_pairs(self.masks, x.shape[1], padding_mask, x.device)
            if padding_mask is not None and self._sees_everything():
                visible = not_padding(padding_mask)
            return Inspection(mask_names(self.masks), visible_softmax(score, visible))

    def _project(self, x: Tensor, padding_mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys, rotated where positions are rotary, and values, ``(B, H, T, D)``."""
        x = self.check_input(x, padding_mask)
        projections = (self.q_proj, self.k_proj, self.v_proj)
        q, k, v = (split_heads(project(x), self.num_heads) for project in projections)
        if self.config.positions == "rotary":
            return rotate(q), rotate(k), v
        return q, k, v

    def _sees_everything(self) -> bool:
        """Whether the operator is PyTorch's own, where a sentence of padding only sees itself."""
        masked = self.config.masks != "none" or self.config.window is not None
        return not (masked or self.distance or self.relative)
