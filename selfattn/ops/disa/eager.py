"""DiSA without an n x n x d tensor: tiles over visible keys only, recomputed in backward.

With s = 1 / (1 + exp(2a/c) exp(2b/c)), the weight exp(c tanh((a + b) / c)) is exp(c) exp(-2 c s).
The exponentials inside belong to one key or one query, so a pair costs a product, a reciprocal and
one exponential; and as |score| <= c no maximum is needed. This folder's README derives it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from selfattn.masks import PositionalMask
from selfattn.ops._distance import DistanceTable
from selfattn.ops.disa import tiling
from selfattn.ops.disa.part import Buffers, Part, part_of, scores_of, weights
from selfattn.ops.disa.tiling import Spans
from selfattn.ops.mtsa.tiling import FactorDropout, draw_seed

# exp(-2c s) loses 2c * 6e-8 of a weight to rounding in float32: above this c, float64 is used.
LARGEST_C_FLOAT32 = 10.0


def disa_eager(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None,
    c: float,
    dropout_p: float,
    hidden_keys: Tensor | None = None,
    distance_bias: Tensor | None = None,
) -> Tensor:
    """DiSA in tiles; arguments as in ``disa``.

    ``padding_mask`` hides queries, and keys unless ``hidden_keys`` says which of them are hidden.
    Half precision is computed in float32 and rounded once at the end. Memory is O(B T C).
    """
    seed = draw_seed() if dropout_p else 0
    options = _Options(tuple(masks), c, dropout_p, seed)
    unseen = padding_mask if hidden_keys is None else hidden_keys
    out: Tensor = _DiSA.apply(x, a, b, distance_bias, padding_mask, unseen, options)
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


class _DiSA(torch.autograd.Function):
    """The autograd function behind ``disa_eager``; saves the output and the denominator."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        a: Tensor,
        b: Tensor,
        bias: Tensor | None,
        hidden: Tensor | None,
        unseen: Tensor | None,
        options: _Options,
    ) -> Tensor:
        work = _work_dtype(x.dtype, options.c)
        out = torch.zeros(x.shape, dtype=work, device=x.device)
        den = torch.zeros_like(out)
        spans = _spans(x, hidden, unseen)
        for group, part in _parts((x, a, b, bias, hidden, unseen), options, work):
            _forward_part(part, spans, out[..., group], den[..., group])
        if hidden is not None:
            out.masked_fill_(hidden[..., None], 0.0)
        # A visible key weighs at least exp(-2c), so 0 means that there is none: the output is 0.
        den.masked_fill_(den == 0.0, 1.0)
        out.div_(den)
        ctx.save_for_backward(x, a, b, bias, hidden, unseen, out, den)
        ctx.options = options
        return out.to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        *inputs, out, den = ctx.saved_tensors
        x, _, _, bias, hidden, unseen = inputs
        spans = _spans(x, hidden, unseen)
        grads = [torch.zeros_like(out) for _ in range(3)]
        scaled = grad.to(out.dtype) / den
        if hidden is not None:
            scaled.masked_fill_(hidden[..., None], 0.0)
        tables = []
        for group, part in _parts(inputs, ctx.options, out.dtype):
            _backward_part(part, spans, *(t[..., group] for t in (out, scaled, *grads)))
            tables.append(part.distance)
        g_bias = None
        if bias is not None:
            g_bias = torch.cat([t.gradient() for t in tables if t is not None]).to(bias.dtype)
        return *(g.to(x.dtype) for g in grads), g_bias, None, None, None


def _spans(x: Tensor, hidden: Tensor | None, unseen: Tensor | None) -> tuple[Spans, Spans]:
    """Where the queries lie, and where the keys."""
    queries = Spans(hidden, x.shape[0], x.shape[1])
    return queries, queries if unseen is hidden else Spans(unseen, x.shape[0], x.shape[1])


def _work_dtype(dtype: torch.dtype, c: float) -> torch.dtype:
    """The precision of the sums."""
    return torch.float64 if dtype == torch.float64 or c > LARGEST_C_FLOAT32 else torch.float32


def _parts(
    inputs: Sequence[Tensor | None], options: _Options, work: torch.dtype
) -> Iterator[tuple[slice, Part]]:
    """Every group and its features; inputs are x, a, b, bias, hidden and unseen."""
    *projected, bias, hidden, unseen = inputs
    x, a, b = (t for t in projected if t is not None)
    dropout = options.dropout(x.device)
    walk = tiling.groups(options.masks, x.shape[2], apart=bias is not None)
    for number, (mask, group) in enumerate(walk):
        distance = None if bias is None else DistanceTable(bias[number : number + 1], work)
        tensors = [t[..., group].to(work) for t in (x, a, b)]
        yield group, part_of(tensors, hidden, unseen, mask, options.c, dropout, distance)


def _forward_part(part: Part, spans: tuple[Spans, Spans], out: Tensor, den: Tensor) -> None:
    """Fill output and denominator of one group."""
    buffers = Buffers(part, 1)
    for block in tiling.blocks(part.mask, *spans, part.x.shape[-1]):
        queries = (block.rows, slice(block.start, block.stop))
        sums: tuple[Tensor, Tensor] | None = None
        for tile in buffers.tiles(block):
            weight = weights(part, block, tile, scores_of(part, tile, buffers.offset, tile.weight))
            d = weight.sum(2)
            weight.mul_(tile.value)
            if tile.pairs is not None:
                weight.mul_(tile.pairs)
            n = weight.sum(2)
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
    out, scaled = out[:, :, None], scaled[:, :, None]
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
            ga[keys].add_(slope.sum(1))
            gb_block.add_(slope.sum(2))
    ga.mul_(-2.0 / part.c)
    gb.mul_(-2.0 / part.c)
    if part.scale is not None:
        gx.mul_(part.scale)
