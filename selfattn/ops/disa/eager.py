"""DiSA without an n x n x d tensor: tiles over visible keys only, recomputed in backward.

With s = 1 / (1 + exp(2a/c) exp(2b/c)), the weight exp(c tanh((a + b) / c)) is exp(c) exp(-2 c s).
The exponentials inside belong to one key or one query, so a pair costs a product, a reciprocal and
one exponential; and as |score| <= c no maximum is needed. This folder's README derives it.
"""

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from ..common import autograd
from ..common.distance import DistanceTable
from ..common.dropout import FactorDropout
from . import tiling
from .equation import DiSACall, attend
from .part import Buffers, Part, part_of, scores_of, weights
from .tiling import Spans


class _Eager(DiSACall):
    """Tiles; saves the output and the denominator. Memory is O(B T C)."""

    def forward(self, inputs: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """The output and its denominator."""
        x, _, _, _, hidden, unseen, _ = inputs
        out, den = self.room(inputs)
        spans = _spans(x, hidden, unseen)
        for group, part in self._parts(inputs):
            _forward_part(part, spans, out[..., group], den[..., group])
        if hidden is not None:
            out.masked_fill_(hidden[..., None], 0.0)
        # A visible key weighs at least exp(-2c), so 0 means that there is none: the output is 0.
        den.masked_fill_(den == 0.0, 1.0)
        return out.div_(den), den

    def backward(
        self, grad: Tensor, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> tuple[Tensor, ...]:
        """See ``Call.backward``."""
        x, _, _, bias, hidden, unseen, _ = inputs
        out, den = outputs
        spans = _spans(x, hidden, unseen)
        grads = self.gradients(inputs)
        scaled = grad / den
        if hidden is not None:
            scaled.masked_fill_(hidden[..., None], 0.0)
        tables = []
        for group, part in self._parts(inputs):
            _backward_part(part, spans, *(t[..., group] for t in (out, scaled, *grads)))
            tables.append(part.distance)
        if bias is None:
            return grads
        return *grads, torch.cat([t.gradient() for t in tables if t is not None]).to(bias.dtype)

    def factors(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        """See ``Call.factors``."""
        x, _, _, bias, hidden, unseen, seed = inputs
        apart = bias is not None
        return tiling.dropout_factors(
            x, self.masks, hidden, self.dropout_p, int(seed), unseen, apart
        )

    def _parts(self, inputs: Sequence[Any]) -> Iterator[tuple[slice, Part]]:
        """Every group and its features."""
        *projected, bias, hidden, unseen, seed = inputs
        x = projected[0]
        dropout = None if seed is None else FactorDropout(self.dropout_p, int(seed), x.device)
        walk = tiling.groups(self.masks, x.shape[2], apart=bias is not None)
        for mask, number, group in walk:
            distance = None if bias is None else DistanceTable(bias[number], x.dtype)
            seen = (hidden, hidden if unseen is None else unseen)
            tensors = [t[..., group] for t in projected]
            yield group, part_of(tensors, *seen, mask, self.c, dropout, distance)


disa_eager = functools.partial(attend, autograd.run, _Eager)


def _spans(x: Tensor, hidden: Tensor | None, unseen: Tensor | None) -> tuple[Spans, Spans]:
    """Where the queries lie, and where the keys."""
    queries = Spans(hidden, x.shape[0], x.shape[1])
    return queries, queries if unseen is None else Spans(unseen, x.shape[0], x.shape[1])


def _forward_part(part: Part, spans: tuple[Spans, Spans], out: Tensor, den: Tensor) -> None:
    """Fill output and denominator of one group."""
    buffers = Buffers(part, 1)
    for block in tiling.blocks(part.mask, *spans, part.x.shape[-1]):
        queries = (block.rows, slice(block.start, block.stop))
        sums: tuple[Tensor, Tensor] | None = None
        for tile in buffers.tiles(block):
            # (sentences, queries, keys, W)
            weight = weights(part, block, tile, scores_of(part, tile, buffers.offset, tile.weight))
            d = weight.sum(2)  # denominator of the softmax, (sentences, queries, W)
            weight.mul_(tile.value)
            if tile.pairs is not None:
                weight.mul_(tile.pairs)
            n = weight.sum(2)  # numerator, the same shape
            sums = (n, d) if sums is None else (sums[0].add_(n), sums[1].add_(d))
        if sums is not None:
            out[queries], den[queries] = sums


def _backward_part(
    part: Part,
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
    buffers = Buffers(part, 2)
    out, scaled = out[:, :, None], scaled[:, :, None]  # (B, T, 1, W)
    for block in tiling.blocks(part.mask, *spans, part.x.shape[-1]):
        queries = (block.rows, slice(block.start, block.stop))
        g, h, gb_block = scaled[queries], out[queries], gb[queries]
        for tile in buffers.tiles(block):
            keys = (block.rows, slice(tile.lo, tile.hi))
            scores = scores_of(part, tile, buffers.offset, tile.other)
            weight = weights(part, block, tile, scores).mul_(g)
            # -2c s becomes -2c s (1 - s), that is -c/2 times 1 - tanh^2
            slope = scores.addcmul_(scores, scores, value=0.5 / part.c).mul_(weight)
            before = None if part.distance is None else weight.clone()
            if tile.pairs is None:
                gx[keys].add_(weight.sum(1))
                torch.sub(tile.value, h, out=weight)
            else:
                gx[keys].add_(weight.mul_(tile.pairs).sum(1))
                torch.mul(tile.value, tile.pairs, out=weight).sub_(h)
            slope.mul_(weight)
            if before is not None and part.distance is not None:
                at = (slice(None), block.start, block.stop, tile.lo, tile.hi)
                part.distance.add_gradient(*at, before.mul_(weight).sum((0, 3))[None])
            ga[keys].add_(slope.sum(1))  # over queries, (sentences, keys, W)
            gb_block.add_(slope.sum(2))  # over keys, (sentences, queries, W)
    ga.mul_(-2.0 / part.c)
    gb.mul_(-2.0 / part.c)
    if part.scale is not None:
        gx.mul_(part.scale)
