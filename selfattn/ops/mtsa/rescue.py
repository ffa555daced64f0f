"""Blocks whose denominator underflowed: again in float64, and, where that fails too, in log space.

With shifts taken over the keys of the block, float64 loses nothing until both ranges of scores pass
about 640; beyond that every feature gets a softmax of its own. Only the rows that failed come here,
so this is written to be read and to be right; the gradients are autograd's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from .reference import log_sigmoid, mtsa_reference
from .tiling import Tile

if TYPE_CHECKING:
    from .block import Block

# A denominator above this has lost at most T * 1e-13 of its weight to underflow.
SMALLEST_DENOMINATOR = {torch.float32: 1e-25, torch.float64: 1e-280}


class Failure(NamedTuple):
    """The rows of a part that failed in one tile."""

    tile: Tile
    rows: Tensor


class _Inputs(NamedTuple):
    """One block in float64: m failed rows, n_q queries, n_k keys."""

    q: Tensor  # (m, n_q, D_i), scaled
    k: Tensor  # (m, n_k, D_i)
    v: Tensor  # (m, n_k, D)
    s: Tensor  # (m, n_k, D)
    visible: Tensor  # (m, n_q, n_k)
    drop: Tensor | None  # (m, n_k, D)
    pair_drop: Tensor | None  # (m, n_q, n_k)
    bias: Tensor | None  # (m, n_q, n_k)
    sigma_t: str

    def queries(self, part: slice) -> _Inputs:
        """The same block for some of its queries."""
        pair_drop = None if self.pair_drop is None else self.pair_drop[:, part]
        bias = None if self.bias is None else self.bias[:, part]
        return self._replace(
            q=self.q[:, part], visible=self.visible[:, part], pair_drop=pair_drop, bias=bias
        )


def rescue_forward(block: Block, failure: Failure, pair_drop: Tensor | None) -> Tensor:
    """H of the failed rows of a tile, ``(m, n_q, D)``, in working precision.

    ``pair_drop`` is the dropout factor on the tile's (query, key) pairs ``(rows, n_q, n_k)``.
    """
    whole = _gather(block, failure, pair_drop)
    with torch.no_grad():
        parts = [attend(whole.queries(part)) for attend, part in _plan(whole)]
    return torch.cat(parts, 1).to(block.e.dtype)


def rescue_backward(
    block: Block, failure: Failure, grad: Tensor, pair_drop: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of the failed rows' q, k, v, s, each ``(m, T, .)``, in working precision.

    ``grad`` is that of H for the whole part ``(b, g, T, D)``. The gradient of the bias by distance
    goes to the block.
    """
    whole = _gather(block, failure, pair_drop)
    start = failure.tile.start
    where = torch.unravel_index(failure.rows, grad.shape[:2])
    g = grad[where][:, start : failure.tile.stop].to(torch.float64)
    totals = [torch.zeros_like(t[where], dtype=torch.float64) for t in block.inputs]
    keys = slice(failure.tile.lo, failure.tile.hi)
    for attend, part in _plan(whole):
        piece = whole.queries(part)
        names = ["q", "k", "v", "s"] + ["bias"] * (piece.bias is not None)
        leaves = {name: getattr(piece, name).detach().requires_grad_() for name in names}
        with torch.enable_grad():
            h = attend(piece._replace(**leaves))
            found = torch.autograd.grad(h, list(leaves.values()), g[:, part])
        queries = slice(start + part.start, start + part.stop)
        totals[0][:, queries] += found[0] * block.scale
        for total, piece_grad in zip(totals[1:], found[1:4], strict=True):
            total[:, keys] += piece_grad
        if piece.bias is not None:
            at = Tile(queries.start, queries.stop, keys.start, keys.stop)
            whole_part = found[4].new_zeros(block.rows, *found[4].shape[1:])
            block.add_distance_gradient(at, whole_part.index_copy(0, failure.rows, found[4]))
    gq, gk, gv, gs = (t.to(block.e.dtype) for t in totals)
    return gq, gk, gv, gs


