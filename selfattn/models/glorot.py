"""Glorot's initialisation of matrices that TensorFlow has as one and we have as two."""

import torch
from torch import Tensor, nn


def glorot_parts(inputs: int, states: int, outputs: int) -> tuple[Tensor, Tensor]:
    """A matrix of ``[x; h]`` drawn as one, ``(inputs, outputs)`` and ``(states, outputs)``."""
    whole = nn.init.xavier_uniform_(torch.empty(inputs + states, outputs))
    x, h = whole.split([inputs, states])
    return x, h
