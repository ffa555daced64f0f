"""How the fast form of DiSA walks over its input: feature groups, query blocks, tiles.

A *group* is the features that share a mask, a *tile* some sentences' block of queries with a run
of the keys that the block may see. Forward, backward and the tests walk in the same order, which
makes dropout reproducible from one seed without storing a mask.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...masks import PositionalMask
from ..common.dropout import FactorDropout
from ..common.tiling import runs

# Two such buffers stay in a second-level cache of 2 MiB together with what is read beside them.
TILE_ELEMENTS = 160_000
TILE_ELEMENTS_ON_GPU = 1 << 24  # where a launch takes longer than what it does to so small a tile
# Queries per block: few, because the block computes all keys that at least one of them sees.
BLOCK_SIZE = 16


class Block(NamedTuple):
    """Queries ``[start, stop)`` of the sentences ``rows``, which may see the keys ``[lo, hi)``."""

    rows: slice
    start: int
    stop: int
    lo: int
    hi: int
    padded: bool  # whether some of these keys are padding in some of these sentences

    @property
    def queries(self) -> slice:
        """The queries."""
        return slice(self.start, self.stop)

    def runs(self, width: int, device: torch.device) -> Iterator[tuple[int, int]]:
        """The keys in even runs ``[lo, hi)`` that make tiles of at most ``tile_elements``."""
        keys = self.hi - self.lo
        pairs = (self.rows.stop - self.rows.start) * (self.stop - self.start)  # for each key
        most = max(1, tile_elements(device) // (pairs * width))
        step = -(-keys // -(-keys // most))
        for lo in range(self.lo, self.hi, step):
            yield lo, min(lo + step, self.hi)


class Group(NamedTuple):
    """Neighbouring features that share a mask."""

    mask: PositionalMask
    parts: slice  # of the masks
    features: slice


def groups(masks: Sequence[PositionalMask], features: int, apart: bool = False) -> Iterator[Group]:
    """Equal parts of the features, one for each mask; neighbours with the same mask as one part.

    ``apart`` keeps those apart, too: dropout and distances differ between them.
    """
    width = features // len(masks)
    numbers = range(len(masks)) if apart else [0] * len(masks)
    for (mask, _), parts in runs(list(zip(masks, numbers, strict=True))):
        yield Group(mask, parts, slice(parts.start * width, parts.stop * width))


class Spans:
    """First and last real token of each sentence, as Python numbers."""

    def __init__(self, padding: Tensor | None, batch: int, length: int) -> None:
        self.batch, self.length = batch, length
        self._first, self._last, self._holes = [0] * batch, [length] * batch, [False] * batch
        if padding is not None:
            real = ~padding
            position = torch.arange(length, device=real.device)
            first = torch.where(real, position, length).amin(1)
            last = torch.where(real, position + 1, 0).amax(1)
            self._first, self._last = first.tolist(), last.tolist()
            self._holes = (real.sum(1) < last - first).tolist()

    def clip(self, rows: slice, lo: int, hi: int) -> tuple[int, int, bool]:
        """``[lo, hi)`` without the ends that are padding in all of these sentences.

        The third result says whether padding is left between them.
        """
        first, last = self._first[rows], self._last[rows]
        lo, hi = max(lo, min(first)), min(hi, max(last))
        padded = max(first) > lo or min(last) < hi or any(self._holes[rows])
        return lo, max(lo, hi), padded


def spans(
    hidden: Tensor | None, unseen: Tensor | None, batch: int, length: int
) -> tuple[Spans, Spans]:
    """Where the queries lie, and where the keys, by padding ``(B, T)`` of both or of each."""
    queries = Spans(hidden, batch, length)
    return queries, queries if unseen is None else Spans(unseen, batch, length)


def tile_elements(device: torch.device) -> int:
    """How many scores a tile has at most."""
    return TILE_ELEMENTS if device.type == "cpu" else TILE_ELEMENTS_ON_GPU


def blocks(
    mask: PositionalMask, queries: Spans, keys: Spans, width: int, device: torch.device
) -> Iterator[Block]:
    """All blocks of a group that hold a real query and a visible key, always in the same order."""
    length = queries.length
    for start in range(0, length, BLOCK_SIZE):
        stop = min(start + BLOCK_SIZE, length)
        lo, hi = mask.key_range(start, stop, length)
        if lo == hi:
            continue
        step = max(1, tile_elements(device) // ((stop - start) * (hi - lo) * width))
        for first in range(0, queries.batch, step):
            rows = slice(first, min(first + step, queries.batch))
            real_start, real_stop, _ = queries.clip(rows, start, stop)
            real_lo, real_hi, padded = keys.clip(rows, lo, hi)
            if real_start < real_stop and real_lo < real_hi:
                yield Block(rows, start, stop, real_lo, real_hi, padded)


def pair_factor(dropout: FactorDropout, like: Tensor, block: Block) -> Tensor:
    """The dropout factor on (query, key) pairs of a block ``(sentences, queries, keys, 1)``."""
    sentences = block.rows.stop - block.rows.start
    return dropout.factor(like, sentences, block.stop - block.start, block.hi - block.lo, 1)


def dropout_factors(
    x: Tensor,
    masks: Sequence[PositionalMask],
    padding: Tensor | None,
    dropout_p: float,
    seed: int,
    hidden_keys: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The factors that ``disa_eager`` draws from the same seed, as whole tensors, for references.

    Returns:
        The factor on (query, key) pairs ``(B, G, T, T)``, one for each mask, and the one on
        (key, feature) pairs ``(B, T, C)``; both in the dtype of x.
    """
    batch, length, features = x.shape
    dropout = FactorDropout(dropout_p, seed, x.device)
    bounds = spans(padding, hidden_keys, batch, length)
    pairs = x.new_zeros(batch, len(masks), length, length)
    scales = torch.zeros_like(x)
    for mask, parts, part in groups(masks, features, apart=True):
        scales[..., part] = dropout.factor(scales[..., part])
        for block in blocks(mask, *bounds, part.stop - part.start, x.device):
            drawn = pair_factor(dropout, x, block).movedim(-1, 1)  # (b, 1, n_q, n_k)
            rows, seen = slice(block.start, block.stop), slice(block.lo, block.hi)
            pairs[block.rows, parts, rows, seen] = drawn
    return pairs, scales
