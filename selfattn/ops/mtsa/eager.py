"""MTSA without an n x n x d tensor: query blocks over visible keys, recomputed in backward.

The softmax of eq. 11 factorises (Algorithm 1): with P = exp(sigma_t(R)) and E = exp(S),
``H = (P (v * E)) / (P E)``. P is shifted by the maximum of its row, which cancels, and E by its
maximum over the keys. Such a shift can lie far above the keys that a query sees, and then every
visible weight underflows; so the smallest denominator is checked afterwards, and the rows of a
block that fail are computed again by ``rescue``. The derivation is in this folder's README.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..common import autograd
from ..common.distance import DistanceTable
from ..common.dropout import FactorDropout
from .block import Block, Saved, Shared, Sum, Workspace
from .equation import MTSACall, attend
from .rescue import SMALLEST_DENOMINATOR, Failure, rescue_backward, rescue_forward
from .tiling import Tile, dropout_factors, live_queries, parts


class _Eager(MTSACall):
    """Algorithm 1 in blocks; saves H and 1 / denominator, O(T D) each."""

    def room(self, inputs: Sequence[Any]) -> Saved:
        """See ``KernelCall.room``."""
        v = inputs[2]
        batch, heads, length, width = v.shape

        def room(*shape: int) -> Tensor:
            """``(B, H, ...)``, each head's memory in one piece."""
            return torch.empty(heads, batch, *shape, dtype=v.dtype, device=v.device).transpose(0, 1)

        # H in the memory order of v, so that the heads are side by side as the next layer wants.
        h, rescued = torch.empty_like(v), v.new_zeros(v.shape[:3], dtype=torch.bool)
        return Saved(h, room(length, width), room(length), room(1, width), rescued)

    def forward(self, inputs: Sequence[Any]) -> Saved:
        """See ``Call.forward``."""
        q, k, v, s, _, padding, _ = inputs
        saved = self.room(inputs)
        shared = self._shared(inputs)
        with torch.autocast(q.device.type, enabled=False):
            for part in parts(self.masks, len(q), q.shape[2]):
                mine = saved.of(part)
                _forward_part(Block((q, k, v, s), padding, part, shared, mine), mine)
        return saved

    def backward(
        self, grad: Tensor, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> tuple[Tensor, ...]:
        """See ``Call.backward``."""
        q, k, v, s, _, padding, _ = inputs
        saved = Saved(*outputs)
        shared = self._shared(inputs)
        grads = tuple(torch.empty_like(t) for t in (q, k, v, s))
        rescued = bool(saved.rescued.any())
        with torch.autocast(q.device.type, enabled=False):
            for part in parts(self.masks, len(q), q.shape[2]):
                mine = saved.of(part)
                block = Block((q, k, v, s), padding, part, shared, mine, known=True)
                failed = _failures(block, mine) if rescued else []
                targets = _Gradients(*(part.of(t) for t in grads))
                _backward_part(block, mine, part.of(grad), failed, targets)
        return grads if shared.distance is None else (*grads, shared.distance.gradient())

    def factors(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        """See ``Call.factors``."""
        q, _, v, _, _, _, seed = inputs
        return dropout_factors(q, v, self.masks, self.dropout_p, int(seed))

    def _shared(self, inputs: Sequence[Any]) -> Shared:
        """What all parts share; the stream of dropout factors is the same in both passes."""
        q, _, _, _, bias, _, seed = inputs
        dropout = None if seed is None else FactorDropout(self.dropout_p, int(seed), q.device)
        distance = None if bias is None else DistanceTable(bias, q.dtype)
        return Shared(self.sigma_t, Workspace(q.dtype, q.device), dropout, distance)


mtsa_eager = functools.partial(attend, autograd.run, _Eager)


def _forward_part(block: Block, saved: Saved) -> None:
    """Fill H, 1 / denominator and the row maxima of one part; mark what ``rescue`` computed."""
    _zero_blind(block, saved.h, saved.inverse)
    space = block.space
    for tile in block.tiles:
        queries, keys = slice(tile.start, tile.stop), slice(tile.lo, tile.hi)
        p = block.weights(tile)
        den = space.bmm("den", p, block.e[:, keys])  # Algorithm 1, (rows, n_q, D)
        pair_drop = block.pair_dropout(tile)
        # Algorithm 1, (rows, n_q, D)
        num = space.bmm("num", p if pair_drop is None else p.mul_(pair_drop), block.ve[:, keys])
        dead = block.dead(tile)
        if dead is not None:
            den.flatten(0, 1).index_fill_(0, dead, float("inf"))  # of (rows * n_q, D)
        h, inverse = saved.h[..., queries, :], saved.inverse[..., queries, :]
        torch.reciprocal(den.view(h.shape), out=inverse)  # (b, g, n_q, D)
        torch.mul(num.view(h.shape), inverse, out=h)  # eq. 12; without a visible key exactly 0
        if not den.amin() >= SMALLEST_DENOMINATOR[den.dtype]:  # NaN is too small, as well
            _rescue(block, tile, den, pair_drop, saved)


def _zero_blind(block: Block, *tensors: Tensor) -> None:
    """Zero at the queries that no tile holds: by position they see nothing."""
    first, last = live_queries(block.part.mask, block.length)
    for t in tensors:
        t[..., :first, :] = 0.0
        t[..., last:, :] = 0.0


def _rescue(block: Block, tile: Tile, den: Tensor, pair_drop: Tensor | None, saved: Saved) -> None:
    """Compute the rows of a tile again whose denominator is too small, and mark them."""
    bad = ~(den >= SMALLEST_DENOMINATOR[den.dtype])
    failure = Failure(tile, bad.flatten(1).any(1).nonzero()[:, 0])
    changed = (saved.h, saved.inverse, saved.rescued)
    h, inverse, rescued = (t[:, :, tile.start : tile.stop] for t in changed)
    where = torch.unravel_index(failure.rows, h.shape[:2])
    h[where] = rescue_forward(block, failure, pair_drop)
    inverse[where] = 0.0  # so that the fast backward adds nothing for these rows
    rescued[where] = True


def _failures(block: Block, saved: Saved) -> list[Failure]:
    """What forward marked in one part."""
    marked = ((tile, saved.rescued[..., tile.start].flatten()) for tile in block.tiles)
    return [Failure(tile, rows.nonzero()[:, 0]) for tile, rows in marked if rows.any()]


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
    dn, dd = dn.flatten(0, 1), dd.flatten(0, 1)  # (b, g, T, D) -> (rows, T, D)
    g_ve, g_e = (Sum(space.take(name, *dn.shape)) for name in ("g_ve", "g_e"))
    gk = Sum(space.take("gk", *block.q.shape))
    repair = {failure.tile: failure for failure in failed}
    drops: dict[Tile, Tensor | None] = {}
    _zero_blind(block, out.q)
    for tile in block.tiles:
        queries, keys = slice(tile.start, tile.stop), slice(tile.lo, tile.hi)
        p = block.weights(tile)  # (rows, n_q, n_k)
        x, y = dn[:, queries], dd[:, queries]  # (rows, n_q, D)
        gr = space.bmm("gr", x, block.ve[:, keys].mT)  # gN (v * E)^T, (rows, n_q, n_k)
        g_e.add(keys, space.bmm("term", p.mT, y))  # - P^T gD, (rows, n_k, D)
        pair_drop = block.pair_dropout(tile)
        if pair_drop is None:
            g_ve.add(keys, space.bmm("term", p.mT, x))  # P^T gN, (rows, n_k, D)
        else:
            if tile in repair:
                drops[tile] = pair_drop.clone()
            gr.mul_(pair_drop)
            g_ve.add(keys, space.bmm("term", pair_drop.mul_(p).mT, x))
        gr.baddbmm_(y, block.e[:, keys].mT, alpha=-1)  # + gD E^T
        gr.mul_(p)  # no row-sum term: the row normaliser of P cancels in H
        block.add_distance_gradient(tile, gr)
        block.through_sigma_t(gr, p)
        gq = out.q[..., queries, :]  # through eq. 8, as gk
        torch.mul(space.bmm("term", gr, block.k[:, keys]).view(gq.shape), block.scale, out=gq)
        gk.add(keys, space.bmm("term", gr.mT, block.q[:, queries]))  # (rows, n_k, D_i)
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
    shape = out.v.shape  # (b, g, T, D)
    torch.mul(g_ve.view(shape), block.e.view(shape), out=out.v)
    torch.addcmul(from_ve.view(shape), block.e.view(shape), g_e.view(shape), value=-1, out=out.s)
