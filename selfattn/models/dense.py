"""Layers of the papers' classifiers."""

from torch import nn

from ..layers.base import activation as activation_of
from ..layers.base import xavier_linear
from ..layers.dropout import Dropout


def dense(inputs: int, outputs: int, activation: str, dropout: float) -> nn.Sequential:
    """Dropout, a linear map, an activation."""
    linear = xavier_linear(inputs, outputs)
    return nn.Sequential(Dropout(dropout), linear, activation_of(activation))


def logits(inputs: int, outputs: int, dropout: float, bias: bool = True) -> nn.Sequential:
    """Dropout and a linear map."""
    return nn.Sequential(Dropout(dropout), xavier_linear(inputs, outputs, bias))
