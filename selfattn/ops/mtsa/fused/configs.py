"""Tile sizes of the kernels: fixed for each dtype and head width, no search at run time.

They were found by compiling ahead for sm_90: the first step of each ladder that spills no registers
to memory, or the one that spills least: float32 heads wider than 64 have none without. No time was
measured. ``python -m benchmarks.triton_mtsa`` compiles them again; on a GPU
``benchmarks/gpu.sh tiles`` times each step and writes the fastest into ``STEPS``.
"""

from typing import NamedTuple

import torch

WIDEST = 128  # features of a head
PREPARE_ROWS = 32  # of a program in the small kernels of prepare.py
SMALL = ((8, 6), (8, 9), (12, 0), (12, 1))  # capabilities with 99 KiB of shared memory; others 163


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


# From the most work for what a program reads to the fewest registers; then some of four warps, of
# which a multiprocessor holds two programs or more.
_QUERY = (
    Tile(128, 64, 8, 2),
    Tile(128, 32, 8, 2),
    Tile(128, 32, 8, 3),
    Tile(64, 32, 8, 2),
    Tile(64, 16, 8, 2),
    Tile(64, 16, 4, 1),
    Tile(32, 16, 8, 1),
    Tile(16, 16, 8, 1),
    Tile(16, 16, 4, 1),
    Tile(64, 64, 4, 2),
    Tile(64, 32, 4, 2),
)
_KEY = (
    Tile(64, 128, 8, 2, 32),
    Tile(32, 128, 8, 2, 64),
    Tile(32, 128, 8, 2, 32),
    Tile(16, 128, 8, 2, 32),
    Tile(32, 64, 8, 2, 32),
    Tile(16, 64, 8, 2, 32),
    Tile(16, 64, 8, 1, 16),
    Tile(16, 32, 8, 1, 32),
    Tile(16, 16, 8, 1, 16),
    Tile(16, 16, 4, 1, 16),
    Tile(64, 64, 4, 2, 32),
    Tile(32, 64, 4, 2),
)
_VALUE = (
    Tile(64, 128, 8, 2),
    Tile(32, 128, 8, 2),
    Tile(32, 128, 8, 3),
    Tile(16, 128, 8, 2),
    Tile(64, 64, 8, 2),
    Tile(32, 64, 8, 2),
    Tile(16, 64, 8, 2),
    Tile(16, 32, 8, 1),
    Tile(16, 16, 8, 1),
    Tile(16, 16, 4, 1),
    Tile(32, 64, 4, 2),
)
LADDERS = {"forward": _QUERY, "query": _QUERY, "key": _KEY, "value": _VALUE}
# Steps (hexadecimal) for forward, query, key and value; of each: plain, log-sigmoid, dropout, both.
STEPS: dict[tuple[torch.dtype, int], tuple[str, str, str, str]] = {
    (torch.bfloat16, 32): ("0000", "0111", "0111", "0111"),
    (torch.bfloat16, 64): ("0011", "0011", "0213", "0033"),
    (torch.bfloat16, 128): ("3333", "3444", "1333", "6666"),
    (torch.float16, 32): ("0011", "0111", "0111", "0111"),
    (torch.float16, 64): ("0111", "0111", "2335", "1333"),
    (torch.float16, 128): ("3444", "6777", "3666", "7777"),
    (torch.float32, 32): ("0111", "0111", "1333", "1111"),
    (torch.float32, 64): ("1555", "4555", "3666", "7777"),
    (torch.float32, 128): ("7777", "7777", "8999", "8888"),
}


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


def choose(dtype: torch.dtype, widths: tuple[int, int], logsigmoid: bool, dropped: bool) -> Tiles:
    """The tiles for inputs of this dtype, head widths ``(D_i, D)`` and switches."""
    size = padded(max(widths))
    variant = logsigmoid + 2 * dropped
    steps = zip(LADDERS.values(), STEPS[dtype, max(size, 32)], strict=True)
    forward, query, key, value = (ladder[int(step[variant], 16)] for ladder, step in steps)
    exact = Tile(16, 4, 4, 1) if size <= 64 else Tile(8, 4, 8, 1)
    return Tiles(forward, query, key, value, exact)


def small(tiles: Tiles) -> Tiles:
    """The same for GPUs of ``SMALL``; forward's queries stay, to which flags and shifts belong."""
    query = tiles.query._replace(queries=max(16, tiles.query.queries // 2))
    return Tiles(*(tile._replace(stages=1) for tile in tiles._replace(query=query)))
