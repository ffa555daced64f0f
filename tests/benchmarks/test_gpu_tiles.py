"""benchmarks/gpu.sh tiles without a GPU: the search, and what it writes."""

from __future__ import annotations

import math
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import tiles
from benchmarks.gpu.results import Results
from selfattn.ops.disa.fused import launch
from selfattn.ops.mtsa.fused import configs
from tests.benchmarks.conftest import dry


@pytest.mark.usefixtures("interpreter")
def test_the_fastest_steps_are_written_where_kernels_look_for_them(tmp_path, monkeypatch):
    for row in dry("tiles", tmp_path / "dry"):
        assert row["status"] == "ok" and row["seconds"] > 0, row

    # As if 64 x 32 tiles were the fastest.
    def timed(job, samples, first=None):
        step = job.steps[job.kernel]
        tile = configs.LADDERS[job.kernel][step]
        seconds = abs(tile.queries - 64) + abs(tile.keys - 32) + 1
        return {"kernel": job.kernel, "step": step, "seconds": seconds, **keys}

    keys = {"dtype": "bf16", "width": 64, "variant": "dropout"}
    monkeypatch.setattr(tiles, "_timed", timed)
    results = Results(tmp_path, "tiles", "cpu")
    results.dry = False
    results.add({"kernel": "disa", "variant": "dropout", "tile": "(64, 32, 8)", "best": True})
    tiles._search(results, *keys.values(), None)
    best = {row["kernel"]: row["step"] for row in results.find(best=True, width=64)}
    assert set(best) == set(configs.LADDERS)
    assert configs.LADDERS["forward"][best["forward"]].queries == 64
    assert configs.LADDERS["query"][best["query"]].queries == 64
    again = []
    monkeypatch.setattr(
        tiles, "_timed", lambda job, samples, first: again.append(job) or timed(job, samples)
    )
    results.drop(kernel="key")  # as if there had been no time for it
    tiles._search(results, *keys.values(), None)
    assert {job.kernel for job in again} == {"key"}
    assert {row["kernel"]: row["step"] for row in results.find(best=True, width=64)} == best
    copy = shutil.copy(configs.__file__, tmp_path / "configs.py")
    disa = Path(shutil.copy(launch.__file__, tmp_path / "launch.py"))
    tiles.write(results, copy, disa)
    assert "TILES = {False: Tile(32, 64, 4), True: Tile(64, 32, 8)}\n" in disa.read_text()
    scope: dict = {"__name__": "copy"}
    exec(compile(copy.read_text(), "copy", "exec"), scope)
    for key, old in configs.STEPS.items():
        new = scope["STEPS"][key]
        if str(key) != "(torch.bfloat16, 64)":
            assert new == old
            continue
        assert [s[2] for s in new] == [f"{best[name]:x}" for name in configs.LADDERS]
        assert [s[:2] + s[3] for s in new] == [s[:2] + s[3] for s in old]


def test_a_search_that_was_stopped_writes_nothing(tmp_path):
    """Times of one ladder are of kernels beside those of the others."""
    keys = {"dtype": "bf16", "width": 64, "variant": "plain", "best": True}
    results = Results(tmp_path, "tiles", "cpu")
    results.add(*({"kernel": name, "step": 1, **keys} for name in list(configs.LADDERS)[:2]))
    copy = Path(shutil.copy(configs.__file__, tmp_path / "configs.py"))
    disa = Path(shutil.copy(launch.__file__, tmp_path / "launch.py"))
    tiles.write(results, copy, disa)
    assert copy.read_text() == Path(configs.__file__).read_text()


def test_a_tile_that_breaks_the_gpu_is_left_out_of_the_next_call(tmp_path, monkeypatch):
    """Until then no tile is the best, and those after it have their turn."""
    timed = []
    shipped = launch.TILES[False]
    order = [shipped, *(tile for tile in tiles._DISA if tile != shipped)]

    def synchronize(device):
        if timed[-1] == order[2]:
            raise RuntimeError("an illegal memory access was encountered")

    def time_one(job, samples, first):
        timed.append(job.tile)
        return {"kernel": "disa", "variant": "plain", "tile": str(tuple(job.tile)),
                "status": "ok", "seconds": 9.0 - len(timed)}  # fmt: skip

    monkeypatch.setattr(tiles, "_synchronize", synchronize)
    monkeypatch.setattr(tiles, "_timed_disa", time_one)
    results = Results(tmp_path, "tiles", "cpu")
    results.dry = False
    with pytest.raises(RuntimeError):
        tiles._search_disa(results, "plain", None)
    assert timed == order[:3] and not results.find(best=True)
    timed.clear()
    results = Results(tmp_path, "tiles", "cpu")
    results.dry = False
    tiles._search_disa(results, "plain", None)
    assert timed == order[:2] + order[3:]
    (best,) = results.find(best=True)
    assert best["tile"] == str(tuple(order[-1]))


def test_tiles_that_all_break_the_gpu_leave_none(tmp_path):
    results = Results(tmp_path, "tiles", "cpu")
    results.dry = False
    keys = {"kernel": "disa", "variant": "plain", "status": tiles._BROKEN}
    results.add(*({**keys, "tile": str(tuple(tile))} for tile in tiles._DISA))
    before = list(results.rows)
    tiles._search_disa(results, "plain", None)
    assert results.rows == before and not results.find(best=True)


def test_a_tile_that_computes_something_else_has_no_time():
    first = []
    for value, status in ((1.0, "ok"), (1.01, "ok"), (2.0, "differs by 1"), (math.nan, "differs")):
        row = tiles._measured(lambda v=value: lambda: torch.full((9,), v), "cpu", 1, first)
        assert row["status"].startswith(status) and (row["seconds"] is None) == (status != "ok")


def die_at_two(job, samples):
    if job.tile == (2,):
        os._exit(1)


def test_a_tile_at_which_the_compiler_dies_is_known_and_the_others_are_compiled():
    ahead = tiles.Ahead()
    jobs = [SimpleNamespace(tile=(number,)) for number in range(4)]
    assert ahead(die_at_two, jobs) == [(2,)]
    assert ahead(die_at_two, jobs[:2]) == []
    ahead.close()


def test_tiles_are_written_where_there_is_no_gpu(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(tiles, "write", lambda results: written.append(results.rows))
    (tmp_path / "tiles.json").write_text('[{"kernel": "key"}]')
    command.main(["tiles", str(tmp_path), "--write"])
    assert written == [[{"kernel": "key"}]]
