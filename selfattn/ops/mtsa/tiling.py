"""How the fast form of MTSA walks over its input: head groups, chunks of rows, tiles.

A *group* is the heads that share a mask, a *row* one (sentence, head) pair, a *tile* a block of
queries with the keys it may see. Forward, backward and the tests walk in the same order, which is
what makes dropout reproducible from one seed without storing a mask.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from selfattn.masks import PositionalMask

# Buffers of one to two MiB stay in the second-level cache and are not given back to the system.
CHUNK_BYTES = 2 << 20


@dataclass(frozen=True)
class Tile:
    """Queries ``[start, stop)`` and the keys ``[lo, hi)`` that at least one of them may see."""

    start: int
    stop: int
    lo: int
    hi: int


def head_groups(masks: Sequence[PositionalMask]) -> list[tuple[PositionalMask, list[int]]]:
    """Heads that share a mask, in order of first appearance."""
    groups: dict[PositionalMask, list[int]] = {}
    for head, mask in enumerate(masks):
        groups.setdefault(mask, []).append(head)
    return list(groups.items())


def block_size(length: int) -> int:
    """Queries per tile."""
    return 64 if length <= 128 else 128


def tiles(mask: PositionalMask, length: int) -> list[Tile]:
    """The tiles of one row that hold at least one visible key."""
    size = block_size(length)
    found = []
    for start in range(0, length, size):
        stop = min(start + size, length)
        lo, hi = mask.key_range(start, stop, length)
        if hi > lo:
            found.append(Tile(start, stop, lo, hi))
    return found


def chunks(rows: int, length: int) -> Iterator[slice]:
    """Slices of rows whose scores for one tile fill about ``CHUNK_BYTES``."""
    step = max(1, CHUNK_BYTES // (4 * max(1, min(block_size(length), length) * length)))
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def draw_seed() -> int:
    """A seed from torch's global generator: ``torch.manual_seed`` fixes what follows."""
    return int(torch.randint(1 << 62, ()).item())


class FactorDropout:
    """The two dropout factors of MTSA's numerator (appendix A.3), replayed from a seed.

    Args:
        dropout_p: probability of dropping a term; each factor is kept with ``sqrt(1 - dropout_p)``.
        seed: seed of the generator.
        device: device of the factors.
    """

    def __init__(self, dropout_p: float, seed: int, device: torch.device) -> None:
        self.keep = (1.0 - dropout_p) ** 0.5
        self._generator = torch.Generator(device).manual_seed(seed)

    def factor(self, like: Tensor, *shape: int) -> Tensor:
        """A tensor of 0 and 1 / keep; successive calls continue the stream."""
        drawn = torch.empty(shape, dtype=like.dtype, device=like.device)
        return drawn.bernoulli_(self.keep, generator=self._generator).div_(self.keep)


def dropout_factors(
    q: Tensor, v: Tensor, masks: Sequence[PositionalMask], dropout_p: float, seed: int
) -> tuple[Tensor, Tensor]:
    """The factors that ``mtsa_eager`` draws from the same seed, as whole tensors, for references.

    Returns:
        The factor on (query, key) pairs ``(B, H, T, T)`` and the one on (key, feature) pairs
        ``(B, H, T, D)``.
    """
    batch, heads, length, width = v.shape
    dtype = torch.float64 if q.dtype == torch.float64 else torch.float32
    dropout = FactorDropout(dropout_p, seed, q.device)
    pairs = torch.zeros(batch, heads, length, length, dtype=dtype, device=q.device)
    features = torch.zeros(batch, heads, length, width, dtype=dtype, device=q.device)
    for mask, group in head_groups(masks):
        rows = batch * len(group)
        pair = torch.zeros(rows, length, length, dtype=dtype, device=q.device)
        feature = torch.zeros(rows, length, width, dtype=dtype, device=q.device)
        for chunk in chunks(rows, length):
            size = chunk.stop - chunk.start
            feature[chunk] = dropout.factor(feature, size, length, width)
            for t in tiles(mask, length):
                drawn = dropout.factor(pair, size, t.stop - t.start, t.hi - t.lo)
                pair[chunk, t.start : t.stop, t.lo : t.hi] = drawn
        pairs[:, group] = pair.unflatten(0, (batch, len(group)))
        features[:, group] = feature.unflatten(0, (batch, len(group)))
    return pairs, features
