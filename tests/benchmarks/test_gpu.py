"""benchmarks/gpu.sh without a GPU: dry runs at tiny sizes, so that the stages cannot rot."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from benchmarks import table
from benchmarks.gpu import __main__ as command
from benchmarks.gpu import grid, sizes, timings
from benchmarks.gpu import results as stage_results
from benchmarks.gpu import tests as stage_tests
from benchmarks.gpu.results import Results
from benchmarks.rivals.dot_product import Explicit
from benchmarks.rivals.flex import FlexDot, flex_mtsa
from benchmarks.testing import assert_close, padding_mask
from selfattn.errors import UserError
from selfattn.masks import head_masks
from selfattn.ops import mtsa
from tests.benchmarks.conftest import dry


@pytest.mark.usefixtures("interpreter")
def test_sizes_are_checked_against_slow_operators_and_a_second_call_has_nothing_to_do(
    tmp_path, monkeypatch
):
    rows = dry("sizes", tmp_path)
    assert {row["status"] for row in rows} == {"ok", "skipped"}
    assert [row["check"] for row in rows if row["status"] == "skipped"] == [
        "CUDA graph of a layer", "compute-sanitizer",
    ]  # fmt: skip
    assert sum("2^31" in row["check"] and row["error"] == 0 for row in rows) == 2
    assert (tmp_path / "sizes.csv").read_text().count("\n") == len(rows) + 1
    kept = json.loads((tmp_path / "sizes.json").read_text())
    kept[0]["status"] = "begun"  # and never ended
    del kept[-1]  # there was no time for it
    (tmp_path / "sizes.json").write_text(json.dumps(kept))
    again = dry("sizes", tmp_path)  # that one at the end
    assert [row["check"] for row in again] == [row["check"] for row in rows[1:] + rows[:1]]
    rows = again
    monkeypatch.setattr(Results, "add", None)  # would be called
    assert dry("sizes", tmp_path) == rows


@pytest.mark.parametrize("place", range(3))
def test_a_nan_is_wrong_wherever_it_is(place, monkeypatch):
    """In the output, or in a gradient."""

    def attend(q, k):
        if place:
            (q, k)[place - 1].register_hook(lambda grad: grad * math.nan)
        return q + k if place else (q + k) * math.nan

    monkeypatch.setattr(sizes, "_operator", lambda *_: attend)
    for error, bound in (
        sizes._huge(mtsa, 2, (3, 2, 8, 16), "cpu"),
        sizes._long(mtsa, 2, (1, 2, 8, 16), torch.float32, "cpu"),
    ):
        assert not error <= bound


def test_timings_write_the_rows_of_the_benchmark(tmp_path):
    (row,) = dry("timings", tmp_path)
    (read,) = table.read(tmp_path / "timings.csv")
    assert (read.method, read.length, read.status) == ("mtsa", 16, "ok")
    assert read.ratio > 0 and row["torch"]


def test_every_method_is_timed_at_each_length_once_and_a_refusal_is_tried_again(
    tmp_path, monkeypatch
):
    plans, slow = [], {"disa"}

    def sweep(plan, say, keep):
        plans.append(plan)
        common = asdict(plan.setup) | {"threads": 8, "reference": "sdpa", "level": plan.level}
        del common["ffn_dim"]
        rows = [
            table.Row(**common, length=length, batch=batch, method=name, label=name, status="ok")
            for name in plan.methods
            for length, batch in plan.shapes
            if name not in slow
        ]
        keep(rows)
        return rows, [
            {"method": name, "length": length, "reason": "wrong"}
            for name in plan.methods
            if name in slow
            for length, _ in plan.shapes
        ]

    monkeypatch.setattr(timings, "sweep", sweep)
    results = Results(tmp_path, "timings", "cpu")
    results.dry = False
    timings.run(results)
    first = plans[0]
    assert (first.level, first.setup.dtype, first.setup.mode) == (
        "operator",
        "bfloat16",
        "training",
    )
    assert list(first.methods) == ["mtsa", "sdpa:cudnn"]
    assert max(shape for plan in plans for shape in plan.shapes) == (16384, 4)
    names = ("level", "dtype", "mode", "method", "length")
    rows = [tuple(row[name] for name in names) for row in results.rows if row["status"] == "ok"]
    assert len(set(rows)) == len(rows)
    mtsa = [row for row in rows if row[:4] == ("layer", "bfloat16", "training", "mtsa:srl")]
    assert sorted(row[4] for row in mtsa) == list(timings.LENGTHS)
    refused = results.find(status="refused")
    assert {(row["method"], row["length"]) for row in refused} == {
        ("disa", length) for length in timings.LENGTHS
    }
    assert not any("flex" in name for plan in plans[:40] for name in plan.methods)
    assert not results.find(dtype="float32", method="sdpa:cudnn")

    plans.clear()
    slow.clear()
    results.drop(level="operator", mode="training", dtype="float16", method="mtsa", length=64)
    timings.run(results)
    names = [name for plan in plans for name in plan.methods]
    assert names[0] == "mtsa" and set(names[1:]) == {"disa"}  # what was refused comes last
    assert not results.find(status="refused")


def test_every_test_is_in_one_group_and_the_kernels_come_first(repo_root):
    groups = [group.split() for group in stage_tests.groups()]
    assert len(groups[0]) > 3 and all("fused" in name for name in groups[0])
    names = sum(groups, [])
    for path in repo_root.glob("tests/**/test_*.py"):
        test = path.relative_to(repo_root).as_posix()
        assert sum(test == name or test.startswith(f"{name}/") for name in names) == 1, test


def test_the_shares_of_kernels_are_of_one_operator_each(tmp_path):
    rows = dry("kernels", tmp_path)
    for name in ("mtsa", "sdpa", "sdpa:directed"):
        shares = [row["share"] for row in rows if row["method"] == name]
        assert shares == sorted(shares, reverse=True)
        assert 0.9 < sum(shares) <= 1.0 + 1e-9


def test_two_processes_have_the_gradients_of_one(run_cli, tmp_path):
    run_cli(["-m", "benchmarks.gpu", "processes", tmp_path, "--device", "cpu"]).ok()
    (row,) = json.loads((tmp_path / "processes.json").read_text())
    assert row["status"] == "ok", row
    assert row["error"] < 1e-5


def test_the_grid_keeps_its_runs_in_one_file(tmp_path):
    run, kept = tmp_path / "runs" / "mtsa-1", tmp_path / "grid.tar.gz"
    run.mkdir(parents=True)
    for name in ("run.json", "config.json", "test.hyp"):
        (run / name).write_text(name)
    grid._evidence("save", run.parent, kept)
    other = run.parent / "mtsa-2"
    run.rename(other)
    grid._evidence("save", run.parent, kept)  # what was kept before stays
    new = tmp_path / "new"
    new.mkdir()
    grid._evidence("restore", new, kept)
    assert sorted(path.name for path in new.iterdir()) == ["mtsa-1", "mtsa-2"]
    assert (new / "mtsa-1" / "test.hyp").read_text() == "test.hyp"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["grid.tar.gz"]


def test_a_grid_without_a_finished_run_says_why_it_ended(tmp_path, monkeypatch):
    """On the first call nothing was kept, and what ends it is no lack of runs to keep."""
    (tmp_path / "data").mkdir()
    (tmp_path / "grid.yaml").write_text("data: data\noutput: runs/grid\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GRID", "grid.yaml")
    called = []

    def stopped(command, **options):
        called.append(command)
        raise KeyboardInterrupt

    monkeypatch.setattr(grid.subprocess, "run", stopped)
    results = Results(tmp_path, "grid", "cpu")
    results.dry = False
    with pytest.raises(KeyboardInterrupt):
        grid.run(results)
    assert [Path(command[1]).name for command in called] == ["run_seeds.py"]


def test_the_script_runs_each_stage_under_its_limit(repo_root, tmp_path):
    """With a Python that only says how it was called."""
    (tmp_path / "python").write_text('#!/bin/sh\necho "$PWD" "$@"\n')
    (tmp_path / "python").chmod(0o755)
    script = repo_root / "benchmarks" / "gpu.sh"
    env = {"PATH": os.environ["PATH"], "PYTHON": str(tmp_path / "python"), "OUT": "out"}
    for stage in command.STAGES:
        done = subprocess.run(
            [script, stage], env=env, capture_output=True, text=True, cwd=tmp_path
        )
        words = f"{repo_root} -m benchmarks.gpu {stage} {tmp_path / 'out'} --device cuda"
        assert done.stdout.split() == words.split(), done.stderr
    done = subprocess.run([script], env=env, capture_output=True, text=True)
    assert done.returncode != 0 and all(stage in done.stderr for stage in command.STAGES)


def test_a_stage_goes_on_from_what_was_carried(repo_root, tmp_path):
    """A machine that empties $OUT before each command."""
    script = tmp_path / "benchmarks" / "gpu.sh"
    for folder in (script.parent, tmp_path / "runs" / "gpu", tmp_path / "out"):
        folder.mkdir(parents=True)
    shutil.copy(repo_root / "benchmarks" / "gpu.sh", script)
    (tmp_path / "runs" / "gpu" / "tiles.json").write_text("[1]")
    env = {"PATH": os.environ["PATH"], "PYTHON": "true", "OUT": str(tmp_path / "out")}
    subprocess.run([script, "tiles"], env=env, check=True)
    assert (tmp_path / "out" / "tiles.json").read_text() == "[1]"
    subprocess.run([script, "tiles", tmp_path / "new"], env=env, check=True)
    assert not (tmp_path / "new").exists()


def test_wheels_travel_beside_what_was_not_moved_away(repo_root, tmp_path):
    """gpu.sh itself asks to move a folder whose files git still lists."""
    script, folder = tmp_path / "benchmarks" / "gpu.sh", tmp_path / "wheels"
    script.parent.mkdir()
    folder.mkdir()
    shutil.copy(repo_root / "benchmarks" / "gpu.sh", script)
    shutil.copytree(repo_root / "requirements", tmp_path / "requirements")
    (tmp_path / "moved").touch()
    for words in (["init"], ["add", "moved", "benchmarks"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "moved").unlink()
    (folder / "fairseq_fixed-1.whl").touch()
    (tmp_path / "zip").symlink_to("/bin/true")
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": "true"}
    done = subprocess.run([script, "wheels", folder], env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "0 MiB of tracked files and 0 MiB of wheels\n"


@pytest.mark.parametrize("known", ["", "ad55ba3962+"])
def test_rows_have_the_commit_that_git_does_not_know(known, tmp_path, monkeypatch):
    """Nothing, or an older one."""
    monkeypatch.setattr(stage_results, "facts", lambda device: {"commit": known})
    monkeypatch.setenv("COMMIT", "8949e4d7b2")
    results = Results(tmp_path, "sizes", "cpu")
    results.add({"check": "one"})
    assert results.rows[0]["commit"] == "8949e4d7b2"


def test_a_group_of_tests_that_hangs_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(stage_tests, "_LONGEST", 0.01)
    (row,) = dry("tests", tmp_path)
    assert row["names"] == "stopped after 0.01 s"


def test_a_group_that_failed_waits_for_the_others(tmp_path, monkeypatch):
    """Of two calls, each with time for one group, the second has another."""
    monkeypatch.setattr(stage_tests, "groups", lambda: iter(["hangs", "runs"]))
    for expected in (["hangs"], ["hangs", "runs"]):
        calls = []

        def counts(group, device, log, calls=calls):
            if calls:
                raise TimeoutError  # gpu.sh's own limit
            calls.append(group)
            return {"failures": None if group == "hangs" else "0", "errors": "0"}

        monkeypatch.setattr(stage_tests, "_counts", counts)
        results = Results(tmp_path, "tests", "cpu")
        results.dry = False
        with pytest.raises(TimeoutError):
            stage_tests.run(results)
        assert [row["group"] for row in Results(tmp_path, "tests", "cpu").rows] == expected


def test_a_group_without_a_report_says_how_it_ended(tmp_path):
    log = tmp_path / "tests.log"
    assert stage_tests._counts("tests/no_such_file.py --no-such-flag", "cpu", log) == {
        "names": "pytest ended with code 4 and wrote no report"
    }
    assert "unrecognized arguments: --no-such-flag" in log.read_text()


def test_a_test_that_fails_says_why(tmp_path):
    path = tmp_path / "test_one.py"
    path.write_text("def test_sum():\n    assert 1 + 1 == 3\n")
    row = stage_tests._counts(f"{path} -p tests.conftest", "cpu", tmp_path / "tests.log")
    assert (row["tests"], row["failures"]) == ("1", "1")
    assert row["names"].endswith("test_one.test_sum") and "1 + 1" in row["reasons"]
    assert "test_sum FAILED" in (tmp_path / "tests.log").read_text()


def test_a_dry_run_is_no_result_of_a_gpu(tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match="DEVICE=cpu is a dry run"):
        command.main(["sizes", str(tmp_path)])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["none", "right", "all"])
def test_flex_attention_computes_the_rivals_formulas(kind):
    q, k, v, s = torch.randn(4, 2, 4, 7, 16).unbind()
    hidden = padding_mask(kind, 2, 7)
    masks = head_masks("forward_backward", 4)
    for sigma_t in ("identity", "logsigmoid"):
        common = {"masks": masks, "padding_mask": hidden, "sigma_t": sigma_t}
        truth = mtsa(q, k, v, s, **common, backend="reference")
        assert_close(sigma_t, truth, flex_mtsa(q, k, v, s, **common), 1e-5)
    for chosen in (None, masks):
        truth = Explicit(chosen)(q, k, v, hidden)
        assert_close("dot product", truth, FlexDot(chosen)(q, k, v, hidden), 1e-5)
