"""The reference under the arguments of ``mtsa``: as a backend, and where a kernel has no gradient.

A second derivative is that of the equation, some queries at a time.
"""

from abc import ABC
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...masks import PositionalMask, stacked
from ..common.autograd import Outputs
from ..common.distance import by_position
from ..common.dropout import draw_factors
from ..common.operators import KernelCall
from .exact import SMALLEST_DENOMINATOR
from .reference import log_sigmoid, mtsa_reference

FACTORISED = False  # Algorithm 1 instead, while `selfattn export` records a graph


def drops_pairs_only(s: Tensor) -> bool:
    """Whether dropout has one factor, as where all features of a key share its score."""
    return s.shape[-1] == 1


def mtsa_slow(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None,
    sigma_t: str,
    dropout_p: float,
    distance_bias: Tensor | None = None,
) -> Tensor:
    """The backend ``"reference"``; arguments as in ``mtsa``.

    Half precision is computed in float32. Memory is O(B H T^2 D): for tests and small examples.
    """
    work = q.dtype if q.dtype == torch.float64 else torch.float32
    bias = None if distance_bias is None else distance_bias.to(work)
    wide = (q.to(work), k.to(work), v.to(work), s.to(work))
    factors = None
    if dropout_p:
        pairs = (*q.shape[:3], q.shape[2])
        factors = draw_factors(pairs, v.shape, dropout_p, wide[2], drops_pairs_only(s))
    kind = q.device.type
    # Autocast would round eq. 8. Turned off only where it is on: graphs of exports stay plain.
    autocasts = not q.is_meta and torch.is_autocast_enabled(kind)
    exact: Any = torch.autocast(kind, enabled=False) if autocasts else nullcontext()
    with exact:
        out = equation(*wide, bias, padding_mask, masks, sigma_t, factors)
    return out.to(q.dtype)


def equation(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    bias: Tensor | None,
    padding: Tensor | None,
    masks: Sequence[PositionalMask],
    sigma_t: str,
    factors: Outputs | None = None,
    queries: slice = slice(None),
) -> Tensor:
    """The output at some queries, ``(B, H, queries, D)``.

    ``factors`` are those of dropout on (query, key) pairs ``(B, H, T, T)`` and on (key, feature)
    pairs ``(B, H, T, D)``; the other arguments are those of ``mtsa``.
    """
    # (1, H, queries, T)
    allowed = stacked(masks, q.shape[2], q.device, queries)[None]
    if padding is not None:
        # Zeros, so that whatever a padded position holds, even NaN, stays outside.
        k, v, s = (t.masked_fill(padding[:, None, :, None], 0.0) for t in (k, v, s))
        allowed = allowed & ~padding[:, None, None, :]  # (B, H, queries, T)
    far = None if bias is None else by_position(bias)[:, queries]  # (H, queries, T)
    inputs = (q[:, :, queries], k, v, s, allowed, sigma_t, far)
    if factors is not None:
        return mtsa_reference(*inputs, factors[0][:, :, queries], factors[1])
    return _in_graph(*inputs) if FACTORISED else mtsa_reference(*inputs)


def _in_graph(
    q: Tensor, k: Tensor, v: Tensor, s: Tensor, visible: Tensor, sigma_t: str, bias: Tensor | None
) -> Tensor:
    """``mtsa_reference`` for an exported graph, which has no blocks: Algorithm 1 where it holds.

    The shifts are maxima over the visible keys. A query without one keeps its finite scores; its
    result is set to 0 afterwards.
    """
    r = (q * q.shape[-1] ** -0.5) @ k.mT  # eq. 8, (B, H, Tq, T)
    if sigma_t == "logsigmoid":
        r = log_sigmoid(r)
    if bias is not None:
        r = r + bias
    alive = visible.any(-1, keepdim=True)  # (B or 1, H, Tq, 1)
    r = r.masked_fill(~visible & alive, float("-inf"))
    p = torch.exp(r - r.amax(-1, keepdim=True))
    shifted = s.masked_fill(~visible.any(-2)[..., None], float("-inf"))
    shift = shifted.amax(-2, keepdim=True)
    e = torch.exp(shifted - shift.masked_fill(shift == float("-inf"), 0.0))
    den = torch.where(alive, p @ e, 1.0)  # Algorithm 1, (B, H, Tq, D)
    h: Tensor = torch.cond(
        (den >= SMALLEST_DENOMINATOR[den.dtype]).all(),
        lambda p, e, alive, den, *t: torch.where(alive, p @ (t[2] * e), 0.0) / den,  # eq. 12
        lambda p, e, alive, den, *t: mtsa_reference(*t[:5], sigma_t, *t[5:]),  # type: ignore[call-arg]
        (p, e, alive, den, q, k, v, s, visible, *(() if bias is None else (bias,))),
    )
    return h


@dataclass(frozen=True)
class MTSACall(KernelCall, ABC):
    """What every kernel of MTSA computes.

    Inputs are q, k, v, s, the bias by distance, the padding and the seed.
    """

    masks: tuple[PositionalMask, ...]
    sigma_t: str
    dropout_p: float
    projections = 4
    tensors = "Tensor q, Tensor k, Tensor v, Tensor s, Tensor? bias, Tensor? padding, Tensor? seed"
    declared = "int[] left, int[] right, str sigma_t, float dropout_p"

    def equation(self, inputs: Sequence[Any], factors: Outputs | None, queries: slice) -> Tensor:
        q, k, v, s, bias, padding, _ = inputs
        return equation(q, k, v, s, bias, padding, self.masks, self.sigma_t, factors, queries)


def attend(
    run: Callable[..., Tensor],
    kind: Callable[..., MTSACall],
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None,
    sigma_t: str,
    dropout_p: float,
    distance_bias: Tensor | None = None,
) -> Tensor:
    """A backend of ``mtsa``: ``run`` on a call of a kind; other arguments as in ``mtsa``.

    Half precision is computed in float32 and rounded once at the end.
    """
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    # A tensor, so that a compiled model draws a new one each time.
    seed = torch.randint(1 << 62, (), device="cpu") if dropout_p else None
    wide = (t.to(work) for t in (q, k, v, s))
    bias = None if distance_bias is None else distance_bias.to(work)
    call = kind(tuple(masks), sigma_t, dropout_p)
    return run(call, *wide, bias, padding_mask, seed).to(q.dtype)
