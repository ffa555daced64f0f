"""Tile sizes of the kernels: fixed for each dtype and head width, no search at run time.

On an H200, those of bfloat16, and of float16 and float32 at width 64, were among the fastest that
fit 163 KiB of shared memory; the others spill the fewest registers when compiled ahead for sm_90
(``python -m benchmarks.triton_mtsa``). On another GPU ``benchmarks/gpu.sh tiles`` times each step
and writes the fastest into ``STEPS``.
"""

from typing import NamedTuple

import torch

WIDEST = 128  # features of a head
PREPARE_ROWS = 64  # of a program in the kernels of prepare.py
FLAG_ROWS = 256  # queries that share a flag: few programs then look at it in vain
SMALL = ((8, 6), (8, 9), (12, 0), (12, 1))  # capabilities with 99 KiB of shared memory; others 163


class Tile(NamedTuple):
    """How one kernel cuts its work."""

    queries: int
    keys: int
    warps: int
    stages: int  # of the software pipeline over the tiles of the inner loop


class Tiles(NamedTuple):
    """The tiles of all kernels."""

    forward: Tile
    query: Tile  # backward, gradients of q and of the ratio
    key: Tile  # backward, gradients of k, v and s
    exact: Tile


# Four warps for each 64 rows: of more, Triton 3.6 made kernels that read out of bounds.
_QUERY = (
    Tile(64, 64, 4, 2),
    Tile(64, 64, 4, 3),
    Tile(128, 64, 8, 3),
    Tile(128, 64, 8, 2),
    Tile(128, 128, 8, 2),
    Tile(128, 32, 8, 3),
    Tile(128, 32, 4, 3),
    Tile(64, 32, 4, 2),
    Tile(64, 16, 4, 1),
    Tile(32, 16, 4, 1),
    Tile(16, 16, 4, 1),
)
_KEY = (
    Tile(64, 64, 4, 3),
    Tile(64, 64, 4, 2),
    Tile(32, 64, 4, 3),
    Tile(32, 64, 4, 2),
    Tile(64, 128, 8, 3),
    Tile(64, 128, 8, 2),
    Tile(32, 128, 8, 3),
    Tile(32, 128, 8, 2),
    Tile(16, 128, 8, 2),
    Tile(16, 64, 4, 2),
    Tile(16, 32, 4, 1),
    Tile(16, 16, 4, 1),
)
LADDERS = {"forward": _QUERY, "query": _QUERY, "key": _KEY}
# Steps (hexadecimal) for forward, query and key; of each: plain, log-sigmoid, dropout, both.
STEPS: dict[tuple[torch.dtype, int], tuple[str, str, str]] = {
    (torch.bfloat16, 32): ("0707", "1177", "2222"),
    (torch.bfloat16, 64): ("0707", "0077", "0022"),
    (torch.bfloat16, 128): ("3355", "7777", "7777"),
    (torch.float16, 32): ("6666", "7777", "2222"),
    (torch.float16, 64): ("6666", "5555", "7777"),
    (torch.float16, 128): ("5555", "8888", "bbbb"),
    (torch.float32, 32): ("7777", "7777", "3333"),
    (torch.float32, 64): ("3333", "7777", "3333"),
    (torch.float32, 128): ("aaaa", "aaaa", "bbbb"),
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
    forward, query, key = (ladder[int(step[variant], 16)] for ladder, step in steps)
    exact = Tile(16, 4, 4, 1) if size <= 64 else Tile(8, 4, 8, 1)
    return Tiles(forward, query, key, exact)


def small(tiles: Tiles) -> Tiles:
    """The same for GPUs of ``SMALL``."""
    query = tiles.query._replace(queries=max(16, tiles.query.queries // 2))
    return Tiles(*(tile._replace(stages=1) for tile in tiles._replace(query=query)))
