"""Tile sizes of the kernels: fixed for each dtype and head width, no search at run time."""

from __future__ import annotations

from typing import NamedTuple

import torch

WIDEST = 128  # features of a head
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class Tile(NamedTuple):
    """How one kernel cuts its work."""

    queries: int
    keys: int
    warps: int
    stages: int  # of the software pipeline over the tiles of the inner loop
    features: int = 64  # at a time, in the kernel for the gradient of k


class Tiles(NamedTuple):
    """The tiles of all kernels; flags and shifts belong to the query tiles of ``forward``."""

    forward: Tile
    query: Tile  # backward, gradient of q
    key: Tile  # backward, gradient of k
    value: Tile  # backward, gradients of v and s
    exact: Tile


def padded(width: int) -> int:
    """A head width as a tile has it: the next power of two, at least 16."""
    return max(16, 1 << (width - 1).bit_length())


def precision(dtype: torch.dtype) -> tuple[str, str]:
    """Precision of q k^T and of the products with exponentials.

    bfloat16 has the range of float32; a float16 weight could vanish or overflow, so float16 takes
    its 10 bits as tf32. float32 is split in two.
    """
    return {
        torch.bfloat16: ("half", "half"),
        torch.float16: ("half", "tf32"),
        torch.float32: ("tf32x3", "tf32x3"),
    }[dtype]


def choose(dtype: torch.dtype, widths: tuple[int, int], length: int, dropped: bool) -> Tiles:
    """The tiles for inputs of this dtype, head widths, length (tokens), with or without dropout."""
    size = padded(max(widths))
    exact = Tile(16, 4, 4, 1) if size <= 64 else Tile(8, 4, 4, 1)
    forward = Tile(128, 64, 8, 2)
    query = Tile(64, 64, 4, 2)
    key = Tile(64, 64, 4, 2)
    value = Tile(64, 64, 4, 2)
    return Tiles(forward, query, key, value, exact)
