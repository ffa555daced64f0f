"""Tiles of both operators' kernels timed, and the fastest written where they are chosen.

MTSA's kernels are separate launches, so each ladder is searched alone. Steps are compiled ahead in
several processes. DiSA has one tile, for both kernels.
"""

import itertools
import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor

from selfattn.masks import head_masks
from selfattn.ops.disa.fused import disa_fused, launch
from selfattn.ops.mtsa.fused import configs, mtsa_fused
from selfattn_tasks.files import write_text

from ..testing import largest_error
from ..timing import clock
from ..triton_mtsa import DTYPES, VARIANTS
from .results import Results, Row

SHOWN = ("dtype", "width", "variant", "kernel", "step", "tile", "status", "seconds", "best")
_SEARCHED = (64, 32, 128)  # head widths, the most usual first
_BROKEN = "broke the GPU's context, or the compiler"
_BOUND = 3e-2  # of the norm: half precision rounds in another order
_SAMPLE = 0.01  # seconds; the first samples also wake the GPU's clock up
_DISA = [launch.Tile(*t) for t in itertools.product((64, 32, 16), (64, 32), (8, 4))]


class Ahead:
    """Compiles in several processes what is timed next."""

    def __init__(self) -> None:
        self._new()

    def _new(self) -> None:
        count = min(12, os.cpu_count() or 1)
        self._pool = ProcessPoolExecutor(count, get_context("spawn"))

    def __call__(self, timed: Callable[..., Row], jobs: Sequence[Any]) -> list[Any]:
        """Compile, and return the tiles at which the compiler itself died."""
        try:
            list(self._pool.map(timed, jobs, itertools.repeat(0)))
            return []
        except BrokenProcessPool:  # one of them: each for itself now
            self._new()
        died = []
        for job in jobs:
            try:
                self._pool.submit(timed, job, 0).result()
            except BrokenProcessPool:
                died.append(job.tile)
                self._new()
        return died

    def close(self) -> None:
        """End the processes."""
        self._pool.shutdown(cancel_futures=True)


class Job(NamedTuple):
    """One step of one ladder; ``steps`` are those of all ladders while it runs."""

    dtype: str
    width: int
    variant: str
    kernel: str
    steps: dict[str, int]
    shape: tuple[int, int, int]  # sentences, heads, tokens
    device: str

    @property
    def tile(self) -> Any:
        """That of the step."""
        return configs.LADDERS[self.kernel][self.steps[self.kernel]]


class DiSAJob(NamedTuple):
    """One tile of DiSA."""

    variant: str
    tile: launch.Tile
    shape: tuple[int, int, int]  # sentences, tokens, features
    device: str


def run(results: Results) -> None:
    """Search where no search was finished; DiSA first, which takes the least time."""
    ahead = None if results.dry else Ahead()
    try:
        for variant in ("plain",) if results.dry else ("plain", "dropout"):
            _search_disa(results, variant, ahead)
        order = itertools.product(_SEARCHED, DTYPES, VARIANTS)
        for width, dtype, variant in [(32, "fp32", "plain")] if results.dry else order:
            _search(results, dtype, width, variant, ahead)
    finally:
        if ahead is not None:
            ahead.close()


def _search(results: Results, dtype: str, width: int, variant: str, ahead: Ahead | None) -> None:
    index = list(VARIANTS).index(variant)
    current = configs.STEPS[DTYPES[dtype], width]
    steps = {name: int(s[index], 16) for name, s in zip(configs.LADDERS, current, strict=True)}
    for kernel, ladder in configs.LADDERS.items():
        order = sorted(range(len(ladder)), key=lambda i: i != steps[kernel])
        shape = (1, 1, 16) if results.dry else (32, 8, 2048)
        jobs = [
            Job(dtype, width, variant, kernel, {**steps, kernel: i}, shape, results.device)
            for i in (order[-1:] if results.dry else order)
        ]
        keys = {"dtype": dtype, "width": width, "variant": variant, "kernel": kernel}
        _keep_best(results, keys, _timed, jobs, (1, 1, 256), ahead)
        for row in results.find(**keys, best=True):
            steps[kernel] = row["step"]


def _search_disa(results: Results, variant: str, ahead: Ahead | None) -> None:
    shape = (1, 4, 16) if results.dry else (16, 2048, 512)
    shipped = launch.TILES[VARIANTS[variant][1]]
    tiles = _DISA[-1:] if results.dry else sorted(_DISA, key=lambda tile: tile != shipped)
    jobs = [DiSAJob(variant, tile, shape, results.device) for tile in tiles]
    keys = {"kernel": "disa", "variant": variant}
    _keep_best(results, keys, _timed_disa, jobs, (1, 256, 64), ahead)


def _keep_best(
    results: Results,
    keys: Row,
    timed: Callable[..., Row],
    jobs: Sequence[Any],
    short: tuple[int, int, int],
    ahead: Ahead | None,
) -> None:
    """Time jobs unless rows with these keys have a best one; they are compiled at a short shape.

    The first, the tile that ships and that the tests know, is what the others must compute.
    """
    if results.find(**keys, best=True):
        return
    broken = results.find(**keys, status=_BROKEN)
    results.drop(**keys)
    if ahead is not None:
        died = ahead(timed, [job._replace(shape=short) for job in jobs])
        broken += [{**keys, "tile": str(tuple(tile)), "status": _BROKEN} for tile in died]
    rows: list[Row] = []
    first: list[Tensor] = []
    for job in jobs:
        if any(row["tile"] == str(tuple(job.tile)) for row in broken):
            continue
        rows.append(timed(job, 1 if results.dry else 5, first))
        try:
            _synchronize(results.device)
        except Exception:
            # After an illegal access all else fails, too: the next call leaves this tile out.
            results.add(*broken, rows[-1] | {"status": _BROKEN, "seconds": None})
            raise
    if rows:  # else every tile broke the GPU
        fastest = min(rows, key=lambda row: row["seconds"] or float("inf"))
        fastest["best"] = fastest["seconds"] is not None
    results.add(*rows, *broken)


