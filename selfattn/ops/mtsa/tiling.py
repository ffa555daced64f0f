"""How the fast form of MTSA walks over its input: parts, tiles, and the dropout that replays.

A *part* is some sentences of some neighbouring heads that share a mask, a *row* one
(sentence, head) pair of it, a *tile* a block of queries with the keys they may see. Forward,
backward and the tests walk in the same order, which makes dropout reproducible from one seed
without storing a mask.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...masks import PositionalMask
from ..common.dropout import FactorDropout
from ..common.tiling import runs

# The scores of one tile for all rows of a part: half of a common second-level cache, because the
# gradient of the scores lies beside them. On a GPU, what counts are thirty launches for each tile
# and the wait for its smallest denominator, which take longer than the products.
PART_BYTES = 1 << 19
PART_BYTES_ON_GPU = 1 << 26


class Tile(NamedTuple):
    """Queries ``[start, stop)``, each of which may see a key, and the keys that one of them may."""

    start: int
    stop: int
    lo: int
    hi: int

    @property
    def queries(self) -> slice:
        """The queries."""
        return slice(self.start, self.stop)

    @property
    def keys(self) -> slice:
        """The keys."""
        return slice(self.lo, self.hi)


class Part(NamedTuple):
    """Sentences and heads that are computed at once; the heads share ``mask``."""

    mask: PositionalMask
    batch: slice
    heads: slice

    @property
    def rows(self) -> int:
        """Number of (sentence, head) pairs."""
        return (self.batch.stop - self.batch.start) * (self.heads.stop - self.heads.start)

    def of(self, t: Tensor) -> Tensor:
        """This part of a tensor ``(B, H, ...)``, a view."""
        return t[self.batch, self.heads]

    def split(self, t: Tensor) -> Tensor:
        """Rows as sentences and heads: ``(rows, ...)`` -> ``(b, g, ...)``, a view."""
        return t.unflatten(0, (-1, self.heads.stop - self.heads.start))

    def rows_of(self, t: Tensor) -> Tensor:
        """Something for each token of the sentences ``(b, T)`` for each row, ``(rows, T, 1)``."""
        heads = self.heads.stop - self.heads.start
        return t[:, None, :, None].expand(-1, heads, -1, -1).flatten(0, 1)


def block_size(length: int) -> int:
    """Queries per tile, at most: smaller tiles skip more of what a direction hides."""
    return 64 if length <= 512 else 128


def live_queries(mask: PositionalMask, length: int) -> tuple[int, int]:
    """Queries ``[first, last)`` that may see a key by position."""
    left, right = mask.offsets
    first = 0 if right is None else max(0, -right)
    last = length if left is None else min(length, length - left)
    return min(first, length), max(min(first, length), last)


def tiles(mask: PositionalMask, length: int) -> list[Tile]:
    """The tiles of one row, of nearly equal heights; queries that see nothing are in none."""
    first, last = live_queries(mask, length)
    count = -(-(last - first) // block_size(length))
    edges = [first + (last - first) * i // max(count, 1) for i in range(count + 1)]
    return [
        Tile(start, stop, *mask.key_range(start, stop, length))
        for start, stop in zip(edges, edges[1:], strict=False)
    ]


def parts(
    masks: Sequence[PositionalMask], batch: int, length: int, device: torch.device
) -> Iterator[Part]:
    """All sentences and heads, in parts whose scores for one tile fill about ``PART_BYTES``.

    Few sentences and many heads, because the heads of a token lie side by side in memory.
    """
    size = PART_BYTES if device.type == "cpu" else PART_BYTES_ON_GPU
    rows = max(1, size // (4 * max(1, min(block_size(length), length) * length)))
    groups = list(runs(masks))
    sentences = max(1, rows // max(run.stop - run.start for _, run in groups))
    for first in range(0, batch, sentences):
        chunk = slice(first, min(first + sentences, batch))
        for mask, run in groups:
            for head in range(run.start, run.stop, rows):
                yield Part(mask, chunk, slice(head, min(head + rows, run.stop)))


def dropout_factors(
    q: Tensor,
    v: Tensor,
    masks: Sequence[PositionalMask],
    dropout_p: float,
    seed: int,
    pairs_only: bool = False,
) -> tuple[Tensor, Tensor]:
    """The factors that ``mtsa_eager`` draws from the same seed, as whole tensors, for references.

    They are ``(B, H, T, T)`` on (query, key) pairs and ``(B, H, T, D)`` on (key, feature) pairs.
    """
    batch, heads, length, width = v.shape
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    dropout = FactorDropout(dropout_p, seed, q.device, pairs_only)
    pairs = torch.zeros(batch, heads, length, length, dtype=dtype, device=q.device)
    features = torch.ones(batch, heads, length, width, dtype=dtype, device=q.device)
    for part in parts(masks, batch, length, q.device):
        if not pairs_only:
            target = part.of(features)
            target.copy_(dropout.factor(target, part.rows, length, width).view_as(target))
        for tile in tiles(part.mask, length):
            target = part.of(pairs)[..., tile.queries, tile.keys]
            target.copy_(dropout.factor(target, part.rows, *target.shape[2:]).view_as(target))
    return pairs, features
