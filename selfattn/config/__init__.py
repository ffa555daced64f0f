"""Configurations: every switch of a mechanism, validated once, with the published forms by name.

One file a mechanism; ``CONFIGS`` lists them by the name that ``--encoder-attention`` takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..errors import UserError, check_choice
from .base import ACTIVATIONS, AttentionConfig
from .biblosa import BiBloSAConfig
from .disa import DiSAConfig
from .fast_disa import FastDiSAConfig
from .mtsa import MTSAConfig
from .multihead import MultiHeadConfig
from .resa import ReSAConfig

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .switches import Switches

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
    "attention_config",
]

# Any: which switches a name has, only the class itself tells a type checker.
CONFIGS: Mapping[str, Any] = {
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


def attention_config(
    name_or_config: str | AttentionConfig,
    preset: str | None = None,
    **switches: Unpack[Switches],
) -> AttentionConfig:
    """A configuration from a name, or from another configuration.

    Args:
        name_or_config: a name from ``CONFIGS`` or a configuration.
        preset: a published form of the mechanism by name; only with a name.
        **switches: switches that differ from the preset or the configuration.

    Raises:
        UserError: if the mechanism, the preset, a switch or a value is unknown.
    """
    if isinstance(name_or_config, AttentionConfig):
        if preset is not None:
            raise UserError(
                f"preset {preset!r} cannot be combined with a configuration; give the name "
                f"{name_or_config.name!r} or change the configuration's switches"
            )
        return name_or_config.with_switches(**switches)
    check_choice("attention", name_or_config, CONFIGS)
    config: AttentionConfig = CONFIGS[name_or_config].make(preset, **switches)
    return config
