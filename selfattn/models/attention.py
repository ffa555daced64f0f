"""Every attention of ``selfattn.layers`` as the context of a sentence encoder."""

from typing import Any

from torch import Tensor

from ..config import attention_config
from ..layers import ReSA, build_attention
from .base import Context

# What the authors trained sentence encoders with, the first one that a mechanism has.
PRESETS = ("sentence", "code")
ACTIVATED = ("activation", "value_activation", "s2t_activation", "sampler_activation")


class AttentionContext(Context):
    """A mechanism as its authors trained it for sentences: two wide heads, one a direction.

    Each head is ``hidden_size`` wide, so that the output has twice that width.

    Args:
        name: a name in ``selfattn.layers.ATTENTIONS``.
        embed_dim: width of the input.
        hidden_size: width of a head, where the mechanism has a choice.
        activation: of all of the mechanism's maps that have one, whatever its preset says. It is
            the switch ``activation`` of DiSA, Bi-BloSA and ReSA; ``value_activation``,
            ``s2t_activation`` and ``sampler_activation`` may differ as switches.
        dropout: on the input of every linear map.
        num_heads: heads, half of them for each direction.
        preset: of the mechanism (default: ``sentence``, else ``code``).
        **switches: of the mechanism; they win over all of the above.

    Raises:
        UserError: if a switch or a value is unknown, or the sizes do not fit.
    """

    def __init__(
        self,
        name: str,
        embed_dim: int,
        hidden_size: int,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        num_heads: int = 2,
        preset: str | None = None,
        **switches: Any,
    ) -> None:
        config = type(attention_config(name))
        if preset is None:
            preset = next((p for p in PRESETS if p in config.presets), None)
        usual: dict[str, Any] = {"head_dim": hidden_size, "heads": num_heads, "zero_padding": True}
        usual |= {"dense_dropout": dropout, **dict.fromkeys(ACTIVATED, activation)}
        usual = {key: usual[key] for key in config.switch_names() if key in usual}
        layer = build_attention(name, embed_dim, num_heads, preset=preset, **(usual | switches))
        super().__init__(embed_dim, layer.output_dim)
        self.layer = layer

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        if isinstance(self.layer, ReSA):
            self.layer.take_choice()  # of an earlier batch: an empty one makes none
        return super().forward(x, padding_mask)

    def encode(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        y: Tensor = self.layer(x, padding_mask)
        return y

    def left_out(self, padding_mask: Tensor | None) -> Tensor | None:
        """See ``Context.left_out``: also tokens that ReSA dropped."""
        dropped = self.layer.dropped() if isinstance(self.layer, ReSA) else None
        if dropped is None or padding_mask is None:
            return padding_mask if dropped is None else dropped
        return dropped | padding_mask
