"""MTSA without an n x n x d tensor: query blocks over visible keys, recomputed in backward.

The softmax of eq. 11 factorises (Algorithm 1): with P = exp(sigma_t(R)) and E = exp(S),
``H = (P (v * E)) / (P E)``. P is used normalised over its row, which cancels, and E is shifted by
its maximum over the keys. Such a shift can lie far above the keys that a query sees, and then every
visible weight underflows; so the smallest denominator is checked afterwards, and the rows of a
block that fail are computed again by ``rescue``. The derivation is in this folder's README.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from selfattn.masks import PositionalMask
from selfattn.ops.mtsa.rescue import Block, rescue_backward, rescue_forward
from selfattn.ops.mtsa.tiling import FactorDropout, Tile, chunks, draw_seed, head_groups, tiles

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
) -> Tensor:
    """Algorithm 1 of the MTSA paper in query blocks; arguments as in ``mtsa``.

    Half precision is computed in float32 and rounded once at the end. Memory is O(B H T D).
    """
    seed = draw_seed() if dropout_p else 0
    options = _Options(tuple(masks), sigma_t, dropout_p, seed)
    out: Tensor = _MTSA.apply(q, k, v, s, padding_mask, options)
    return out


class _Options(NamedTuple):
    """What is not a tensor."""

    masks: tuple[PositionalMask, ...]
    sigma_t: str
    dropout_p: float
    seed: int

    def dropout(self, device: torch.device) -> FactorDropout | None:
        """A fresh stream of dropout factors: the same one in forward and in backward."""
        return FactorDropout(self.dropout_p, self.seed, device) if self.dropout_p else None


class _Chunk(NamedTuple):
    """Some rows of one head group, in working precision; padding has k = v = 0 and s = -inf."""

    mask: PositionalMask
    tiles: list[Tile]
    q: Tensor  # (rows, T, D_i), scaled by 1 / sqrt(D_i)
    k: Tensor  # (rows, T, D_i)
    v: Tensor  # (rows, T, D)
    s: Tensor  # (rows, T, D)
    padding: Tensor | None  # (rows, T)
    dead: Tensor  # (rows or 1, T, 1): queries without a visible key
    sigma_t: str


class _MTSA(torch.autograd.Function):
    """The autograd function behind ``mtsa_eager``; saves H and the denominator, O(T D) each."""

    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        s: Tensor,
        padding: Tensor | None,
        options: _Options,
    ) -> Tensor:
        work = torch.float64 if q.dtype == torch.float64 else torch.float32
        out = torch.empty(v.shape, dtype=work, device=v.device)
        den = torch.empty_like(out)
        failures: list[list[Block]] = []  # one list for each chunk
        dropout = options.dropout(q.device)
        with torch.autocast(q.device.type, enabled=False):
            for mask, heads in head_groups(options.masks):
                parts = []
                for chunk in _walk((q, k, v, s), padding, mask, heads, options.sigma_t, work):
                    h, d, failed = _forward_chunk(chunk, dropout)
                    parts.append((h, d))
                    failures.append(failed)
                for whole, done in zip((out, den), zip(*parts, strict=True), strict=True):
                    _put(whole, heads, done)
        ctx.save_for_backward(q, k, v, s, padding, out, den)
        ctx.options, ctx.failures = options, failures
        return out.to(q.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, s, padding, out, den = ctx.saved_tensors
        work, options = out.dtype, ctx.options
        grads = [torch.empty(t.shape, dtype=t.dtype, device=t.device) for t in (q, k, v, s)]
        dropout = options.dropout(q.device)
        failures = iter(ctx.failures)
        with torch.autocast(q.device.type, enabled=False):
            for mask, heads in head_groups(options.masks):
                group = [_rows(t, heads) for t in (grad, out, den)]
                parts, first = [], 0
                for chunk in _walk((q, k, v, s), padding, mask, heads, options.sigma_t, work):
                    rows = slice(first, first + len(chunk.q))
                    first = rows.stop
                    g, h, d = (t[rows].to(work) for t in group)
                    parts.append(_backward_chunk(chunk, g, h, d, next(failures), dropout))
                for whole, done in zip(grads, zip(*parts, strict=True), strict=True):
                    _put(whole, heads, done)
        return *grads, None, None


def _walk(
    inputs: tuple[Tensor, Tensor, Tensor, Tensor],
    padding: Tensor | None,
    mask: PositionalMask,
    heads: list[int],
    sigma_t: str,
    work: torch.dtype,
) -> Iterator[_Chunk]:
    """One head group in chunks of rows, always in the same order."""
    batch, _, length, width = inputs[0].shape
    rows = [_rows(t, heads) for t in inputs]
    visible_to_padding = torch.zeros(1, length, dtype=torch.bool, device=rows[0].device)
    dead = mask.visible_keys(visible_to_padding if padding is None else padding) == 0
    if padding is not None:
        dead = dead.repeat_interleave(len(heads), 0)
        padding = padding.repeat_interleave(len(heads), 0)
    blocks = tiles(mask, length)
    for part in chunks(batch * len(heads), length):
        q, k, v, s = (t[part].to(work) for t in rows)
        hidden = None if padding is None else padding[part]
        if hidden is not None:
            # Zeros, so that whatever a padded position holds (a huge score, NaN) stays outside.
            k, v = (t.masked_fill(hidden[..., None], 0.0) for t in (k, v))
            s = s.masked_fill(hidden[..., None], float("-inf"))
        blind = (dead if padding is None else dead[part])[..., None]
        yield _Chunk(mask, blocks, q * width**-0.5, k, v, s, hidden, blind, sigma_t)


def _heads(heads: list[int]) -> slice | list[int]:
    """Neighbouring heads as a slice: views instead of gathered copies."""
    if heads[-1] - heads[0] + 1 == len(heads):
        return slice(heads[0], heads[-1] + 1)
    return heads


def _rows(t: Tensor, heads: list[int]) -> Tensor:
    """``(B, H, T, D)`` -> ``(B * len(heads), T, D)`` for some of the heads."""
    return t[:, _heads(heads)].flatten(0, 1)


def _put(whole: Tensor, heads: list[int], parts: tuple[Tensor, ...]) -> None:
    """The reverse of ``_rows`` for the chunks of a group."""
    rows = parts[0] if len(parts) == 1 else torch.cat(parts)
    whole[:, _heads(heads)] = rows.unflatten(0, (len(whole), len(heads))).to(whole.dtype)


@functools.lru_cache(maxsize=512)
def _hidden(
    mask: PositionalMask, offset: int, queries: int, keys: int, device: torch.device
) -> Tensor:
    """What a block of queries must not see of the keys that begin ``offset`` after it."""
    return ~mask.block(0, queries, offset, offset + keys, device)


def _weights(chunk: _Chunk, tile: Tile) -> tuple[Tensor, Tensor]:
    """exp(sigma_t(R)) over the visible keys, divided by its row sum; and R itself.

    Padded keys take part with R = 0: their E is 0, so they only make the denominator smaller.
    """
    length = chunk.q.shape[1]
    r = torch.bmm(chunk.q[:, tile.start : tile.stop], chunk.k[:, tile.lo : tile.hi].mT)  # eq. 8
    score = F.logsigmoid(r) if chunk.sigma_t == "logsigmoid" else r
    lo, hi = chunk.mask.common_range(tile.start, tile.stop, length)
    lo = min(max(lo, tile.lo), tile.hi)
    hi = min(max(hi, lo), tile.hi)
    for first, last in ((tile.lo, lo), (hi, tile.hi)):  # keys that only some of the queries see
        if first < last:
            size = tile.stop - tile.start
            hidden = _hidden(chunk.mask, first - tile.start, size, last - first, r.device)
            score[..., first - tile.lo : last - tile.lo].masked_fill_(hidden, float("-inf"))
    p = torch.softmax(score, -1)
    # Under a strict mask the first or the last query sees nothing: its row is NaN here.
    for query in (tile.start, tile.stop - 1):
        lo, hi = chunk.mask.key_range(query, query + 1, length)
        if lo == hi:
            p[:, query - tile.start] = 0.0
    return p, r


def _factors(chunk: _Chunk, drop: Tensor | None) -> Tensor:
    """[v * E, E] ``(rows, T, 2 D)``, the first half dropped: lines 4 and 5 of Algorithm 1."""
    rows, length, width = chunk.v.shape
    shift = chunk.s.amax(1, keepdim=True)
    shift.masked_fill_(shift == float("-inf"), 0.0)
    both = chunk.v.new_empty(rows, length, 2 * width)
    ve, e = both.split(width, -1)
    torch.sub(chunk.s, shift, out=e)
    e.exp_()
    torch.mul(chunk.v, e, out=ve)
    if drop is not None:
        ve.mul_(drop)
    return both


def _forward_chunk(
    chunk: _Chunk, dropout: FactorDropout | None
) -> tuple[Tensor, Tensor, list[Block]]:
    """H and its denominator for one chunk, and the blocks that were computed by ``rescue``."""
    width = chunk.v.shape[-1]
    drop = None if dropout is None else dropout.factor(chunk.v, *chunk.v.shape)
    both = _factors(chunk, drop)
    num_den = torch.empty_like(both)  # queries outside of all tiles are dead and filled below
    pair_drops: list[Tensor | None] = []
    for tile in chunk.tiles:
        p, _ = _weights(chunk, tile)
        out, right = num_den[:, tile.start : tile.stop], both[:, tile.lo : tile.hi]
        if dropout is None:
            pair_drops.append(None)
            out.copy_(torch.bmm(p, right))
        else:
            pair_drop = dropout.factor(p, *p.shape)
            pair_drops.append(pair_drop)
            out[..., width:] = torch.bmm(p, right[..., width:])
            out[..., :width] = torch.bmm(p.mul_(pair_drop), right[..., :width])
    num, den = num_den.split(width, -1)
    den.masked_fill_(chunk.dead, 1.0)
    h = (num / den).masked_fill_(chunk.dead, 0.0)  # eq. 12; without a visible key exactly 0

    failed = []
    wrong = ~(den >= SMALLEST_DENOMINATOR[den.dtype])  # catches NaN, too
    if wrong.any():
        for tile, pairs in zip(chunk.tiles, pair_drops, strict=True):
            rows = wrong[:, tile.start : tile.stop].flatten(1).any(1).nonzero()[:, 0]
            if len(rows):
                block = Block(tile, rows)
                h[rows, tile.start : tile.stop] = rescue_forward(chunk, block, drop, pairs)
                failed.append(block)
    return h, den, failed


def _backward_chunk(
    chunk: _Chunk,
    grad: Tensor,
    h: Tensor,
    den: Tensor,
    failed: list[Block],
    dropout: FactorDropout | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, s for one chunk; P is computed again tile by tile."""
    width = chunk.v.shape[-1]
    drop = None if dropout is None else dropout.factor(chunk.v, *chunk.v.shape)
    both = _factors(chunk, drop)
    e = both[..., width:]
    dn = (grad / den).masked_fill_(chunk.dead, 0.0)
    for block in failed:  # their gradients come from rescue_backward
        dn[block.rows, block.tile.start : block.tile.stop] = 0.0
    dnd = torch.cat([dn, -dn * h], -1)  # gradients of numerator and denominator
    g_both = torch.zeros_like(both)
    gq, gk = torch.zeros_like(chunk.q), torch.zeros_like(chunk.k)
    pair_drops: dict[Tile, Tensor] = {}
    for tile in chunk.tiles:
        queries, keys = slice(tile.start, tile.stop), slice(tile.lo, tile.hi)
        p, r = _weights(chunk, tile)
        x, right, g_right = dnd[:, queries], both[:, keys], g_both[:, keys]
        if dropout is None:
            gr = torch.bmm(x, right.mT)
            g_right += torch.bmm(p.mT, x)
        else:
            pair_drop = pair_drops[tile] = dropout.factor(p, *p.shape)
            gr = torch.bmm(x[..., :width], right[..., :width].mT).mul_(pair_drop)
            gr.baddbmm_(x[..., width:], right[..., width:].mT)
            g_right[..., :width] += torch.bmm((p * pair_drop).mT, x[..., :width])
            g_right[..., width:] += torch.bmm(p.mT, x[..., width:])
        gr.mul_(p)  # no row-sum term: the row normaliser of P cancels in H
        if chunk.sigma_t == "logsigmoid":
            gr.mul_(torch.sigmoid(r.neg_()))
        gq[:, queries] = torch.bmm(gr, chunk.k[:, keys])
        gk[:, keys] += torch.bmm(gr.mT, chunk.q[:, queries])
    g_ve, g_e = g_both.split(width, -1)
    gv = (g_ve if drop is None else g_ve * drop) * e
    gs = gv * chunk.v + g_e * e
    for block in failed:
        parts = rescue_backward(chunk, block, grad, drop, pair_drops.get(block.tile))
        for total, part in zip((gq, gk, gv, gs), parts, strict=True):
            total[block.rows] += part
    return gq.mul_(chunk.q.shape[-1] ** -0.5), gk, gv, gs
