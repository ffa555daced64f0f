"""The reference under the arguments of ``disa``: as a backend, and where a kernel has no gradient.

A second derivative is that of the equation, some queries at a time.
"""

from abc import ABC
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...masks import PositionalMask, stacked
from ..common.autograd import Outputs
from ..common.distance import by_position
from ..common.dropout import draw_factors
from ..common.operators import KernelCall
from .reference import disa_reference

# exp(-2c s) loses 2c * 6e-8 of a weight to rounding in float32: above this c, float64 is used.
LARGEST_C_FLOAT32 = 10.0


def disa_slow(
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
    """The backend ``"reference"``; arguments as in ``disa``.

    ``padding_mask`` hides queries, and keys unless ``hidden_keys`` says which of them are hidden.
    Half precision is computed in float32. Memory is O(B T^2 C): for tests and as the baseline of
    benchmarks.
    """
    work = torch.float64 if x.dtype == torch.float64 else torch.float32
    bias = None if distance_bias is None else distance_bias.to(work)
    wide = (x.to(work), a.to(work), b.to(work))
    factors = None
    if dropout_p:
        batch, length, _ = x.shape
        factors = draw_factors((batch, len(masks), length, length), x.shape, dropout_p, wide[0])
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
    pairs ``(B, T, C)``; the other arguments are those of ``disa_slow``.
    """
    b = b[:, queries]
    # (1, queries, T, G)
    allowed = stacked(masks, x.shape[1], x.device, queries, dim=-1)[None]
    if hidden is not None:
        # Zeros, so that whatever a hidden position holds, even NaN, stays outside.
        keyless = (hidden if unseen is None else unseen)[..., None]  # (B, T, 1)
        x, a = (t.masked_fill(keyless, 0.0) for t in (x, a))
        b = b.masked_fill(hidden[:, queries, None], 0.0)
        # (B, queries, T, G)
        allowed = allowed & ~keyless[:, None] & ~hidden[:, queries, None, None]
    # (queries, T, G)
    far = None if bias is None else by_position(bias)[:, queries].movedim(0, -1)
    pairs, features = (None, None) if factors is None else factors
    if pairs is not None:
        pairs = pairs[:, :, queries].movedim(1, -1)  # (B, queries, T, G)
    return disa_reference(x, a, b, allowed, c, far, pairs, features)


@dataclass(frozen=True)
class DiSACall(KernelCall, ABC):
    """What every kernel of DiSA computes.

    Inputs are x, a, b, the bias by distance, hidden queries, unseen keys and the seed.
    """

    masks: tuple[PositionalMask, ...]
    c: float
    dropout_p: float
    projections = 3
    tensors = (
        "Tensor x, Tensor a, Tensor b, Tensor? bias, Tensor? padding, Tensor? unseen, Tensor? seed"
    )
    declared = "int[] left, int[] right, float c, float dropout_p"

    def room(self, inputs: Sequence[Any]) -> Outputs:
        """The output and the other results of its size, zeros: what is hidden stays 0."""
        x = inputs[0]
        return x.new_zeros(x.shape), x.new_zeros(x.shape)

    def gradients(self, inputs: Sequence[Any]) -> Outputs:
        """See ``KernelCall.gradients``; what is hidden stays 0."""
        x = inputs[0]
        return x.new_zeros(x.shape), x.new_zeros(x.shape), x.new_zeros(x.shape)

    def equation(self, inputs: Sequence[Any], factors: Outputs | None, queries: slice) -> Tensor:
        x, a, b, bias, hidden, unseen, _ = inputs
        return equation(x, a, b, bias, hidden, unseen, self.masks, self.c, factors, queries)


def attend(
    run: Callable[..., Tensor],
    kind: Callable[..., DiSACall],
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
    """A backend of ``disa``: ``run`` on a call of a kind; other arguments as in ``disa_slow``.

    Half precision is computed in float32 and rounded once at the end.
    """
    work = torch.float64 if x.dtype == torch.float64 or c > LARGEST_C_FLOAT32 else torch.float32
    # A tensor, so that a compiled model draws a new one each time.
    seed = torch.randint(1 << 62, (), device="cpu") if dropout_p else None
    wide = (t.to(work) for t in (x, a, b))
    call = kind(tuple(masks), c, dropout_p)
    return run(call, *wide, distance_bias, padding_mask, hidden_keys, seed).to(x.dtype)


def refuse_c(c: float) -> str | None:
    """Why kernels in float32 cannot be used for this bound of scores; None if they can."""
    if c <= LARGEST_C_FLOAT32:
        return None
    return f"c {c} is above {LARGEST_C_FLOAT32}, the largest that float32 sums allow"
