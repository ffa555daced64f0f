"""What the loops of the operators share."""

import math
from collections.abc import Iterator, Sequence
from typing import TypeVar

from torch import Tensor

LOG2E = math.log2(math.e)

T = TypeVar("T")


def runs(items: Sequence[T]) -> Iterator[tuple[T, slice]]:
    """Runs of equal neighbours, as ``(item, slice)``."""
    start = 0
    for stop in range(1, len(items) + 1):
        if stop == len(items) or items[stop] != items[start]:
            yield items[start], slice(start, stop)
            start = stop


def with_graph(empty: Tensor, *others: Tensor | None) -> Tensor:
    """An empty output that depends on all inputs, so that each weight has a gradient, of zeros."""
    return empty + 0.0 * sum((t.sum() for t in others if t is not None), empty.sum())


def rows(t: Tensor) -> Tensor:
    """A view whose features are contiguous, as projections give it; else a contiguous copy."""
    t = t.resolve_neg()  # kernels read memory as it is
    return t if t.stride(-1) == 1 or t.shape[-1] == 1 else t.contiguous()
