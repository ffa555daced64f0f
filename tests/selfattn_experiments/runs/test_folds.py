"""Runs of folds, by the real scheduler with commands that only look like fairseq's."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from selfattn.errors import UserError
from selfattn_experiments.compare.compare import Request, compare
from selfattn_experiments.compare.rendering.files import render
from selfattn_experiments.compare.results import Settings
from selfattn_experiments.compare.runs import name_systems
from selfattn_experiments.runs import session
from selfattn_experiments.runs.execution import child
from selfattn_experiments.runs.execution.slots import Slot
from selfattn_experiments.runs.grid import read_grid
from selfattn_experiments.runs.run import Run
from selfattn_tasks.registry import TASKS

GRID = """
task: sentences
data: data
output: out
seeds: [1, 2]
common: --arch sentence_encoder_tiny --max-epoch 2 --best-checkpoint-metric accuracy
systems: {base: --dropout 0.1, more: --dropout 0.2}
"""
GRID_FILE = Path("grid.yaml")
# Logs two updates, and fails as often as the file `fail` says.
TRAIN = """
import pathlib, sys
fold = sys.argv[1:][sys.argv.index("--fold")]
left = pathlib.Path("fail")
if left.is_file() and left.read_text() == fold:
    left.unlink()
    sys.exit(1)
saves = pathlib.Path(sys.argv[sys.argv.index("--save-dir") + 1])
saves.mkdir(exist_ok=True)
(saves / "checkpoint_best.pt").write_text("weights")
for update in (1, 2):
    print(f'2026-01-01 | INFO | valid | {{"epoch": 1, "valid_accuracy": "{40 + update}", '
          f'"valid_num_updates": "{update}"}}')
"""
# Right but for every seventh word number, or every third of the system base.
PREDICT = """
import json, pathlib, sys
checkpoint, source, target = sys.argv[1], sys.argv[3], sys.argv[5]
wrong = 3 if "base" in checkpoint else 7
rows = [json.loads(line) for line in pathlib.Path(source).read_text().splitlines()]
seed = int(checkpoint.split("-")[1].split("/")[0])
with open(target, "w") as file:
    print("prediction", file=file)
    for row in rows:
        number = int(row["sentences"][0][0]) + seed
        print("no" if number % wrong == 0 else row["target"], file=file)
