"""scripts/bench_attention.py as a user runs it, at tiny sizes."""

import csv
import importlib.util
import re
import sys
import xml.etree.ElementTree
from functools import partial
from pathlib import Path

import pytest

from benchmarks import memory
from selfattn.errors import UserError
from selfattn_experiments.commands.verbs import run_script

SCRIPT = "scripts/bench_attention.py"
NO_PICTURES = importlib.util.find_spec("matplotlib") is None

# Methods of a file of one's own: a wrong one, and one whose peak is known, three tensors of 16 MiB
# at 16 tokens, and which at 64 tokens asks for more memory than there is.
OWN_METHODS = """
import torch
from torch import nn
from benchmarks.kinds import LayerMethod

class Wrong(nn.Module):
    def forward(self, x, padding_mask=None):
        return x - x.mean((0, 1))

class Greedy(nn.Module):
    def forward(self, x, padding_mask=None):
        length = x.shape[1]
        parts = [torch.ones(length, 2**18 if length < 40 else 2**36) for _ in range(3)]
        return x + 0.0 * sum(part[0, 0] for part in parts)

METHODS = [
    LayerMethod("wrong", "wrong", lambda setup: Wrong()),
    LayerMethod("greedy", "greedy", lambda setup: Greedy()),
]
"""


@pytest.fixture(scope="module")
def bench(run_cli, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    (folder / "own.py").write_text(OWN_METHODS)

    def run(*args):
        return run_cli([SCRIPT, *args], cwd=folder, timeout=900)

    run.folder = folder
    return run


@pytest.fixture(scope="module")
def measured(bench):
    """One run of three methods, with pictures where they can be drawn."""
    pictures = [] if NO_PICTURES else ["--plots", "figures"]
    done = bench(
        "--quick", "--methods", "mtsa:srl", "greedy", "wrong",
        "--methods-module", "own.py", "--memory-limit", "4", "--csv", "rows.csv", *pictures,
    )  # fmt: skip
    with (bench.folder / "rows.csv").open(newline="") as file:
        return done, {(row["method"], row["length"]): row for row in csv.DictReader(file)}


def test_a_wrong_method_is_refused(measured):
    done, rows = measured
    assert done.returncode == 1
    assert "refused: wrong, length 16: output beside another sentence" in done.stderr
    assert not any(method == "wrong" for method, _ in rows)
    assert "| wrong" not in done.stdout


def test_rows_say_what_was_measured_where(measured):
    _, rows = measured
    row = rows["mtsa:srl", "64"]
    assert (row["level"], row["mode"], row["status"]) == ("layer", "training", "ok")
    assert row["parameters"] == str(5 * (64 * 64 + 64))
    assert float(row["ratio_low"]) <= float(row["ratio"]) <= float(row["ratio_high"])
    assert float(row["seconds"]) > 0 and int(row["pairs"]) == 3
    assert all(row[name] for name in ("cpu", "cores", "python", "torch", "date", "commit"))
    assert row["command"].startswith("python scripts/bench_attention.py --quick --methods mtsa:srl")


def test_out_of_memory_is_a_row_and_no_crash(measured):
    done, rows = measured
    assert rows["greedy", "16"]["status"] == "ok"
    assert rows["greedy", "64"]["status"] == "out of memory"
    assert "| greedy (`greedy`) | 0 |" in done.stdout


@pytest.mark.skipif(not memory.measurable("cpu"), reason="peak memory of a CPU needs Linux")
def test_peak_memory_is_what_was_allocated(measured):
    _, rows = measured
    assert float(rows["greedy", "16"]["memory_mib"]) == pytest.approx(3 * 16, rel=0.05)


@pytest.mark.skipif(NO_PICTURES, reason="matplotlib is not installed")
def test_pictures_are_valid_and_name_every_method(measured, bench):
    folder = bench.folder / "figures"
    for what in ("time", "memory"):
        png = folder / f"layer-training-cpu-{what}.png"
        assert png.read_bytes().startswith(b"\x89PNG\r\n")
        text = (folder / f"layer-training-cpu-{what}.svg").read_text()
        xml.etree.ElementTree.fromstring(text)
        assert "MTSA (srl)" in text
    assert not list(folder.glob(".*"))


def test_compare_finds_a_doctored_regression(measured, bench):
    rows = bench.folder / "rows.csv"
    same = bench("--read", "rows.csv", "--compare", "rows.csv").ok()
    assert "rows worse than in rows.csv: 0" in same.stdout
    lines = list(csv.reader(rows.open(newline="")))
    columns = [lines[0].index(name) for name in ("ratio", "ratio_low", "ratio_high")]
    for column in columns:
        lines[2][column] = str(float(lines[2][column]) / 3)
    with (bench.folder / "faster.csv").open("w", newline="") as file:
        csv.writer(file).writerows(lines)
    done = bench("--read", "rows.csv", "--compare", "faster.csv")
    assert done.returncode == 1
    assert "rows worse than in faster.csv: 1" in done.stdout
    assert "mtsa:srl, layer training, length 64: time " in done.stdout


def test_another_reference(bench):
    done = bench("--quick", "--no-memory", "--methods", "multihead:masks", "multihead:layer",
                 "--reference", "multihead:layer", "--csv", "own.csv").ok()  # fmt: skip
    assert "| time / multihead:layer |" in done.stdout
    with (bench.folder / "own.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["reference"] for row in rows} == {"multihead:layer"}
    assert all(float(row["ratio"]) > 0 for row in rows)


@pytest.fixture(scope="module")
def main():
    """The command without a process of its own, which would only load torch once more."""
    return partial(run_script, Path(SCRIPT).name)


def test_the_list_of_methods(main, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [SCRIPT, "--list", "--level", "operator"])
    assert main() == 0
    shown = capsys.readouterr().out
    assert shown.startswith("sdpa ")
    assert "mtsa:algorithm1" in shown


def test_a_mistake_is_one_sentence(bench):
    done = bench("--methods", "mtza")
    assert done.returncode == 2, done.stderr
    words = "--methods has 'mtza', which is unknown at level 'layer'"
    assert done.stderr.startswith(f"bench_attention.py: error: {words}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--heads", "7"], "--heads is 7, but must be even and divide --embed-dim 304"),
        (["--lengths", "1", "16"], "--lengths has 1, but a length must be at least 2"),
        (["--max-tokens", "0"], "--max-tokens is 0, but must be 1 or more"),
        (["--csv", "none/rows.csv"], "--csv is none/rows.csv, but there is no folder none"),
        (["--compare", "none.csv"], "--compare is none.csv, but there is no such file"),
        (["--read", "pyproject.toml"], "--read is pyproject.toml, which has no column 'level'"),
        (["--reference", "mtza"], "--reference has 'mtza', which is unknown at level 'layer'"),
        (["--device", "cuda"], "--device is cuda, but torch finds no GPU"),
    ],
)
def test_mistakes_are_found_before_measuring(main, monkeypatch, repo_root, args, words):
    monkeypatch.chdir(repo_root)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("benchmarks.sweep._worker", None)  # measuring would raise
    monkeypatch.setattr(sys, "argv", [SCRIPT, *args])
    with pytest.raises(UserError, match=re.escape(words)):
        main()
