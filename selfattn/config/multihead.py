"""Configuration of dot-product multi-head attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from selfattn.config.base import AttentionConfig, switch


@dataclass(frozen=True)
class MultiHeadConfig(AttentionConfig):
    """Dot-product multi-head attention (Vaswani et al. 2017), the baseline of all papers."""

    name: ClassVar[str] = "multihead"

    bias: bool = switch(True, "biases on the query, key, value and output projections")
