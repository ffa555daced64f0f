"""The Bi-BloSA layer: block self-attention under a mask of each direction."""

from typing import cast

import torch
from torch import Tensor, nn

from ..block_length import block_length
from ..config.biblosa import BiBloSAConfig
from ..errors import UserError
from ..masks import head_masks
from ..ops.common.autograd import is_exporting
from .base import SelfAttention, activation, output_map, xavier_linear, zero_padding
from .blocks import Blocks
from .dropout import Dropout
from .inspection import Inspection, looking_into, mask_names
from .mblosa import MBloSA

# Length of the sentences that blocks are made for where no training data is known.
DEFAULT_TOKENS = 32


class BiBloSA(SelfAttention):
    """Bi-directional block self-attention (Bi-BloSAN, Shen et al. 2018, section 3.2).

    Each head maps the input and runs ``MBloSA`` under its mask; heads are joined side by side.
    Blocks count from the first real token, whatever side is padded.

    A direction holds between the tokens of a block and between blocks, not across both: a token of
    a forward head depends on later tokens of its own block, through the block's vector (eq. 12),
    which eq. 14-18 give back to each of the block's tokens. It is not causal attention.

    Args:
        config: the switches; ``BiBloSAConfig.make("paper")`` is the paper's form.
        embed_dim: width C of the input.
        num_heads: number of heads where ``config.heads`` is 0.

    Raises:
        UserError: if the heads do not divide the width, or the masks do not fit the heads.

    Differs:
        The authors' code takes a missing block length from the longest sentence of each batch, so
        that a sentence's output depends on its batch mates; here it is fixed for the model. The
        published directions are each as wide as the input; here the heads share its width unless
        ``head_dim`` is given.

    Example:
        >>> import torch
        >>> layer = BiBloSA(BiBloSAConfig.make("paper", block_length=5), 64, 2)
        >>> layer(torch.randn(2, 7, 64)).shape
        torch.Size([2, 7, 64])
    """

    def __init__(self, config: BiBloSAConfig, embed_dim: int, num_heads: int) -> None:
        super().__init__(embed_dim, BiBloSAConfig.checked(config).heads or num_heads)
        self.config = config
        self.block_length = config.block_length or block_length(DEFAULT_TOKENS)
        masks = head_masks(config.masks, self.num_heads, config.include_self, config.window)
        width = self.head_width(config.head_dim)
        joined = self.num_heads * width
        if config.contexts == "none":
            masks, joined = (), embed_dim
        self.output_dim = embed_dim if config.output_projection else joined
        self.dropout = Dropout(config.dense_dropout)
        self.input_maps = nn.ModuleList(xavier_linear(embed_dim, width) for _ in masks)
        self.activation = activation(config.activation)
        self.heads = nn.ModuleList(MBloSA(config, width, mask, self.block_length) for mask in masks)
        self.out_proj = output_map(config, joined, embed_dim)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """See ``SelfAttention.forward``."""
        y = x = self.check_input(x, padding_mask)
        if self.config.contexts != "none":
            blocks, inputs = self._blocks(x, padding_mask)
            heads = zip(self.heads, inputs, strict=True)
            y = blocks.join(torch.cat([head(h, blocks.padding) for head, h in heads], -1))
        if self.out_proj is not None:
            y = self.out_proj(self.dropout(y))
        return zero_padding(y, padding_mask) if self.config.zero_padding else y

    def inspect(self, x: Tensor, padding_mask: Tensor | None = None) -> Inspection:
        """See ``SelfAttention.inspect``; a row of weights is that of a token within its block."""
        if self.config.contexts == "none":
            raise UserError("contexts 'none' leaves no attention to look at")
        with looking_into(self):
            blocks, inputs = self._blocks(self.check_input(x, padding_mask), padding_mask)
            heads = cast(list[MBloSA], list(self.heads))
            pairs = list(zip(heads, inputs, strict=True))
            weights = [blocks.join_pairs(head.weights(h, blocks.padding)) for head, h in pairs]
            # G is the share of F; a token keeps the rest of itself (eq. 18).
            gates = [1 - blocks.join(head.fuse(h, blocks.padding)[1]).mean(-1) for head, h in pairs]
            return Inspection(
                mask_names([head.mask for head in heads]),
                torch.stack(weights, 1),
                gate=torch.stack(gates, 1),
                blocks=blocks.numbers(),
            )

    def _blocks(self, x: Tensor, padding_mask: Tensor | None) -> tuple[Blocks, list[Tensor]]:
        """Where the blocks lie, and each head's input in them, ``(B, m, r, D)``."""
        free = is_exporting() and not isinstance(x.shape[1], int)
        if free and x.shape[1] % self.block_length:
            raise UserError(
                "attention 'biblosa' cannot be exported with a dynamic length but in whole blocks: "
                f"{self.block_length} * torch.export.Dim('blocks')"
            )
        blocks = Blocks(x, padding_mask, self.block_length)
        tokens = blocks.cut(x)
        return blocks, [self.activation(m(self.dropout(tokens))) for m in self.input_maps]
