"""Configurations: every switch of a mechanism, validated once, with the published forms by name.

One file a mechanism; ``CONFIGS`` lists them by the name that ``--encoder-attention`` takes.
"""

from __future__ import annotations

from collections.abc import Mapping

from selfattn.config.base import ACTIVATIONS, AttentionConfig
from selfattn.config.biblosa import BiBloSAConfig
from selfattn.config.disa import DiSAConfig
from selfattn.config.fast_disa import FastDiSAConfig
from selfattn.config.mtsa import MTSAConfig
from selfattn.config.multihead import MultiHeadConfig
from selfattn.config.resa import ReSAConfig

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