def in_graph(
    q: Tensor, k: Tensor, v: Tensor, s: Tensor, visible: Tensor, sigma_t: str, bias: Tensor | None
) -> Tensor:
    """``mtsa_reference`` for an exported graph, which has no blocks: Algorithm 1 where it holds."""
    x = _Inputs(q * q.shape[-1] ** -0.5, k, v, s, visible, None, None, bias, sigma_t)
    p, e, alive, den = _factorised_terms(x)
    h: Tensor = torch.cond(
        (den >= SMALLEST_DENOMINATOR[den.dtype]).all(),
        lambda p, e, alive, den, *t: torch.where(alive, p @ (t[2] * e), 0.0) / den,  # eq. 12
        lambda p, e, alive, den, *t: mtsa_reference(*t[:5], sigma_t, *t[5:]),  # type: ignore[call-arg]
        (p, e, alive, den, q, k, v, s, visible, *(() if bias is None else (bias,))),
    )
    return h


def _gather(block: Block, failure: Failure, pair_drop: Tensor | None) -> _Inputs:
    tile, rows = failure
    keys = slice(tile.lo, tile.hi)
    mask = block.part.mask
    q, k, v, s = block.inputs
    where = torch.unravel_index(rows, q.shape[:2])
    visible = mask.block(tile.start, tile.stop, tile.lo, tile.hi, q.device)[None]
    k, v, s = (t[where][:, keys].double() for t in (k, v, s))
    if block.padding is not None:
        hidden = block.padding[where[0]][:, keys]
        visible = visible & ~hidden[:, None]
        k, v, s = (t.masked_fill(hidden[..., None], 0.0) for t in (k, v, s))
    return _Inputs(
        q=q[where][:, tile.start : tile.stop].double() * block.scale,
        k=k,
        v=v,
        s=s,
        visible=visible.expand(len(rows), -1, -1),  # (m, n_q, n_k)
        drop=None if block.drop is None else block.drop[rows, keys].double(),
        pair_drop=None if pair_drop is None else pair_drop[rows].double(),
        bias=block.bias(tile, where[1]),
        sigma_t=block.sigma_t,
    )


def _plan(whole: _Inputs) -> list[tuple[Callable[[_Inputs], Tensor], slice]]:
    """What computes which queries: all in factorised form if float64 holds it, else one by one."""
    with torch.no_grad():
        *_, den = _factorised_terms(whole)
        fits = bool((den >= SMALLEST_DENOMINATOR[den.dtype]).all())
    count = whole.q.shape[1]
    if fits:
        return [(_factorised, slice(0, count))]
    return [(_log_space, slice(j, j + 1)) for j in range(count)]


def _scores(x: _Inputs) -> tuple[Tensor, Tensor]:
    """sigma_t(R) with -inf at invisible keys, and which queries see a key ``(m, n_q, 1)``.

    A query without one keeps its finite scores; its result is set to 0 afterwards.
    """
    r = x.q @ x.k.mT  # eq. 8, (m, n_q, n_k)
    if x.sigma_t == "logsigmoid":
        r = log_sigmoid(r)
    if x.bias is not None:
        r = r + x.bias
    alive = x.visible.any(-1, keepdim=True)
    return r.masked_fill(~x.visible & alive, float("-inf")), alive


def _factorised_terms(x: _Inputs) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """P, E, alive and the denominator of Algorithm 1, with maxima over the block's visible keys."""
    r, alive = _scores(x)
    p = torch.exp(r - r.detach().amax(-1, keepdim=True))
    used = x.visible.any(-2)[..., None]
    s = x.s.masked_fill(~used, float("-inf"))
    shift = s.detach().amax(-2, keepdim=True)
    e = torch.exp(s - shift.masked_fill(shift == float("-inf"), 0.0))
    return p, e, alive, torch.where(alive, p @ e, 1.0)  # Algorithm 1, (m, n_q, D)


def _factorised(x: _Inputs) -> Tensor:
    p, e, alive, den = _factorised_terms(x)
    if x.pair_drop is not None:
        p = p * x.pair_drop
    ve = x.v * e if x.drop is None else x.v * e * x.drop  # Algorithm 1, (m, n_k, D)
    return torch.where(alive, p @ ve, 0.0) / den  # eq. 12, (m, n_q, D)


def _log_space(x: _Inputs) -> Tensor:
    """Equation 11 for one query: a softmax over the keys for each feature."""
    q, k, v, s, visible = (t[:, None] for t in (x.q, x.k, x.v, x.s, x.visible))  # (m, 1, ., .)
    q = q * q.shape[-1] ** 0.5  # not scaled
    others = (None if t is None else t[:, None] for t in (x.bias, x.pair_drop, x.drop))
    return mtsa_reference(q, k, v, s, visible, x.sigma_t, *others)[:, 0]  # eq. 10-12, (m, 1, D)
