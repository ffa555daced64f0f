"""Configurations: every switch of a mechanism, validated once, with the published forms by name.

One file a mechanism; ``CONFIGS`` lists them by the name that ``--encoder-attention`` takes.
"""

from __future__ import annotations

from collections.abc import Mapping

from .base import ACTIVATIONS, AttentionConfig
from .biblosa import BiBloSAConfig
from .disa import DiSAConfig
from .fast_disa import FastDiSAConfig
from .mtsa import MTSAConfig
from .multihead import MultiHeadConfig
from .resa import ReSAConfig

__all__ = [
    "ACTIVATIONS",
    "CONFIGS",
    "AttentionConfig",
    "BiBloSAConfig",
    "DiSAConfig",
    "FastDiSAConfig",
    "MTSAConfig",
    "MultiHeadConfig",
    "ReSAConfig",
]

CONFIGS: Mapping[str, type[AttentionConfig]] = {
    config.name: config
    for config in (
        MultiHeadConfig,
        MTSAConfig,
        FastDiSAConfig,
        DiSAConfig,
        BiBloSAConfig,
        ReSAConfig,
    )
}
