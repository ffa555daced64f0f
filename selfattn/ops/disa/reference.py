"""The textbook form of DiSA: equations 9 and 10 as printed, with their n x n x d tensor."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from selfattn.masks import PositionalMask
from selfattn.ops.common.autograd import Call, Outputs
from selfattn.ops.common.distance import by_position


def disa_reference(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None,
    c: float,
    dropout_p: float,
    hidden_keys: Tensor | None = None,
    distance_bias: Tensor | None = None,
) -> Tensor:
    """Equations 9 and 10 of the Bi-BloSAN paper; arguments as in ``disa``.

    ``padding_mask`` hides queries, and keys unless ``hidden_keys`` says which of them are hidden.
    Half precision is computed in float32. Memory is O(B T^2 C): for tests and as the baseline of
    benchmarks.
    """
    work = torch.float64 if x.dtype == torch.float64 else torch.float32
    bias = None if distance_bias is None else distance_bias.to(work)
    factors = None
    if dropout_p:
        keep, (batch, length, _) = (1.0 - dropout_p) ** 0.5, x.shape
        pairs = torch.rand(batch, len(masks), length, length, device=x.device) < keep
        features = torch.rand(x.shape, device=x.device) < keep
        factors = (pairs.to(work) / keep, features.to(work) / keep)
    wide = (x.to(work), a.to(work), b.to(work))
    out = equation(*wide, bias, padding_mask, hidden_keys, masks, c, factors)
    return out.to(x.dtype)


def equation(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    bias: Tensor | None,
    hidden: Tensor | None,
    unseen: Tensor | None,
    masks: Sequence[PositionalMask],
    c: float,
    factors: Outputs | None = None,
    queries: slice = slice(None),
) -> Tensor:
    """The output at some queries, ``(B, queries, C)``.

    ``factors`` are those of dropout on (query, key) pairs ``(B, G, T, T)`` and on (key, feature)
    pairs ``(B, T, C)``; the other arguments are those of ``disa_reference``.
    """
    length, groups = x.shape[1], len(masks)
    b = b[:, queries]
    visible = torch.stack([m.allowed(length, x.device)[queries] for m in masks], -1)[None]
    if hidden is not None:
        keyless = (hidden if unseen is None else unseen)[..., None]
        x, a = (t.masked_fill(keyless, 0.0) for t in (x, a))
        b = b.masked_fill(hidden[:, queries, None], 0.0)
        visible = visible & ~keyless[:, None] & ~hidden[:, queries, None, None]
    if factors is not None:
        x = x * factors[1]
    # (B, query, key, G, C / G) from here on
    x, a, b = (t.unflatten(-1, (groups, -1)) for t in (x, a, b))
    score = c * torch.tanh((a[:, None] + b[:, :, None]) / c)  # eq. 9
    if bias is not None:
        score = score + by_position(bias)[:, queries].movedim(0, -1)[..., None]
    # A query without a visible key gets a softmax over all keys, finite in both passes, and its
    # output is then set to zero.
    alive = visible.any(2, keepdim=True)
    score = score.masked_fill((~visible & alive)[..., None], float("-inf"))  # eq. 10
    p = torch.softmax(score, 2)
    if factors is not None:
        p = p * factors[0][:, :, queries].movedim(1, -1)[..., None]
    out = (p * x[:, None]).sum(2).masked_fill(~alive[:, :, 0, :, None], 0.0)
    return out.flatten(-2)


@dataclass(frozen=True)
class DiSACall(Call, ABC):
    """What every kernel of DiSA computes.

    Inputs are x, a, b, the bias by distance, hidden queries, unseen keys and the seed.
    """

    masks: tuple[PositionalMask, ...]
    c: float
    dropout_p: float
    projections = 3

    def equation(self, inputs: Sequence[Any], factors: Outputs | None, queries: slice) -> Tensor:
        """See ``Call.equation``."""
        x, a, b, bias, hidden, unseen, _ = inputs
        options = (self.masks, self.c, factors, queries)
        return equation(x, a, b, bias, hidden, unseen, *options)
