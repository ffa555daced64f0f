"""A task with its own format and scores, added by the list in CONTRIBUTING, and by nothing else."""

import ast
import random
import re

import numpy as np
import pytest

from selfattn.errors import UserError
from selfattn_experiments.compare.compare import Request, compare
from selfattn_experiments.compare.rendering.files import render
from selfattn_experiments.compare.results import Settings
from selfattn_experiments.compare.runs import name_systems
from selfattn_experiments.runs import session
from selfattn_experiments.runs.execution.slots import Slot
from selfattn_experiments.runs.grid import read_grid
from selfattn_tasks.registry import TASKS
from tests.toys.similarity import Similarity

GRID = """
task: similarity
data: {folder}
output: {folder}/out
seeds: [1, 2, 3]
common: --arch tiny --max-update 10
systems: {{base: --dropout 0.1, more: --dropout 0.2}}
gold: {{sick: {folder}/gold.tsv}}
predict: --batch 7
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The task is listed, and the folder holds 80 gold pairs."""
    monkeypatch.setitem(TASKS, "similarity", Similarity())
    rng = random.Random(3)
    lines = [f"{rng.uniform(1, 5):.1f}\tone sentence\tanother one\n" for _ in range(80)]
    (tmp_path / "gold.tsv").write_text("".join(lines))
    (tmp_path / "dict.words.txt").touch()
    (tmp_path / "grid.yaml").write_text(GRID.format(folder=tmp_path))
    return tmp_path


def gold_of(folder):
    return [float(line.split("\t")[0]) for line in (folder / "gold.tsv").read_text().splitlines()]


def predict(path, folder, seed, noise):
    rng = random.Random(seed)
    path.write_text("".join(f"{x + rng.gauss(0, noise):.4f}\n" for x in gold_of(folder)))


def test_the_list_names_files_that_a_task_has(repo_root):
    text = (repo_root / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition("\n## A new task\n")[2].partition("\n## ")[0]
    paths = [path for path in re.findall(r"`([\w./<>]+)", section) if "/" in path]
    assert "selfattn_tasks/<task>/task.py" in paths and "selfattn_tasks/registry.py" in paths
    for path in paths:
        assert (repo_root / path.replace("<task>", "srl")).exists(), path


@pytest.mark.parametrize("package", ["runs", "compare"])
def test_no_task_is_named_outside_of_the_registry(repo_root, package):
    """Neither by a string nor by an import; a simulation of BLEU needs its formula."""
    for path in sorted((repo_root / "selfattn_experiments" / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant):
                assert node.value not in TASKS, f"{path}:{node.lineno}"
            elif isinstance(node, ast.ImportFrom) and path.name != "simulation.py":
                folders = (node.module or "").split(".")[1:2]
                assert not TASKS.keys() & folders, f"{path}:{node.lineno}"


def compared(folder, pattern):
    pytest.importorskip("scipy")
    systems = name_systems([f"{name}={folder}/{pattern.format(name)}" for name in ("base", "more")])
    request = Request(
        systems, [("sick", folder / "gold.tsv")], "auto", [], Settings("", (), samples=200)
    )
    return compare(request)


def test_a_comparison(folder):
    for seed in (1, 2, 3):
        predict(folder / f"base{seed}.txt", folder, seed, 1.2)
        predict(folder / f"more{seed}.txt", folder, 10 + seed, 0.3)
    report = compared(folder, "{}*.txt")
    assert report.settings.task == "similarity"
    assert report.settings.metrics == ("Pearson", "MSE") and report.settings.primary == "Pearson"
    gold = np.array(gold_of(folder))
    for run in report.runs:
        found = np.loadtxt(run.path)
        assert run.scores["Pearson"] == pytest.approx(100 * np.corrcoef(gold, found)[0, 1])
        assert run.scores["MSE"] == pytest.approx(np.mean((gold - found) ** 2))
    pearson, mse = report.comparisons
    assert (pearson.verdict, mse.verdict) == ("better", "secondary")
    assert mse.difference < 0 and not mse.higher_is_better
    assert pearson.sentence.bootstrap_p < 0.05
    assert "MSE counts errors: lower is better." in render(report, 100)
    # The second time, the sums are read from beside the files, and are the same.
    assert (folder / ".base1.txt.similarity.counts").is_file()
    assert compared(folder, "{}*.txt").runs == report.runs


def test_a_system_against_itself(folder):
    """Sums of floats, too, are equal where the files are."""
    for seed in (1, 2):
        for name in ("base", "more"):
            predict(folder / f"{name}{seed}.txt", folder, seed, 0.5)
    for c in compared(folder, "{}*.txt").comparisons:
        assert c.difference == 0 and c.sentence.bootstrap_p == c.sentence.randomisation_p == 1


def test_other_files_stay_those_of_other_tasks(folder):
    (folder / "gold.tsv").write_text("We - (A0*)\npoured pour (V*)\n\n" * 3)
    for name in ("base1.txt", "more1.txt"):
        (folder / name).write_text((folder / "gold.tsv").read_text())
    assert compared(folder, "{}*.txt").settings.task == "srl"


def test_a_grid(folder, capsys):
    """Its commands, and a record of each run once they have done their work."""
    grid = read_grid(folder / "grid.yaml")
    assert session.dry_run(grid, session.Options(device="cpu")) == 0
    said = capsys.readouterr().out
    assert said.count(" --task similarity_of_sentences ") == 6
    line = next(line for line in said.splitlines() if "predict_similarity" in line)
    assert f" --input {folder}/gold.tsv --output {folder}/out/base-1/sick.predicted" in line
    assert line.endswith(" --batch 7")
    for run in session.runs_of(grid):
        run.prepare()
        run._mark_trained()
        (step,) = run.steps(Slot())
        assert step.output is None
        run.attempts.begin(step, Slot())
        noise = 1.2 if run.system == "base" else 0.3
        predict(folder / "out" / run.name / "sick.predicted", folder, run.name, noise)
        step.done()
        assert run.state() == "done" and set(run.record()["scores"]["sick"]) == {"Pearson", "MSE"}
    assert session.summarise(grid) == 0
    assert "sick Pearson " in capsys.readouterr().out
    report = compared(folder, "out/{}-*/sick.numbers")
    assert report.comparisons[0].verdict == "better" and report.runs[0].seed == "1"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("predict:", "generate:", "`generate` belongs to task translation, not to similarity"),
        ("--batch 7", "--input x", "predict gives --input, which is not allowed: the key `gold`"),
        ("gold:", "golds:", "the key `golds` is unknown: do you mean `gold`?"),
        ("similarity", "parsing", "must be translation or srl or sentences or similarity"),
    ],
)
def test_mistakes_in_a_grid(folder, old, new, said):
    path = folder / "grid.yaml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UserError) as error:
        read_grid(path)
    assert said in str(error.value)
