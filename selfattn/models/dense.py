"""Layers of the papers' classifiers."""

from __future__ import annotations

from torch import nn

from selfattn.layers.base import activation as activation_of
from selfattn.layers.base import xavier_linear


def dense(inputs: int, outputs: int, activation: str, dropout: float) -> nn.Sequential:
    """Dropout, a linear map, an activation."""
    linear = xavier_linear(inputs, outputs)
    return nn.Sequential(nn.Dropout(dropout), linear, activation_of(activation))


def logits(inputs: int, outputs: int, dropout: float, bias: bool = True) -> nn.Sequential:
    """Dropout and a linear map."""
    return nn.Sequential(nn.Dropout(dropout), xavier_linear(inputs, outputs, bias))
