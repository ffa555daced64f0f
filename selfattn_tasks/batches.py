"""Batches for trained models at work."""

from collections.abc import Iterator, Sequence


def batches(sizes: Sequence[int], limit: int) -> Iterator[list[int]]:
    """Numbers of items of similar size, the largest first, so that memory peaks at once.

    Args:
        sizes: of each item, in words.
        limit: of a batch with its padding; a larger item is a batch alone.
    """
    batch: list[int] = []
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        if batch and sizes[batch[0]] * (len(batch) + 1) > limit:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
