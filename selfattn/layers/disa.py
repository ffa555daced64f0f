"""The DiSA layer: input map and fusion gate around masked self-attention."""

from typing import ClassVar

from torch import Tensor, nn

from ..config.disa import DiSAConfig
from ..errors import UserError
from ..masks import head_masks
from .base import (
    SelfAttention,
    activation,
    join_heads,
    output_map,
    split_heads,
    xavier_linear,
    zero_padding,
)
from .dropout import Dropout
from .fusion_gate import FusionGate
from .inspection import Inspection, looking_into, mask_names
from .masked_self_attention import MaskedSelfAttention


class DiSA(SelfAttention):
    """Directional self-attention (DiSAN, Shen et al. 2018; eq. 9 and 10 of the Bi-BloSAN paper).

    For each head ``h = act(W x + b)``, the context ``s = MaskedSelfAttention(h)`` and the output
    ``g * h + (1 - g) * s`` with ``g = sigmoid(W1 h + W2 s + b)``; heads are joined side by side.

    Args:
        config: the switches; ``DiSAConfig.make("code")`` is what the authors trained.
        embed_dim: width C of the input.
        num_heads: number of heads where ``config.heads`` is 0.

    Raises:
        UserError: if the heads do not divide the width, or the masks do not fit the heads.

    Differs:
        The published directions are as wide as the input, so that the output is twice as wide; here
        the heads share its width unless ``head_dim`` is given. Dropout on the input is drawn once
        for all heads, in the authors' code for each direction.

    Example:
        >>> import torch
        >>> layer = DiSA(DiSAConfig.make("code"), embed_dim=64, num_heads=4)
        >>> layer(torch.randn(2, 7, 64)).shape
        torch.Size([2, 7, 64])
    """

    config_class: ClassVar[type[DiSAConfig]] = DiSAConfig

    def __init__(self, config: DiSAConfig, embed_dim: int, num_heads: int) -> None:
        super().__init__(embed_dim, self.config_class.checked(config).heads or num_heads)
        self.config = config
        heads, width = self.num_heads, self.head_width(config.head_dim)
        if not config.input_map and heads * width != embed_dim:
            raise UserError(
                f"head_dim {width} needs input_map: without it the {heads} heads are parts of the "
                f"input, whose width is {embed_dim}"
            )
        self.output_dim = embed_dim if config.output_projection else heads * width
        dropout = config.dense_dropout

        self.dropout = Dropout(dropout)
        self.input_map: nn.Module | None = None
        if config.input_map:
            self.input_map = xavier_linear(embed_dim, heads * width, heads=heads)
        self.activation = activation(config.activation)
        self.masks = head_masks(config.masks, heads, config.include_self, config.window)
        self.attention = MaskedSelfAttention.of(config, self.masks, width)
        self.gate: FusionGate | None = None
        if config.fusion_gate:
            self.gate = FusionGate(heads, width, dropout, biases=config.gate_biases, maps=2)
        self.out_proj = output_map(config, heads * width, embed_dim)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """See ``SelfAttention.forward``."""
        h = self._map(x, padding_mask)
        y = self._context(x, h, padding_mask)
        if self.gate is not None:
            y = join_heads(self.gate(*(split_heads(t, self.num_heads) for t in (h, y))))
        if self.out_proj is not None:
            y = self.out_proj(self.dropout(y))
        return zero_padding(y, padding_mask) if self.config.zero_padding else y

    def inspect(self, x: Tensor, padding_mask: Tensor | None = None) -> Inspection:
        """See ``SelfAttention.inspect``."""
        with looking_into(self):
            h = self._map(x, padding_mask)
            s = self._context(x, h, padding_mask)  # also without a gate: here ReSA selects
            gate = None
            if self.gate is not None:
                both = (split_heads(t, self.num_heads) for t in (h, s))
                gate = self.gate(*both, share_only=True).mean(-1)
            weights = self._weights(h, padding_mask)
        return Inspection(mask_names(self.attention.masks), weights, gate=gate)

    def _context(self, x: Tensor, h: Tensor, padding_mask: Tensor | None) -> Tensor:
        """What the gate fuses with h, ``(B, T, H * D)``; ReSA selects tokens by x for it."""
        context: Tensor = self.attention(h, padding_mask)
        return context

    def _weights(self, h: Tensor, padding_mask: Tensor | None) -> Tensor:
        """See ``MaskedSelfAttention.weights``."""
        return self.attention.weights(h, padding_mask)

    def _map(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        """The heads' features h, ``(B, T, H * D)``."""
        x = self.check_input(x, padding_mask)
        if self.input_map is None:
            return x
        h: Tensor = self.activation(self.input_map(self.dropout(x)))
        return h
