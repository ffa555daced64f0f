"""One feature group of DiSA in working precision, and the weights of its tiles."""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...masks import PositionalMask
from ..common.distance import DistanceTable
from ..common.dropout import FactorDropout
from . import tiling
from .tiling import Block, Group

# Exponents 2a/c and 2b/c are clamped to this. Where one of them is clamped and the other is below
# the second number, the sum is beyond +-20, and tanh is +-1 to rounding with or without the clamp.
_CLAMP = {torch.float32: (80.0, 60.0), torch.float64: (600.0, 560.0)}


class Tile(NamedTuple):
    """A block of queries with some of its keys."""

    keys: slice
    value: Tensor  # (sentences, 1, keys, W), times the dropout factor if there is one
    scores: Tensor  # (sentences, queries, keys, W), c tanh((a + b) / c) - c
    weight: Tensor  # the same shape, exp(score) with the bias, 0 where a key is not visible
    pairs: Tensor | None  # (sentences, queries, keys, 1), dropout


class Part:
    """One feature group in working precision, its padding zeroed.

    Arguments are those of a ``DiSACall``. Tiles lie in the same memory one after the other; with
    one buffer, their weights take that of their scores.

    Attributes:
        masks: which of the masks, and of the biases by distance, the group has.
        scale: the dropout factor in the values ``(B, T, W)``, or None.
    """

    def __init__(
        self,
        group: Group,
        inputs: Sequence[Any],
        c: float,
        dropout: FactorDropout | None,
        distance: DistanceTable | None,
        buffers: int,
    ) -> None:
        value, key, query = (t[..., group.features] for t in inputs[:3])
        hidden, unseen = inputs[4:6]
        unseen = hidden if unseen is None else unseen
        # Zeros, so that whatever a hidden position holds, even NaN, stays outside.
        if unseen is not None:
            value, key = (t.masked_fill(unseen[..., None], 0.0) for t in (value, key))
        if hidden is not None:
            query = query.masked_fill(hidden[..., None], 0.0)
        largest, safe = _CLAMP[value.dtype]
        self._log_space = not min(t.abs().max().item() for t in (key, query)) * 2.0 / c <= safe
        if not self._log_space:
            key = (key * (2.0 / c)).clamp_(-largest, largest).exp_()
            query = (query * (2.0 / c)).clamp_(-largest, largest).exp_().mul_(-0.5 / c)
        self.scale = None
        if dropout is not None:
            self.scale = dropout.factor(value)  # before those of pairs
            value = value * self.scale
        self.masks = group.parts
        self._group, self._c, self._dropout, self._distance = group, c, dropout, distance
        # exp(2a/c) and -exp(2b/c) / 2c; a and b themselves in log space
        self._value, self._key, self._query = value[:, None], key[:, None], query[:, :, None]
        self._offset = value.new_tensor(-0.5 / c)
        self._memory = [value.new_empty(0)] * buffers
        # 1 at keys and 0 elsewhere, (B, 1, T, 1)
        self._real = None if unseen is None else (~unseen)[:, None, :, None].to(value.dtype)

    def tiles(self, block: Block) -> Iterator[Tile]:
        """The tiles of a block."""
        pairs = near = None
        if self._dropout is not None:
            pairs = tiling.pair_factor(self._dropout, self._value, block)
        if self._distance is not None:
            near = self._near(self._distance, block)
        query = self._query[block.rows, block.queries]
        for lo, hi in block.runs(query.shape[-1], query.device):
            here = slice(lo - block.lo, hi - block.lo)
            pair, by_distance = (None if t is None else t[:, :, here] for t in (pairs, near))
            key = self._key[block.rows, :, lo:hi]
            scores, weight = self._room(*query.shape[:2], hi - lo, query.shape[-1])
            torch.exp(self._scores(query, key, scores), out=weight)
            if by_distance is not None:
                weight.mul_(by_distance)
            else:
                self._hide(weight, block, lo, hi)
            value = self._value[block.rows, :, lo:hi]
            yield Tile(slice(lo, hi), value, scores, weight, pair)

    def _room(self, *shape: int) -> tuple[Tensor, Tensor]:
        """Memory for scores and weights: anew for each tile it would take a quarter more time."""
        size = math.prod(shape)
        if len(self._memory[0]) < size:
            self._memory = [t.new_empty(size) for t in self._memory]
        return self._memory[0][:size].view(shape), self._memory[-1][:size].view(shape)

    def _scores(self, query: Tensor, key: Tensor, out: Tensor) -> Tensor:
        """c tanh((a + b) / c) - c = -2c s, see eager.py, written into ``out``."""
        if self._log_space:  # the sum comes first: it is exact where a and b cancel
            torch.add(query, key, out=out)
            return out.mul_(-2.0 / self._c).sigmoid_().mul_(-2.0 * self._c)
        return torch.addcmul(self._offset, query, key, out=out).reciprocal_()

    def _hide(self, weight: Tensor, block: Block, lo: int, hi: int) -> None:
        """Zero the weights of keys ``[lo, hi)`` where they are not visible."""
        mask, length = self._group.mask, self._key.shape[2]
        first, last = mask.common_range(block.start, block.stop, length)
        first = min(max(first, lo), hi)
        last = min(max(last, first), hi)
        for begin, end in ((lo, first), (last, hi)):  # keys that only some of the queries see
            if begin < end:
                offset, count, device = begin - block.start, end - begin, str(weight.device)
                queries = block.stop - block.start
                visible = _visible(mask, offset, queries, count, weight.dtype, device)
                weight[:, :, begin - lo : end - lo].mul_(visible)
        if self._real is not None and block.padded:
            weight.mul_(self._real[block.rows, :, lo:hi])

    def _near(self, distance: DistanceTable, block: Block) -> Tensor:
        """exp(bias) of the visible keys of a block ``(sentences or 1, queries, keys, 1)``, else 0.

        Up to a factor for each query, which cancels: its largest bias has 1. That is taken over the
        keys that it sees, or padding between would leave those behind it without any weight.
        """
        bounds = block.start, block.stop, block.lo, block.hi
        bias = distance.block(self.masks, *bounds)
        bias = bias.masked_fill(~self._group.mask.block(*bounds, bias.device), float("-inf"))
        if self._real is not None and block.padded:
            real = self._real[block.rows, :, block.lo : block.hi, 0]
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
