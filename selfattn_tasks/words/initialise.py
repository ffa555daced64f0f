"""The published initialisers of a tagger's weights."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from selfattn.layers import SelfAttention

INITIALISERS = ("glorot_normal", "orthogonal", "layer")
# Standard deviation of a standard normal that is cut off at two standard deviations.
_CUT_NORMAL = 0.87962566103423978


def initialise(module: nn.Module, how: str) -> None:
    """Draw new values for every matrix and every bias below ``module``.

    Layer norms and embedding tables keep theirs, and so does what a layer names in a method
    ``kept_parameters()``: slopes of distance, ReSA's samplers, a source2token bias set by a switch.
    The other biases are random too, as in the published code.

    Args:
        module: what holds the weights.
        how: ``glorot_normal`` (the MTSA paper's SRL code), ``orthogonal`` (Tan et al. 2018), or
            ``layer``, which leaves every layer its own initialisation.
    """
    if how == "layer":
        return
    draw = {"glorot_normal": _glorot_normal, "orthogonal": _orthogonal}[how]
    done: set[int] = set()
    for part in module.modules():
        if isinstance(part, nn.LayerNorm | nn.Embedding):
            done.update(id(p) for p in part.parameters(recurse=False))
        done.update(id(p) for p in getattr(part, "kept_parameters", list)())
        if isinstance(part, SelfAttention):
            done.update(_draw_jointly(part, draw))
    for parameter in module.parameters():
        if id(parameter) not in done:
            _draw_any(parameter.data, draw)


def _draw_jointly(attention: SelfAttention, draw: Callable[[Tensor], None]) -> list[int]:
    """Query, key and value are one map in the published code: drawn as one.

    Values without queries and keys (``scores="source2token"``) start as they do beside them.
    """
    maps = [getattr(attention, f"{name}_proj", attention) for name in "qkv"]  # None: left out
    linear = [m for m in maps if isinstance(m, nn.Linear)]
    if len(linear) + maps.count(None) < 3 or len({m.in_features for m in linear}) != 1:
        return []
    done = []
    for name in ("weight", "bias"):
        parameters = [getattr(m or linear[-1], name) for m in maps]
        if any(parameter is None for parameter in parameters):
            continue
        joint = torch.cat([p.data for p in parameters])
        _draw_any(joint, draw)
        parts = joint.split([len(p) for p in parameters])
        for own, parameter, part in zip(maps, parameters, parts, strict=True):
            if own is not None:
                parameter.data.copy_(part)
                done.append(id(parameter))
    return done


def _draw_any(values: Tensor, draw: Callable[[Tensor], None]) -> None:
    if values.dim() < 2:
        nn.init.normal_(values, std=max(values.numel(), 1) ** -0.5)
    elif values.dim() == 2:
        draw(values)
    else:  # a matrix for each head
        for matrix in values:
            _draw_any(matrix, draw)


def _glorot_normal(matrix: Tensor) -> None:
    """Variance 2 / (inputs + outputs), cut off at two standard deviations."""
    std = math.sqrt(2 / sum(matrix.shape)) / _CUT_NORMAL
    nn.init.trunc_normal_(matrix, std=std, a=-2 * std, b=2 * std)


def _orthogonal(matrix: Tensor) -> None:
    nn.init.orthogonal_(matrix)
