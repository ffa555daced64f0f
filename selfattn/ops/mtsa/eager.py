"""MTSA without an n x n x d tensor: query blocks over visible keys, recomputed in backward.

The softmax of eq. 11 factorises (Algorithm 1): with P = exp(sigma_t(R)) and E = exp(S),
``H = (P (v * E)) / (P E)``. P is shifted by the maximum of its row, which cancels, and E by its
maximum over the keys. Such a shift can lie far above the keys that a query sees, and then every
visible weight underflows; so the smallest denominator is checked afterwards, and the rows of a
block that fail are computed again by ``rescue``. The derivation is in this folder's README.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from selfattn.masks import PositionalMask
from selfattn.ops._distance import DistanceTable
from selfattn.ops.mtsa.block import Block, Saved, Shared, Sum, Workspace
from selfattn.ops.mtsa.rescue import Failure, rescue_backward, rescue_forward
from selfattn.ops.mtsa.tiling import FactorDropout, Tile, draw_seed, live_queries, parts

# A denominator above this has lost at most T * 1e-13 of its weight to underflow.
SMALLEST_DENOMINATOR = {torch.float32: 1e-25, torch.float64: 1e-280}


def mtsa_eager(
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
    """Algorithm 1 of the MTSA paper in query blocks; arguments as in ``mtsa``.

    Half precision is computed in float32 and rounded once at the end. Memory is O(B H T D).
    """
    seed = draw_seed() if dropout_p else 0
    options = _Options(tuple(masks), sigma_t, dropout_p, seed)
    out: Tensor = _MTSA.apply(q, k, v, s, distance_bias, padding_mask, options)
    return out


class _Options(NamedTuple):
    """What is not a tensor."""

    masks: tuple[PositionalMask, ...]
    sigma_t: str
    dropout_p: float
    seed: int

    def shared(self, like: Tensor, bias: Tensor | None) -> Shared:
        """What all parts share; the stream of dropout factors is the same in both passes."""
        dropout = FactorDropout(self.dropout_p, self.seed, like.device) if self.dropout_p else None
        distance = None if bias is None else DistanceTable(bias, like.dtype)
        return Shared(self.sigma_t, Workspace(like.dtype, like.device), dropout, distance)


class _MTSA(torch.autograd.Function):
    """The autograd function behind ``mtsa_eager``; saves H and 1 / denominator, O(T D) each."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        s: Tensor,
        bias: Tensor | None,
        padding: Tensor | None,
        options: _Options,
    ) -> Tensor:
        saved = _room(v)
        shared = options.shared(saved.h, bias)
        failures = []  # one list for each part
        with torch.autocast(q.device.type, enabled=False):
            for part in parts(options.masks, len(q), q.shape[2]):
                mine = saved.of(part)
                block = Block((q, k, v, s), padding, part, shared, mine)
                failures.append(_forward_part(block, mine))
        ctx.save_for_backward(q, k, v, s, bias, padding, *saved)
        ctx.options, ctx.failures = options, failures
        return saved.h.to(q.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, s, bias, padding, *rest = ctx.saved_tensors
        saved, options = Saved(*rest), ctx.options
        shared = options.shared(saved.h, bias)
        grads = tuple(torch.empty_like(t) for t in (q, k, v, s))
        with torch.autocast(q.device.type, enabled=False):
            walk = parts(options.masks, len(q), q.shape[2])
            for part, failed in zip(walk, ctx.failures, strict=True):
                mine = saved.of(part)
                block = Block((q, k, v, s), padding, part, shared, mine, known=True)
                targets = _Gradients(*(part.of(t) for t in grads))
                _backward_part(block, mine, part.of(grad), failed, targets)
        g_bias = None if shared.distance is None else shared.distance.gradient().to(bias.dtype)
        return *grads, g_bias, None, None


def _room(v: Tensor) -> Saved:
    """Empty tensors for what forward keeps."""
    batch, heads, length, width = v.shape
    work = torch.float64 if v.dtype == torch.float64 else torch.float32

    def room(*shape: int) -> Tensor:
        """``(B, H, ...)``, each head's memory in one piece."""
        return torch.empty(heads, batch, *shape, dtype=work, device=v.device).transpose(0, 1)

    # H in the memory order of v, so that the heads are side by side as the next layer wants them.
    h = torch.empty_like(v, dtype=work)
    return Saved(h, room(length, width), room(length), room(1, width))


def _forward_part(block: Block, saved: Saved) -> list[Failure]:
    """Fill H, 1 / denominator and the row maxima of one part; say what ``rescue`` computed."""
    _zero_blind(block, saved.h, saved.inverse)
    space = block.space
    failed = []
    for tile in block.tiles:
        queries, keys = slice(tile.start, tile.stop), slice(tile.lo, tile.hi)
        p = block.weights(tile)
        den = space.bmm("den", p, block.e[:, keys])
        pair_drop = block.pair_dropout(tile)
        num = space.bmm("num", p if pair_drop is None else p.mul_(pair_drop), block.ve[:, keys])
        dead = block.dead(tile)
        if dead is not None:
            den.flatten(0, 1).index_fill_(0, dead, float("inf"))
        h, inverse = saved.h[..., queries, :], saved.inverse[..., queries, :]
        torch.reciprocal(den.view(h.shape), out=inverse)
        torch.mul(num.view(h.shape), inverse, out=h)  # eq. 12; without a visible key exactly 0
        if not den.amin() >= SMALLEST_DENOMINATOR[den.dtype]:  # NaN is too small, as well
            failed.append(_rescue(block, tile, den, pair_drop, h, inverse))
    return failed


def _zero_blind(block: Block, *tensors: Tensor) -> None:
    """Zero at the queries that no tile holds: by position they see nothing."""
    first, last = live_queries(block.part.mask, block.length)
    for t in tensors:
        t[..., :first, :] = 0.0
        t[..., last:, :] = 0.0


def _rescue(
    block: Block, tile: Tile, den: Tensor, pair_drop: Tensor | None, h: Tensor, inverse: Tensor
) -> Failure:
    """Compute the rows of a tile again whose denominator is too small, and mark them."""
    bad = ~(den >= SMALLEST_DENOMINATOR[den.dtype])
    failure = Failure(tile, bad.flatten(1).any(1).nonzero()[:, 0])
    where = torch.unravel_index(failure.rows, h.shape[:2])
    h[where] = rescue_forward(block, failure, pair_drop)
    inverse[where] = 0.0  # so that the fast backward adds nothing for these rows
    return failure


class _Gradients(NamedTuple):
    """Where one part's gradients go, ``(b, g, T, .)`` each."""

    q: Tensor
    k: Tensor
    v: Tensor
    s: Tensor


def _backward_part(
    block: Block, saved: Saved, grad: Tensor, failed: list[Failure], out: _Gradients
) -> None:
    """Fill the gradients of q, k, v, s for one part; P is computed again tile by tile."""
    space, four = block.space, saved.h.shape
    dn, dd = space.take("dn", *four), space.take("dd", *four)
    torch.mul(grad, saved.inverse, out=dn)  # gradient of the numerator
    torch.mul(dn, saved.h, out=dd)  # minus the gradient of the denominator
    dn, dd = dn.flatten(0, 1), dd.flatten(0, 1)
    g_ve, g_e = (Sum(space.take(name, *dn.shape)) for name in ("g_ve", "g_e"))
    gk = Sum(space.take("gk", *block.q.shape))
    repair = {failure.tile: failure for failure in failed}
    drops: dict[Tile, Tensor | None] = {}
    _zero_blind(block, out.q)
    for tile in block.tiles:
        queries, keys = slice(tile.start, tile.stop), slice(tile.lo, tile.hi)
        p = block.weights(tile)
        x, y = dn[:, queries], dd[:, queries]
        gr = space.bmm("gr", x, block.ve[:, keys].mT)
        g_e.add(keys, space.bmm("term", p.mT, y))
        pair_drop = block.pair_dropout(tile)
        if pair_drop is None:
            g_ve.add(keys, space.bmm("term", p.mT, x))
        else:
            if tile in repair:
                drops[tile] = pair_drop.clone()
            gr.mul_(pair_drop)
            g_ve.add(keys, space.bmm("term", pair_drop.mul_(p).mT, x))
        gr.baddbmm_(y, block.e[:, keys].mT, alpha=-1)
        gr.mul_(p)  # no row-sum term: the row normaliser of P cancels in H
        block.add_distance_gradient(tile, gr)
        block.through_sigma_t(gr, p)
        gq = out.q[..., queries, :]
        torch.mul(space.bmm("term", gr, block.k[:, keys]).view(gq.shape), block.scale, out=gq)
        gk.add(keys, space.bmm("term", gr.mT, block.q[:, queries]))
    _finish(block, gk.result(), g_ve.result(), g_e.result(), out)
    for failure in failed:
        rescued = rescue_backward(block, failure, grad, drops.get(failure.tile))
        where = torch.unravel_index(failure.rows, four[:2])
        for total, term in zip(out, rescued, strict=True):
            total[where] += term.to(total.dtype)


def _finish(block: Block, gk: Tensor, g_ve: Tensor, g_e: Tensor, out: _Gradients) -> None:
    """From the sums over tiles to the gradients of k, v and s."""
    torch.mul(gk.view(out.k.shape), block.scale, out=out.k)
    from_ve = torch.mul(block.ve, g_ve, out=block.space.take("term", *g_ve.shape))
    if block.drop is not None:
        g_ve.mul_(block.drop)
    shape = out.v.shape
    torch.mul(g_ve.view(shape), block.e.view(shape), out=out.v)
    torch.addcmul(from_ve.view(shape), block.e.view(shape), g_e.view(shape), value=-1, out=out.s)
