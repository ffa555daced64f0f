"""MTSA without an n x n x d tensor: query blocks over visible keys, recomputed in backward.

The softmax of eq. 11 factorises (Algorithm 1): with P = exp(sigma_t(R)) and E = exp(S),
``H = (P (v * E)) / (P E)``. P is shifted by the maximum of its row, which cancels, and E by its
maximum over the keys. Such a shift can lie far above the keys that a query sees, and then every
visible weight underflows; so the smallest denominator is checked afterwards, and the rows of a
tile that fail are computed again by ``exact``. The derivation is in this folder's README.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..common import autograd
from ..common.autograd import Outputs
from ..common.distance import DistanceTable
from ..common.dropout import FactorDropout
from .block import Block
from .equation import MTSACall, attend, drops_pairs_only
from .exact import SMALLEST_DENOMINATOR, exact_backward, exact_forward
from .tiling import Tile, dropout_factors, parts

# Instead of the denominator: the fast backward adds nothing for a query that sees no key, nor for
# the rows of a tile that ``exact`` computed.
_BLIND, _EXACT = float("inf"), float("-inf")


class _Eager(MTSACall):
    """Algorithm 1 in tiles; saves H and its denominator, O(T D) each."""

    def room(self, inputs: Sequence[Any]) -> Outputs:
        """H, 0 where no tile has the query, and its denominator."""
        # In the memory order of v, so that the heads are side by side as the next layer wants.
        return torch.zeros_like(inputs[2]), torch.ones_like(inputs[3])

    def forward(self, inputs: Sequence[Any]) -> Outputs:
        outputs = self.room(inputs)
        with torch.autocast(inputs[0].device.type, enabled=False):
            for block in self._blocks(inputs, _table(inputs)):
                _forward(block, *(block.part.of(t) for t in outputs))
        return outputs

    def backward(self, grad: Tensor, inputs: Sequence[Any], outputs: Sequence[Any]) -> Outputs:
        distance = _table(inputs)
        grads = tuple(torch.zeros_like(t) for t in inputs[:4])
        exact = bool((outputs[1] == _EXACT).any())
        with torch.autocast(grad.device.type, enabled=False):
            for block in self._blocks(inputs, distance):
                g, h, den, *out = (block.part.of(t) for t in (grad, *outputs, *grads))
                _backward(block, g, h, den, out, exact)
        return grads if distance is None else (*grads, distance.gradient())

    def factors(self, inputs: Sequence[Any]) -> Outputs:
        q, _, v, s, _, _, seed = inputs
        only = drops_pairs_only(s)
        return dropout_factors(q, v, self.masks, self.dropout_p, int(seed), only)

    def _blocks(self, inputs: Sequence[Any], distance: DistanceTable | None) -> Iterator[Block]:
        """All parts; the stream of dropout factors is the same in both passes."""
        q, s, seed = inputs[0], inputs[3], inputs[-1]
        dropout = None
        if seed is not None:
            dropout = FactorDropout(self.dropout_p, int(seed), q.device, drops_pairs_only(s))
        for part in parts(self.masks, len(q), q.shape[2], q.device):
            yield Block(part, inputs, self.sigma_t, dropout, distance)


mtsa_eager = functools.partial(attend, autograd.run, _Eager)


def _table(inputs: Sequence[Any]) -> DistanceTable | None:
    """The bias by distance."""
    return None if inputs[4] is None else DistanceTable(inputs[4], inputs[0].dtype)


def _forward(block: Block, h: Tensor, dens: Tensor) -> None:
    """Fill H and its denominators of one part, ``(b, g, T, D)``."""
    split = block.part.split
    for tile in block.tiles:
        queries, keys = (..., tile.queries, slice(None)), (..., tile.keys, slice(None))
        p, _ = block.weights(tile)  # (rows, n_q, n_k)
        den = torch.bmm(p, block.e[keys])  # Algorithm 1, (rows, n_q, D or 1)
        pair_drop = block.pair_dropout(p)
        kept = p if pair_drop is None else p.mul_(pair_drop)
        num = torch.bmm(kept, block.ve[keys])  # Algorithm 1, (rows, n_q, D)
        if block.blind is not None:
            den.masked_fill_(block.blind[queries], _BLIND)
        out = num / den  # eq. 12; without a visible key exactly 0
        if not den.amin() >= SMALLEST_DENOMINATOR[den.dtype]:  # NaN is too small, as well
            bad = ~(den >= SMALLEST_DENOMINATOR[den.dtype])
            rows = bad.flatten(1).any(1).nonzero()[:, 0]
            out[rows] = exact_forward(block.exact(tile, rows, pair_drop)).to(out.dtype)
            den[rows] = _EXACT
        h[queries], dens[queries] = split(out), split(den)


def _backward(
    block: Block, grad: Tensor, h: Tensor, den: Tensor, out: Sequence[Tensor], exact: bool
) -> None:
    """Add the gradients of q, k, v, s of one part, ``(b, g, T, .)``; P is computed again.

    ``exact`` says whether there are rows of tiles that ``exact_forward`` computed.
    """
    gq, gk, gv, gs = out
    split = block.part.split
    dn = grad / den  # gradient of the numerator
    dd = block.per_score(dn * h)  # minus the gradient of the denominator
    for tile in block.tiles:
        queries, keys = (..., tile.queries, slice(None)), (..., tile.keys, slice(None))
        p, sigmoid = block.weights(tile)  # (rows, n_q, n_k)
        # (rows, n_q, D), (rows, n_q, D or 1)
        x, y = dn[queries].flatten(0, 1), dd[queries].flatten(0, 1)
        e, ve = block.e[keys], block.ve[keys]  # (rows, n_k, D or 1), (rows, n_k, D)
        gr = torch.bmm(x, ve.mT)  # gN (v * E)^T, (rows, n_q, n_k)
        pair_drop = block.pair_dropout(p)
        kept = p
        if pair_drop is not None:
            gr.mul_(pair_drop)
            kept = p * pair_drop
        g_ve = torch.bmm(kept.mT, x)  # P^T gN, (rows, n_k, D)
        g_e = torch.bmm(p.mT, y)  # - P^T gD, (rows, n_k, D or 1)
        gs[keys].add_(split(block.per_score(ve * g_ve).addcmul_(e, g_e, value=-1)))
        gv[keys].add_(split(g_ve.mul_(e if block.drop is None else e * block.drop[keys])))
        gr.baddbmm_(y, e.mT, alpha=-1)  # + gD E^T
        gr.mul_(p)  # no row-sum term: the row normaliser of P cancels in H
        block.add_distance_gradient(tile, gr)
        if sigmoid is not None:
            gr.addcmul_(gr, sigmoid, value=-1)  # times 1 - sigmoid(R)
        gq[queries] = split(torch.bmm(gr, block.k[keys]).mul_(block.scale))  # through eq. 8
        gk[keys].add_(split(torch.bmm(gr.mT, block.q[queries]).mul_(block.scale)))
        if exact:
            _add_exact(block, tile, pair_drop, grad[queries], den[queries], out)


def _add_exact(
    block: Block,
    tile: Tile,
    pair_drop: Tensor | None,
    grad: Tensor,
    den: Tensor,
    out: Sequence[Tensor],
) -> None:
    """Add the gradients of the rows of a tile that ``exact`` computed."""
    rows = (den[..., 0, 0].flatten() == _EXACT).nonzero()[:, 0]
    if not len(rows):
        return
    found = exact_backward(block.exact(tile, rows, pair_drop), grad.flatten(0, 1)[rows])
    sentence, head = torch.unravel_index(rows, out[0].shape[:2])
    for t, name, at in zip(out, "qkvs", (tile.queries, *[tile.keys] * 3), strict=True):
        t[sentence, head, at] += found[name].to(t.dtype)
    if "bias" in found:
        whole = found["bias"].new_zeros(block.part.rows, *found["bias"].shape[1:])
        block.add_distance_gradient(tile, whole.index_copy(0, rows, found["bias"]))