def _synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _timed_disa(job: DiSAJob, samples: int, first: list[Tensor] | None = None) -> Row:
    """The row of a tile of DiSA, forward and backward."""
    dropped = VARIANTS[job.variant][1]

    def work() -> Callable[[], Any]:
        torch.manual_seed(1)
        drawn = (torch.randn(job.shape, device=job.device).bfloat16() for _ in range(3))
        x, a, b = (t.requires_grad_() for t in drawn)
        masks = head_masks("forward_backward", 2)

        def step() -> Sequence[Tensor]:
            y = disa_fused(x, a, b, masks, None, 5.0, 0.1 if dropped else 0.0)
            return (y, *torch.autograd.grad(y, (x, a, b), torch.ones_like(y)))

        return step

    row: Row = {"kernel": "disa", "dtype": "bf16", "variant": job.variant}
    row["tile"] = str(tuple(job.tile))
    with mock.patch.dict(launch.TILES, {dropped: job.tile}):
        return row | _measured(work, job.device, samples, first)


def _timed(job: Job, samples: int, first: list[Tensor] | None = None) -> Row:
    """The row of a step."""
    row: Row = {**job._asdict(), "step": job.steps[job.kernel], "tile": str(tuple(job.tile))}
    del row["steps"], row["shape"]
    steps = tuple(f"{job.steps[name]:x}" * len(VARIANTS) for name in configs.LADDERS)
    with mock.patch.dict(configs.STEPS, {(DTYPES[job.dtype], job.width): steps}):
        return row | _measured(lambda: _work(job), job.device, samples, first)


def _measured(
    make: Callable[[], Callable[[], Any]],
    device: str,
    samples: int,
    first: list[Tensor] | None = None,
) -> Row:
    """Status and seconds of what is made; what does not fit the GPU has no time.

    So has what computes anything else than ``first``, which the first one fills.
    """
    try:
        run = make()
        found = run()
        if first is not None:
            found = [found] if isinstance(found, Tensor) else list(found)
            first[:] = first or [t.detach() for t in found]
            if not (error := largest_error(first, found)) <= _BOUND:
                return {"status": f"differs by {error:.2g}", "seconds": None}
        times = max(1, round(_SAMPLE / clock(run, 1, device)))
        seconds = [clock(run, times, device) for _ in range(samples)]
        return {"status": "ok", "seconds": min(seconds, default=None)}
    except Exception as reason:  # Triton has no common class for what a GPU cannot hold
        return {"status": f"{type(reason).__name__}: {reason}".splitlines()[0], "seconds": None}


def _work(job: Job) -> Any:
    """Forward alone for its ladder, else backward alone."""
    sentences, heads, tokens = job.shape
    shape = (sentences, tokens, heads, job.width)
    torch.manual_seed(1)
    x: list[Tensor] = [
        torch.randn(shape, device=job.device).to(DTYPES[job.dtype]).transpose(1, 2).requires_grad_()
        for _ in range(4)
    ]
    logsigmoid, dropped = VARIANTS[job.variant]
    sigma_t = "logsigmoid" if logsigmoid else "identity"
    masks = head_masks("forward_backward", heads) if heads > 1 else head_masks("none", 1)

    def forward() -> Tensor:
        q, k, v, s = x
        return mtsa_fused(q, k, v, s, masks, None, sigma_t, 0.1 if dropped else 0.0)

    if job.kernel == "forward":
        return forward
    y = forward()
    upstream = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, x, upstream, retain_graph=True)


def write(
    results: Results, path: Path = Path(configs.__file__), disa: Path = Path(launch.__file__)
) -> None:
    """Put the fastest into the tables ``STEPS`` of ``configs.py`` and ``TILES`` of DiSA's launch.

    Steps of MTSA are taken where all ladders were searched.
    """
    text = disa.read_text("utf-8")
    for row in results.find(kernel="disa", best=True):
        key = VARIANTS[row["variant"]][1]
        text = text.replace(f"{key}: Tile{tuple(launch.TILES[key])}", f"{key}: Tile{row['tile']}")
    write_text(disa, text)
    text = path.read_text("utf-8")
    for (dtype, width), old in configs.STEPS.items():
        new = [list(steps) for steps in old]
        short = next(name for name, found in DTYPES.items() if found == dtype)
        for place, variant in enumerate(VARIANTS):
            found = results.find(dtype=short, width=width, variant=variant, best=True)
            best = {row["kernel"]: f"{row['step']:x}" for row in found}
            if set(best) == set(configs.LADDERS):
                for steps, kernel in zip(new, configs.LADDERS, strict=True):
                    steps[place] = best[kernel]
        text = text.replace(_line(dtype, width, old), _line(dtype, width, map("".join, new)))
    write_text(path, text)


def _line(dtype: torch.dtype, width: int, steps: Any) -> str:
    return f"({dtype}, {width}): ({', '.join(map(json.dumps, steps))}),"