"""


def test_gold_that_no_training_can_give_is_refused_before_one():
    gold = Path("gold.txt")
    text = GRID + "gold: gold.txt\n"
    for content, sentence in (
        (
            "text\tlabel\nit floats\tmaybe\n",
            "gold.txt has 'maybe', which is no class of da",
        ),
        (
            "text1\ttext2\tscore\nit floats\tit sinks\t2.5\n",
            "gold.txt has 2.5, which is no class",
        ),
    ):
        gold.write_text(content)
        GRID_FILE.write_text(text)
        with pytest.raises(UserError, match=sentence):
            read_grid(GRID_FILE)
    gold.write_text("text\tlabel\nit floats\tyes\nit sinks\t\n")
    assert not TASKS["sentences"].gold_fault(gold, Path("data"))
    with pytest.raises(UserError, match="`gold` is gold.txt, but the folds of data are tested on"):
        read_grid(GRID_FILE)
    gold.write_text("text\tlabel\n" + 20 * "it floats\tyes\n")
    assert read_grid(GRID_FILE).tests == {"test": gold}


def prepared(folder, selection="dev", count=20, folds=4):
    folder.mkdir()
    rows = [{"sentences": [[str(i), "boats"]], "target": "yes"} for i in range(count)]
    (folder / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "folds.json").write_text(json.dumps([i * 7 % folds for i in range(count)]))
    meta = {
        "version": 1, "kind": "classification", "labels": ["no", "yes"], "folds": folds, "seed": 5,
        "selection": selection, "tokens": {},
    }  # fmt: skip
    (folder / "meta.json").write_text(json.dumps(meta))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepared(tmp_path / "data")
    (tmp_path / "grid.yaml").write_text(GRID)
    known = child.facts()
    monkeypatch.setattr(child, "facts", lambda: known)
    train, predict = Run.train_command, Run.predict_command

    def fake(text, command, first):
        return [sys.executable, "-c", text, *command[first:]]

    monkeypatch.setattr(Run, "train_command", lambda *a: fake(TRAIN, train(*a), 3))
    monkeypatch.setattr(
        Run, "predict_command", lambda *a: fake(PREDICT, (c := predict(*a)), c.index("--input") - 1)
    )
    return tmp_path


def work(only=("base-1",), **options):
    grid = read_grid(GRID_FILE)
    return session.work(grid, session.Options(device="cpu", only=only, **options))


def record_of(folder, name="base-1"):
    return json.loads((folder / "out" / name / "run.json").read_text())


def test_every_fold_is_trained_and_joined_in_order(folder):
    assert work() == 0
    record = record_of(folder)
    rows = (folder / "out/base-1/test.tsv").read_text().splitlines()[1:]
    assert rows == ["no" if (i + 1) % 3 == 0 else "yes" for i in range(20)]
    assert record["scores"] == {"test": {"accuracy": 70.0}}
    assert record["protocol"] == "selection:dev|folds:4"
    assert (record["folds"]["count"], record["folds"]["seed"]) == (4, 5)
    over = record["folds"]["scores"]["accuracy"]
    assert len(over["values"]) == 4 and over["mean"] == pytest.approx(70) and over["sd"] > 0
    assert record["updates"] == 8 and record["best_valid"]["metric"] == "accuracy"
    assert [a["step"] for a in record["attempts"]] == ["train", "test"] * 4
    for fold in range(4):
        assert f"--fold {fold} --seed 1" in record["attempts"][2 * fold]["command"]
        own = json.loads((folder / f"out/base-1/fold{fold}/run.json").read_text())
        assert own["scores"]["test"]["accuracy"] == over["values"][fold]


def test_a_run_goes_on_with_the_first_fold_that_is_not_done(folder, capsys):
    (folder / "fail").write_text("2")
    assert work(retries=0) == 1
    assert not (folder / "out/base-1/run.json").exists()
    kept = (folder / "out/base-1/fold1/run.json").read_bytes()
    (run,) = session.runs_of(read_grid(GRID_FILE), ["base-1"])
    assert run.state() == "failed"
    assert work() == 0
    record = record_of(folder)
    assert (folder / "out/base-1/fold1/run.json").read_bytes() == kept
    trains = [a["command"] for a in record["attempts"] if a["step"] == "train"]
    trained = [command.split(" --fold ")[1][0] for command in trains]
    assert trained == ["0", "1", "2", "2", "3"]
    assert record["scores"]["test"]["accuracy"] == 70.0


def test_if_only_the_record_is_missing_the_last_fold_is_tested_again(folder):
    assert work() == 0
    (folder / "out/base-1/run.json").unlink()
    (run,) = session.runs_of(read_grid(GRID_FILE), ["base-1"])
    assert [step.name for step in run.steps(Slot())] == ["test"]
    assert work() == 0 and record_of(folder)["scores"]["test"]["accuracy"] == 70.0


def kept(folder):
    return [path.parts[-3] for path in sorted(folder.glob("out/base-1/*/checkpoints/*.pt"))]


def test_checkpoints_of_tested_folds_are_removed(folder):
    (folder / "fail").write_text("2")
    assert work(retries=0) == 1
    assert kept(folder) == []
    assert work() == 0
    # Of the last one: another attempt at joining begins with its test.
    assert kept(folder) == ["fold3"]
    # Without its predictions a fold is trained again, and nothing else is.
    (folder / "out/base-1/fold1/test.tsv").unlink()
    (folder / "out/base-1/run.json").unlink()
    assert work() == 0
    trains = [a["command"] for a in record_of(folder)["attempts"] if a["step"] == "train"]
    assert [command.split(" --fold ")[1][0] for command in trains].count("1") == 2
    assert len(trains) == 4 + 1 + 1 and kept(folder) == ["fold3"]


def test_a_fold_that_is_trained_again_is_tested_only_when_that_is_done(folder):
    """Killed when trained again, it has checkpoints, and a note that it was trained before."""
    assert work() == 0
    own = folder / "out/base-1/fold1"
    (own / "test.tsv").unlink()
    (folder / "out/base-1/run.json").unlink()
    (run,) = session.runs_of(read_grid(GRID_FILE), ["base-1"])
    run.prepare()
    (own / "checkpoints").mkdir()
    (own / "checkpoints/checkpoint_best.pt").write_text("weights of the first epoch")
    assert [step.name for step in run.steps(Slot())] == ["train", "test", "test"]


def test_a_kill_between_a_test_and_the_removal_leaves_no_checkpoints(folder):
    (folder / "fail").write_text("3")
    assert work(retries=0) == 1
    (folder / "out/base-1/fold2/checkpoints").mkdir()
    (folder / "out/base-1/fold2/checkpoints/checkpoint_best.pt").touch()
    assert work() == 0 and kept(folder) == ["fold3"]


def test_checkpoints_are_kept_if_the_grid_says_so(folder):
    (folder / "grid.yaml").write_text(GRID + "keep_checkpoints: true\n")
    assert work() == 0
    assert kept(folder) == ["fold0", "fold1", "fold2", "fold3"]


def strip(folder):
    """Leave what is committed of a run: its records and hypotheses."""
    for path in sorted((folder / "out/base-1").iterdir()):
        if path.name in ("run.json", "config.json", "test.tsv"):
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_a_committed_run_without_checkpoints_is_done(folder, capsys):
    assert work() == 0
    before = record_of(folder)
    strip(folder)
    # Another machine prepares the data again, from files in another place.
    meta = json.loads((folder / "data/meta.json").read_text())
    (folder / "data/meta.json").write_text(json.dumps(meta | {"files": ["elsewhere"]}))
    capsys.readouterr()
    assert work() == 0
    assert "1 of 1 runs done" in capsys.readouterr().out
    assert record_of(folder) == before
    assert sorted(path.name for path in (folder / "out/base-1").glob("[!.]*")) == [
        "config.json", "run.json", "test.tsv",
    ]  # fmt: skip
    assert session.dry_run(read_grid(GRID_FILE), session.Options("cpu", only=["base-1"])) == 0
    assert capsys.readouterr().out == ""


def test_data_that_chooses_on_the_test_set_is_another_run(folder):
    assert work() == 0
    meta = json.loads((folder / "data/meta.json").read_text())
    (folder / "data/meta.json").write_text(json.dumps(meta | {"selection": "test"}))
    with pytest.raises(UserError, match="another protocol .selection:dev.folds:4 then, "):
        work()


def compared(*patterns):
    pytest.importorskip("scipy")
    patterns = patterns or ("base=out/base-*/test.tsv", "more=out/more-*/test.tsv")
    systems = name_systems(list(patterns))
    gold = [("test", Path("data/all.jsonl"))]
    settings = Settings("", (), relevant=0.0, samples=200)
    return compare(Request(systems, gold, "auto", [], settings))


def test_a_comparison_of_folded_runs(folder, capsys):
    assert work(only=()) == 0
    out = capsys.readouterr().out
    assert "base  test accuracy 67.50 ± 3.54 (n = 2)" in out
    report = compared()
    (found,) = report.comparisons
    assert report.settings.metrics == ("accuracy",) and report.settings.relevant == 0.5
    assert report.signatures["test"]["accuracy"].endswith("|selection:dev|folds:4")
    assert [run.seed for run in report.runs] == ["1", "2"] * 2
    assert found.sentence.mcnemar_p is None and "McNemar" not in render(report, 100)
    three = ("base=out/base-1/test.tsv", "one=out/more-1/test.tsv", "two=out/more-2/test.tsv")
    report = compared(*three)
    assert "McNemar" in render(report, 100)
    tests = [c.sentence for c in report.comparisons]
    low, high = sorted(t.mcnemar_p for t in tests)
    assert sorted(t.mcnemar_holm for t in tests) == [min(1, 2 * low), max(min(1, 2 * low), high)]
    one, itself = compared(*three[:2], f"again={three[0][5:]}").comparisons
    assert itself.same_files and one.sentence.mcnemar_holm == one.sentence.mcnemar_p
    # A run whose record says otherwise is never beside them.
    path = folder / "out/more-2/run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"protocol": "selection:test"}))
    with pytest.raises(UserError, match="scores of different protocols are never mixed"):
        compared()
    path.unlink()
    assert any("no record of how checkpoints were chosen" in w for w in compared().warnings)


def test_several_test_sets_do_not_fit_folds(folder):
    (folder / "grid.yaml").write_text(GRID + "gold: {one: data/all.jsonl, two: data/all.jsonl}\n")
    with pytest.raises(UserError, match="names 2 test sets, but the folds of data"):
        read_grid(GRID_FILE)


def test_the_fold_is_not_for_the_grid_to_say(folder):
    (folder / "grid.yaml").write_text(GRID.replace("--max-epoch 2", "--max-epoch 2 --fold 1"))
    with pytest.raises(UserError, match="--fold, which is not allowed: the runner trains every"):
        read_grid(GRID_FILE)
