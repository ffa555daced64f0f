"""One feature group of DiSA in working precision, and the weights of its tiles."""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...masks import PositionalMask
from ..common.distance import DistanceTable
from ..common.dropout import FactorDropout
from . import tiling
from .tiling import Block

# Exponents 2a/c and 2b/c are clamped to this. Where one of them is clamped and the other is below
# the second number, the sum is beyond +-20, and tanh is +-1 to rounding with or without the clamp.
_CLAMP = {torch.float32: (80.0, 60.0), torch.float64: (600.0, 560.0)}


class Part(NamedTuple):
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
    distance: DistanceTable | None  # of this group alone


def part_of(
    tensors: Sequence[Tensor],
    hidden: Tensor | None,
    unseen: Tensor | None,
    mask: PositionalMask,
    c: float,
    dropout: FactorDropout | None,
    distance: DistanceTable | None,
) -> Part:
    """The inputs of one group, with everything that belongs to one token alone done."""
    value, key, query = tensors
    # Zeros, so that whatever a hidden position holds, even NaN, stays outside.
    if unseen is not None:
        value, key = (t.masked_fill(unseen[..., None], 0.0) for t in (value, key))
    if hidden is not None:
        query = query.masked_fill(hidden[..., None], 0.0)
    largest, safe = _CLAMP[value.dtype]
    log_space = not min(_magnitude(key), _magnitude(query)) * 2.0 / c <= safe
    if not log_space:
        key = (key * (2.0 / c)).clamp_(-largest, largest).exp_()
        query = (query * (2.0 / c)).clamp_(-largest, largest).exp_().mul_(-0.5 / c)
    scale = None
    if dropout is not None:
        scale = tiling.feature_factor(dropout, value)
        value = value * scale
    real = None if unseen is None else (~unseen)[:, None, :, None].to(value.dtype)
    return Part(mask, value, key, query, c, log_space, real, scale, dropout, distance)


def _magnitude(t: Tensor) -> float:
    """The largest absolute value."""
    low, high = torch.aminmax(t)
    return max(-low.item(), high.item())


class Tile(NamedTuple):
    """A block of queries with the keys ``[lo, hi)``: views and two buffers that broadcast."""

    lo: int
    hi: int
    key: Tensor  # (sentences, 1, keys, W)
    query: Tensor  # (sentences, queries, 1, W)
    value: Tensor  # (sentences, 1, keys, W)
    weight: Tensor  # (sentences, queries, keys, W)
    other: Tensor  # the same shape; in forward the same memory
    pairs: Tensor | None  # (sentences, queries, keys, 1), dropout
    near: Tensor | None  # (sentences or 1, queries, keys, 1), see _near


class Buffers:
    """Memory for the tiles of one group, taken once."""

    def __init__(self, part: Part, count: int) -> None:
        self._part = part
        self._key, self._query = part.key[:, None], part.query[:, :, None]
        self._value = part.x[:, None]
        self._memory = [part.x.new_empty(0)] * count
        self.offset = part.x.new_tensor(-0.5 / part.c)

    def tiles(self, block: Block) -> Iterator[Tile]:
        """The tiles of a block, one after the other in the same memory."""
        part, rows = self._part, block.rows
        pairs = None if part.dropout is None else tiling.pair_factor(part.dropout, part.x, block)
        near = None if part.distance is None else _near(part, part.distance, block)
        query = self._query[rows, block.start : block.stop]
        width = query.shape[-1]
        for lo, hi in block.keys(width):
            shape = (block.sentences, block.queries, hi - lo, width)
            size = shape[0] * shape[1] * shape[2] * shape[3]
            if len(self._memory[0]) < size:
                self._memory = [t.new_empty(size) for t in self._memory]
            buffers = [t[:size].view(shape) for t in self._memory]
            here = slice(lo - block.lo, hi - block.lo)
            pair, by_distance = (None if t is None else t[:, :, here] for t in (pairs, near))
            key, value = self._key[rows, :, lo:hi], self._value[rows, :, lo:hi]
            yield Tile(lo, hi, key, query, value, buffers[0], buffers[-1], pair, by_distance)


def _near(part: Part, distance: DistanceTable, block: Block) -> Tensor:
    """exp(bias) of the visible keys of a block ``(sentences or 1, queries, keys, 1)``, else 0.

    Up to a factor for each query, which cancels: its largest bias has 1. That is taken over the
    keys that it sees, or padding between would leave those behind it without any weight.
    """
    bounds = block.start, block.stop, block.lo, block.hi
    bias = distance.block(slice(None), *bounds)
    bias = bias.masked_fill(~part.mask.block(*bounds, bias.device), float("-inf"))
    if part.real is not None and block.padded:
        real = part.real[block.rows, :, block.lo : block.hi, 0]
        bias = bias.masked_fill(real == 0.0, float("-inf"))
    peak = bias.amax(-1, keepdim=True)
    return (bias - peak.masked_fill(peak == float("-inf"), 0.0)).exp_()[..., None]


@functools.lru_cache(maxsize=512)
def _visible(
    mask: PositionalMask, offset: int, queries: int, keys: int, dtype: torch.dtype, device: str
) -> Tensor:
    """1 where a block of queries sees the keys that begin ``offset`` after it, else 0."""
    visible = mask.block(0, queries, offset, offset + keys, device)
    return visible[..., None].to(dtype)


def scores_of(part: Part, tile: Tile, offset: Tensor, out: Tensor) -> Tensor:
    """c tanh((a + b) / c) - c = -2c s, see eager.py, written into ``out``."""
    if part.log_space:  # the sum comes first: it is exact where a and b cancel
        torch.add(tile.query, tile.key, out=out)
        return out.mul_(-2.0 / part.c).sigmoid_().mul_(-2.0 * part.c)
    return torch.addcmul(offset, tile.query, tile.key, out=out).reciprocal_()


def weights(part: Part, block: Block, tile: Tile, scores: Tensor) -> Tensor:
    """exp(score - c) with zeros where a key is not visible, in the tile's first buffer."""
    weight = torch.exp(scores, out=tile.weight)
    if tile.near is not None:
        return weight.mul_(tile.near)
    lo, hi = part.mask.common_range(block.start, block.stop, part.x.shape[1])
    lo = min(max(lo, tile.lo), tile.hi)
    hi = min(max(hi, lo), tile.hi)
    for first, last in ((tile.lo, lo), (hi, tile.hi)):  # keys that only some of the queries see
        if first < last:
            offset, width, device = first - block.start, last - first, str(weight.device)
            visible = _visible(part.mask, offset, block.queries, width, weight.dtype, device)
            weight[:, :, first - tile.lo : last - tile.lo].mul_(visible)
    if part.real is not None and block.padded:
        weight.mul_(part.real[block.rows, :, tile.lo : tile.hi])
    return weight
