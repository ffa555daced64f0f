"""Attention layers: one class a file, one contract (``selfattn.layers.base``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..config import AttentionConfig, attention_config
from .base import SelfAttention
from .biblosa import BiBloSA
from .disa import DiSA
from .fast_disa import FastDiSA
from .fusion_gate import FusionGate
from .inspection import Inspection
from .masked_self_attention import MaskedSelfAttention
from .mtsa import MTSA
from .multihead import MultiHead
from .resa import ReSA
from .source2token import Source2Token
from .source2token_scores import Source2TokenScores

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..config.switches import Switches

__all__ = [
    "ATTENTIONS",
    "MTSA",
    "BiBloSA",
    "DiSA",
    "FastDiSA",
    "FusionGate",
    "Inspection",
    "MaskedSelfAttention",
    "MultiHead",
    "ReSA",
    "SelfAttention",
    "Source2Token",
    "Source2TokenScores",
    "build_attention",
]

ATTENTIONS: dict[str, Any] = {
    "multihead": MultiHead,
    "mtsa": MTSA,
    "fast_disa": FastDiSA,
    "disa": DiSA,
    "biblosa": BiBloSA,
    "resa": ReSA,
}


def build_attention(
    name_or_config: str | AttentionConfig,
    embed_dim: int,
    num_heads: int,
    *,
    preset: str | None = None,
    **switches: Unpack[Switches],
) -> SelfAttention:
    """An attention layer from a name or a configuration.

    Args:
        name_or_config: a name from ``ATTENTIONS`` or a configuration of one of them.
        embed_dim: width C of the input in features.
        num_heads: number of heads.
        preset: a published form of the mechanism by name, e.g. ``"nmt"``; only with a name.
        **switches: switches that differ from the preset or the configuration.

    Returns:
        A module with ``forward(x: (B, T, C), padding_mask=None) -> (B, T, output_dim)``.

    Raises:
        UserError: if the mechanism, the preset, a switch or a value is unknown, or the sizes do
            not fit.

    Example:
        >>> import torch
        >>> layer = build_attention("mtsa", 64, 4, preset="srl", attention_dropout=0.19)
        >>> layer.eval()(torch.randn(2, 5, 64)).shape
        torch.Size([2, 5, 64])
    """
    config = attention_config(name_or_config, preset, **switches)
    layer: SelfAttention = ATTENTIONS[config.name](config, embed_dim, num_heads)
    return layer
