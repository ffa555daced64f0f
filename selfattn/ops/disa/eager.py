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
from ..common.autograd import Outputs
from ..common.distance import DistanceTable
from ..common.dropout import FactorDropout
from . import tiling
from .equation import DiSACall, attend
from .part import Part


class _Eager(DiSACall):
    """Tiles; saves the output and the denominator. Memory is O(B T C)."""

    def forward(self, inputs: Sequence[Any]) -> Outputs:
        """The output and its denominator."""
        hidden = inputs[4]
        out, den = self.room(inputs)
        for features, part, blocks in self._parts(inputs, _table(inputs), 1):
            for block in blocks:
                queries = (block.rows, block.queries, features)
                for tile in part.tiles(block):
                    weight = tile.weight
                    den[queries].add_(weight.sum(2))  # (sentences, queries, W)
                    weight.mul_(tile.value)
                    if tile.pairs is not None:
                        weight.mul_(tile.pairs)
                    out[queries].add_(weight.sum(2))
        if hidden is not None:
            out.masked_fill_(hidden[..., None], 0.0)
        # A visible key weighs at least exp(-2c), so 0 means that there is none: the output is 0.
        den.masked_fill_(den == 0.0, 1.0)
        return out.div_(den), den

    def backward(self, grad: Tensor, inputs: Sequence[Any], outputs: Sequence[Any]) -> Outputs:
        """See ``Call.backward``.

        With w the weight and g the output's gradient over the denominator: dx_i = sum_j w g_j, and
        the score's gradient is w g_j (x_i - out_j), which tanh passes on times
        1 - tanh^2 = 4 s (1 - s).
        """
        hidden, distance = inputs[4], _table(inputs)
        out, den = outputs
        gx, ga, gb = grads = self.gradients(inputs)
        scaled = grad / den
        if hidden is not None:
            scaled.masked_fill_(hidden[..., None], 0.0)
        for features, part, blocks in self._parts(inputs, distance, 2):
            for block in blocks:
                queries = (block.rows, block.queries, features)
                g, h = (t[queries][:, :, None] for t in (scaled, out))  # (sentences, queries, 1, W)
                for tile in part.tiles(block):
                    keys = (block.rows, tile.keys, features)
                    weight, scores, value = tile.weight.mul_(g), tile.scores, tile.value
                    # -2c s becomes -2c s (1 - s), that is -c/2 times 1 - tanh^2
                    slope = scores.addcmul_(scores, scores, value=0.5 / self.c).mul_(weight)
                    before = None if distance is None else weight.clone()
                    if tile.pairs is not None:
                        weight.mul_(tile.pairs)
                        value = value * tile.pairs
                    gx[keys].add_(weight.sum(1))  # over queries, (sentences, keys, W)
                    change = torch.sub(value, h, out=weight)
                    slope.mul_(change)
                    ga[keys].add_(slope.sum(1))
                    gb[queries].add_(slope.sum(2))  # over keys, (sentences, queries, W)
                    if distance is not None and before is not None:
                        at = (part.masks, block.start, block.stop, tile.keys.start, tile.keys.stop)
                        distance.add_gradient(*at, before.mul_(change).sum((0, 3))[None])
            if part.scale is not None:
                gx[..., features].mul_(part.scale)
        ga.mul_(-2.0 / self.c)
        gb.mul_(-2.0 / self.c)
        return grads if distance is None else (*grads, distance.gradient().to(inputs[3].dtype))

    def factors(self, inputs: Sequence[Any]) -> Outputs:
        x, _, _, _, hidden, unseen, seed = inputs
        return tiling.dropout_factors(x, self.masks, hidden, self.dropout_p, int(seed), unseen)

    def _parts(
        self, inputs: Sequence[Any], distance: DistanceTable | None, buffers: int
    ) -> Iterator[tuple[slice, Part, Iterator[tiling.Block]]]:
        """Every group: its features, what is computed of them, and its blocks."""
        x, _, _, _, hidden, unseen, seed = inputs
        dropout = None if seed is None else FactorDropout(self.dropout_p, int(seed), x.device)
        spans = tiling.spans(hidden, unseen, *x.shape[:2])
        apart = distance is not None or dropout is not None
        for group in tiling.groups(self.masks, x.shape[2], apart):
            part = Part(group, inputs, self.c, dropout, distance, buffers)
            width = group.features.stop - group.features.start
            yield group.features, part, tiling.blocks(group.mask, *spans, width, x.device)


disa_eager = functools.partial(attend, autograd.run, _Eager)


def _table(inputs: Sequence[Any]) -> DistanceTable | None:
    """The bias by distance."""
    return None if inputs[3] is None else DistanceTable(inputs[3], inputs[0].dtype)
