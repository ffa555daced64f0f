"""DiSA without an n x n x d tensor: tiles over visible keys only, recomputed in backward.

With s = 1 / (1 + exp(2a/c) exp(2b/c)), the weight exp(c tanh((a + b) / c)) is exp(c) exp(-2 c s).
The exponentials inside belong to one key or one query, so a pair costs a product, a reciprocal and
one exponential; and as |score| <= c no maximum is needed. This folder's README derives it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from selfattn.masks import PositionalMask
from selfattn.ops.disa import tiling
from selfattn.ops.disa.tiling import Block, Spans
from selfattn.ops.mtsa.tiling import FactorDropout, draw_seed

# exp(-2c s) loses 2c * 6e-8 of a weight to rounding in float32: above this c, float64 is used.
LARGEST_C_FLOAT32 = 10.0
# Exponents 2a/c and 2b/c are clamped to this. Where one of them is clamped and the other is below
# the second number, the sum is beyond +-20, and tanh is +-1 to rounding with or without the clamp.
_CLAMP = {torch.float32: (80.0, 60.0), torch.float64: (600.0, 560.0)}


def disa_eager(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None,
    c: float,
    dropout_p: float,
    hidden_keys: Tensor | None = None,
) -> Tensor:
    """DiSA in tiles; arguments as in ``disa``.

    ``padding_mask`` hides queries, and keys unless ``hidden_keys`` says which of them are hidden.
    Half precision is computed in float32 and rounded once at the end. Memory is O(B T C).
    """
    seed = draw_seed() if dropout_p else 0
    options = _Options(tuple(masks), c, dropout_p, seed)
    unseen = padding_mask if hidden_keys is None else hidden_keys
    out: Tensor = _DiSA.apply(x, a, b, padding_mask, unseen, options)
    return out


class _Options(NamedTuple):
    """What is not a tensor."""

    masks: tuple[PositionalMask, ...]
    c: float
    dropout_p: float
    seed: int

    def dropout(self, device: torch.device) -> FactorDropout | None:
        """A fresh stream of dropout factors: the same one in forward and in backward."""
        return FactorDropout(self.dropout_p, self.seed, device) if self.dropout_p else None


class _Part(NamedTuple):
    """One feature group in working precision, its padding zeroed."""

    mask: PositionalMask
    x: Tensor  # (B, T, W), times the dropout factor if there is one
    key: Tensor  # (B, T, W), exp(2a/c); a itself under log_space
    query: Tensor  # (B, T, W), -exp(2b/c) / 2c; b itself under log_space
    c: float
    log_space: bool
    real: Tensor | None  # (B, 1, T, 1), 1 at keys and 0 elsewhere
    scale: Tensor | None  # (B, T, W), the dropout factor in x
    dropout: FactorDropout | None


class _DiSA(torch.autograd.Function):
    """The autograd function behind ``disa_eager``; saves the output and the denominator."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        a: Tensor,
        b: Tensor,
        hidden: Tensor | None,
        unseen: Tensor | None,
        options: _Options,
    ) -> Tensor:
        work = _work_dtype(x.dtype, options.c)
        out = torch.zeros(x.shape, dtype=work, device=x.device)
        den = torch.zeros_like(out)
        spans = _spans(x, hidden, unseen)
        dropout = options.dropout(x.device)
        for mask, group in tiling.groups(options.masks, x.shape[2]):
            inputs = [t[..., group] for t in (x, a, b)]
            part = _part(inputs, hidden, unseen, mask, options.c, work, dropout)
            _forward_part(part, spans, out[..., group], den[..., group])
        if hidden is not None:
            out.masked_fill_(hidden[..., None], 0.0)
        # A visible key weighs at least exp(-2c), so 0 means that there is none: the output is 0.
        den.masked_fill_(den == 0.0, 1.0)
        out.div_(den)
        ctx.save_for_backward(x, a, b, hidden, unseen, out, den)
        ctx.options = options
        return out.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, a, b, hidden, unseen, out, den = ctx.saved_tensors
        options = ctx.options
        spans = _spans(x, hidden, unseen)
        dropout = options.dropout(x.device)
        grads = [torch.zeros_like(out) for _ in range(3)]
        scaled = grad.to(out.dtype) / den
        if hidden is not None:
            scaled.masked_fill_(hidden[..., None], 0.0)
        for mask, group in tiling.groups(options.masks, x.shape[2]):
            inputs = [t[..., group] for t in (x, a, b)]
            part = _part(inputs, hidden, unseen, mask, options.c, out.dtype, dropout)
            _backward_part(part, spans, *(t[..., group] for t in (out, scaled, *grads)))
        return *(g.to(x.dtype) for g in grads), None, None, None


def _spans(x: Tensor, hidden: Tensor | None, unseen: Tensor | None) -> tuple[Spans, Spans]:
    """Where the queries lie, and where the keys."""
    queries = Spans(hidden, x.shape[0], x.shape[1])
    return queries, queries if unseen is hidden else Spans(unseen, x.shape[0], x.shape[1])


def _work_dtype(dtype: torch.dtype, c: float) -> torch.dtype:
    """The precision of the sums."""
    return torch.float64 if dtype == torch.float64 or c > LARGEST_C_FLOAT32 else torch.float32


def _part(
    inputs: Sequence[Tensor],
    hidden: Tensor | None,
    unseen: Tensor | None,
    mask: PositionalMask,
    c: float,
    work: torch.dtype,
    dropout: FactorDropout | None,
) -> _Part:
    """The inputs of one group, with everything that belongs to one token alone done."""
    value, key, query = (t.to(work) for t in inputs)
    # Zeros, so that whatever a hidden position holds, even NaN, stays outside.
    if unseen is not None:
        value, key = (t.masked_fill(unseen[..., None], 0.0) for t in (value, key))
    if hidden is not None:
        query = query.masked_fill(hidden[..., None], 0.0)
    largest, safe = _CLAMP[work]
    log_space = not min(_magnitude(key), _magnitude(query)) * 2.0 / c <= safe
    if not log_space:
        key = (key * (2.0 / c)).clamp_(-largest, largest).exp_()
        query = (query * (2.0 / c)).clamp_(-largest, largest).exp_().mul_(-0.5 / c)
    scale = None
    if dropout is not None:
        scale = tiling.feature_factor(dropout, value)
        value = value * scale
    real = None if unseen is None else (~unseen)[:, None, :, None].to(work)
    return _Part(mask, value, key, query, c, log_space, real, scale, dropout)


def _magnitude(t: Tensor) -> float:
    """The largest absolute value."""
    low, high = torch.aminmax(t)
    return max(-low.item(), high.item())


class _Tile(NamedTuple):
    """A block of queries with the keys ``[lo, hi)``: views and two buffers that broadcast."""

    lo: int
    hi: int
    key: Tensor  # (sentences, 1, keys, W)
    query: Tensor  # (sentences, queries, 1, W)
    value: Tensor  # (sentences, 1, keys, W)
    weight: Tensor  # (sentences, queries, keys, W)
    other: Tensor  # the same shape; in forward the same memory
    pairs: Tensor | None  # (sentences, queries, keys, 1), dropout


class _Buffers:
    """Memory for the tiles of one group, taken once."""

    def __init__(self, part: _Part, count: int) -> None:
        self._part = part
        self._key, self._query = part.key[:, None], part.query[:, :, None]
        self._value = part.x[:, None]
        self._memory = [part.x.new_empty(0)] * count
        self.offset = part.x.new_tensor(-0.5 / part.c)

    def tiles(self, block: Block) -> Iterator[_Tile]:
        """The tiles of a block, one after the other in the same memory."""
        part, rows = self._part, block.rows
        pairs = None if part.dropout is None else tiling.pair_factor(part.dropout, part.x, block)
        query = self._query[rows, block.start : block.stop]
        width = query.shape[-1]
        for lo, hi in block.keys(width):
            shape = (block.sentences, block.queries, hi - lo, width)
            size = shape[0] * shape[1] * shape[2] * shape[3]
            if len(self._memory[0]) < size:
                self._memory = [t.new_empty(size) for t in self._memory]
            buffers = [t[:size].view(shape) for t in self._memory]
            pair = None if pairs is None else pairs[:, :, lo - block.lo : hi - block.lo]
            key, value = self._key[rows, :, lo:hi], self._value[rows, :, lo:hi]
            yield _Tile(lo, hi, key, query, value, buffers[0], buffers[-1], pair)


@functools.lru_cache(maxsize=512)
def _visible(
    mask: PositionalMask, offset: int, queries: int, keys: int, dtype: torch.dtype, device: str
) -> Tensor:
    """1 where a block of queries sees the keys that begin ``offset`` after it, else 0."""
    visible = mask.block(0, queries, offset, offset + keys, device)
    return visible[..., None].to(dtype)


def _scores(part: _Part, tile: _Tile, offset: Tensor, out: Tensor) -> Tensor:
    """c tanh((a + b) / c) - c = -2c s, see the module's docstring, written into ``out``."""
    if part.log_space:  # the sum comes first: it is exact where a and b cancel
        torch.add(tile.query, tile.key, out=out)
        return out.mul_(-2.0 / part.c).sigmoid_().mul_(-2.0 * part.c)
    return torch.addcmul(offset, tile.query, tile.key, out=out).reciprocal_()


def _weights(part: _Part, block: Block, tile: _Tile, scores: Tensor) -> Tensor:
    """exp(score - c) with zeros where a key is not visible, in the tile's first buffer."""
    weight = torch.exp(scores, out=tile.weight)
    lo, hi = part.mask.common_range(block.start, block.stop, part.x.shape[1])
    lo = min(max(lo, tile.lo), tile.hi)
    hi = min(max(hi, lo), tile.hi)
    for first, last in ((tile.lo, lo), (hi, tile.hi)):  # keys that only some of the queries see
        if first < last:
            where = first - block.start, block.queries, last - first
            visible = _visible(part.mask, *where, weight.dtype, str(weight.device))
            weight[:, :, first - tile.lo : last - tile.lo].mul_(visible)
    if part.real is not None and block.padded:
        weight.mul_(part.real[block.rows, :, tile.lo : tile.hi])
    return weight


def _forward_part(part: _Part, spans: tuple[Spans, Spans], out: Tensor, den: Tensor) -> None:
    """Fill output and denominator of one group."""
    buffers = _Buffers(part, 1)
    for block in tiling.blocks(part.mask, *spans, part.x.shape[-1]):
        queries = (block.rows, slice(block.start, block.stop))
        sums: tuple[Tensor, Tensor] | None = None
        for tile in buffers.tiles(block):
            weight = _weights(part, block, tile, _scores(part, tile, buffers.offset, tile.weight))
            d = weight.sum(2)
            weight.mul_(tile.value)
            if tile.pairs is not None:
                weight.mul_(tile.pairs)
            n = weight.sum(2)
            sums = (n, d) if sums is None else (sums[0].add_(n), sums[1].add_(d))
        if sums is not None:
            out[queries], den[queries] = sums


def _backward_part(
    part: _Part,
    spans: tuple[Spans, Spans],
    out: Tensor,
    scaled: Tensor,
    gx: Tensor,
    ga: Tensor,
    gb: Tensor,
) -> None:
    """Add the gradients of one group; ``scaled`` is the output's gradient over the denominator.

    With w the weight and g the scaled gradient: dx_i = sum_j w g_j, and the score's gradient is
    w g_j (x_i - out_j), which tanh passes on times 1 - tanh^2 = 4 s (1 - s).
    """
    buffers = _Buffers(part, 2)
    out, scaled = out[:, :, None], scaled[:, :, None]
    for block in tiling.blocks(part.mask, *spans, part.x.shape[-1]):
        queries = (block.rows, slice(block.start, block.stop))
        g, h, gb_block = scaled[queries], out[queries], gb[queries]
        for tile in buffers.tiles(block):
            keys = (block.rows, slice(tile.lo, tile.hi))
            scores = _scores(part, tile, buffers.offset, tile.other)
            weight = _weights(part, block, tile, scores).mul_(g)
            # -2c s becomes -2c s (1 - s), that is -c/2 times 1 - tanh^2
            slope = scores.addcmul_(scores, scores, value=0.5 / part.c).mul_(weight)
            if tile.pairs is None:
                gx[keys].add_(weight.sum(1))
                torch.sub(tile.value, h, out=weight)
            else:
                gx[keys].add_(weight.mul_(tile.pairs).sum(1))
                torch.mul(tile.value, tile.pairs, out=weight).sub_(h)
            slope.mul_(weight)
            ga[keys].add_(slope.sum(1))
            gb_block.add_(slope.sum(2))
    ga.mul_(-2.0 / part.c)
    gb.mul_(-2.0 / part.c)
    if part.scale is not None:
        gx.mul_(part.scale)
