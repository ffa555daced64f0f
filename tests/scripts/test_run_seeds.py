"""scripts/run_seeds.py with the real commands: a grid, killed and damaged runs, a tagging grid."""

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("sentencepiece")
pytest.importorskip("sacrebleu")
pytest.importorskip("yaml")

from selfattn_experiments.runs.execution.lock import locked
from selfattn_tasks.srl.formats import conll
from tests.plugin.conftest import write_corpus
from tests.plugin.srl_corpus import sentences

pytestmark = [pytest.mark.fairseq, pytest.mark.slow]

# An epoch has 5 updates, so most checkpoints of every 4th update lie inside of an epoch.
GRID = """
task: translation
data: {data}
output: {output}
seeds: [3, 5]
common: >-
  --arch transformer_mtsa_tiny --share-all-embeddings --encoder-layers 1 --decoder-layers 1
  --encoder-embed-dim 16 --decoder-embed-dim 16 --encoder-ffn-embed-dim 32
  --decoder-ffn-embed-dim 32 --dropout 0.1 --num-workers 0 --criterion cross_entropy
  --optimizer adam --lr 0.01 --max-tokens 400 --max-update 44 --save-interval-updates 4
  --log-interval 1
systems:
  multihead: --encoder-attention multihead
  mtsa: --encoder-attention mtsa
generate: --beam 1 --max-len-b 10 --remove-bpe sentencepiece
average: 2
"""
NAMES = ["multihead-3", "mtsa-3", "multihead-5", "mtsa-5"]
SEQUENCE = ["train", "average", "test"]


@pytest.fixture(scope="module")
def place(tmp_path_factory, run_cli):
    """A folder with prepared data and ``grid.yaml``, whose output is ``grid``."""
    folder = tmp_path_factory.mktemp("grids")
    (folder / "text").mkdir()
    write_corpus(folder / "text")
    splits = [f"--{split}={folder / 'text' / split}" for split in ("train", "valid", "test")]
    run_cli(
        ["scripts/prepare_translation.py", "--source-lang=src", "--target-lang=tgt",
         "--vocab-size=24", *splits, "--dest", folder / "data"],
        timeout=3000,
    ).ok()  # fmt: skip
    write_grid(folder, "grid")
    return folder


def write_grid(folder: Path, name: str, old: str = "", new: str = "") -> Path:
    """Write a grid file whose output has its name."""
    path = folder / f"{name}.yaml"
    text = GRID.format(data=folder / "data", output=folder / name)
    path.write_text(text.replace(old, new))
    return path


@pytest.fixture(scope="module")
def seeds(run_cli):
    def run(*args):
        return run_cli(["scripts/run_seeds.py", *args, "--device", "cpu"], timeout=3000)

    return run


@pytest.fixture(scope="module")
def whole(place, seeds):
    """The grid's folder, and what the runner printed."""
    done = seeds(place / "grid.yaml").ok()
    return place / "grid", done.stdout


def record_of(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text())


def steps_of(folder: Path) -> list[str]:
    attempts = json.loads((folder / "attempts.json").read_text())["attempts"]
    return [attempt["step"] for attempt in attempts]


def sacrebleu_of(place: Path, hypotheses: Path) -> list[float]:
    """BLEU and chrF, by sacrebleu's own command."""
    command = [sys.executable, "-m", "sacrebleu", place / "data/raw/test.tgt", "-i", hypotheses]
    flags = ["-m", "bleu", "chrf", "-w", "2"]
    done = subprocess.run([*command, *flags], capture_output=True, text=True)
    return [metric["score"] for metric in json.loads(done.stdout)]


def test_a_whole_grid_is_trained_tested_and_recorded(whole, place):
    folder, screen = whole
    for name in NAMES:
        run, record = folder / name, record_of(folder / name)
        assert steps_of(run) == SEQUENCE
        seed = int(name.rpartition("-")[2])
        assert f" --seed {seed} " in record["attempts"][0]["command"]
        assert f"'seed': {seed}, 'cpu': True" in (run / "train.log").read_text()
        assert len((run / "test.hyp").read_text().splitlines()) == 20
        assert record["updates"] == 44 and record["parameters"] > 1000
        assert record["best_valid"]["metric"] == "loss"
        assert re.fullmatch(r"[0-9a-f]{10}\+?|", record["commits"][0])
        assert record["attempts"][0]["versions"]["fairseq-fixed"]
        assert record["attempts"][0]["cpu"] and record["seconds"]["train"] > 0
        assert re.search(rf"{name} +done +44  test BLEU \d", screen)
    scores = {name: record_of(folder / name)["scores"]["test"] for name in NAMES}
    found = scores["mtsa-3"]
    official = sacrebleu_of(place, folder / "mtsa-3" / "test.hyp")
    assert [round(found["BLEU"], 2), round(found["chrF"], 2)] == official
    assert found["chrF"] > 0
    assert len({score["chrF"] for score in scores.values()}) == 4, "seeds or systems are the same"

    with (folder / "summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == NAMES
    assert [float(row["test BLEU"]) for row in rows] == [s["BLEU"] for s in scores.values()]
    found = json.loads((folder / "summary.json").read_text())["systems"]["mtsa"]["test BLEU"]
    both = [scores["mtsa-3"]["BLEU"], scores["mtsa-5"]["BLEU"]]
    assert found["values"] == both and found["mean"] == pytest.approx(sum(both) / 2, abs=1e-3)
    assert f"BLEU {found['mean']:.2f} ± {found['sd']:.2f} (n = 2)" in screen


def test_what_is_done_is_skipped_and_what_is_damaged_is_not_trusted(whole, seeds, place):
    """One run has other hypotheses than its record says, one only the half of a record."""
    folder, _ = whole
    before = {name: record_of(folder / name) for name in NAMES}
    (folder / "mtsa-3" / "test.hyp").write_text("something else\n" * 20)
    text = (folder / "multihead-5" / "run.json").read_text()
    (folder / "multihead-5" / "run.json").write_text(text[: len(text) // 2])
    summed = seeds(place / "grid.yaml", "--summary")
    assert summed.returncode == 1
    assert "unfinished: mtsa-3" in summed.stdout and "unfinished: multihead-5" in summed.stdout
    assert "(n = 1)" in summed.stdout, "only a run that is done has a score"
    seeds(place / "grid.yaml").ok()
    for name in NAMES:
        tested_again = name in ("mtsa-3", "multihead-5")
        assert steps_of(folder / name) == SEQUENCE + SEQUENCE[1:] * tested_again
        after = record_of(folder / name)
        assert after["scores"] == before[name]["scores"]
        assert after["hypotheses"] == before[name]["hypotheses"]
        assert (after == before[name]) is not tested_again


def test_refusals(whole, seeds, place):
    folder, _ = whole
    path = place / "changed.yaml"
    text = (place / "grid.yaml").read_text().replace("--lr 0.01", "--lr 0.02")
    path.write_text(text)
    done = seeds(path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"{folder}/multihead-3 was trained with other flags (--lr 0.01 then, --lr 0.02 now)" in (
        done.stderr
    )
    with locked(folder / ".lock", "it"):
        done = seeds(place / "grid.yaml")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert f"another runner is using {folder} (process {os.getpid()} on" in done.stderr


def start(python: str, path: Path, *args: str) -> subprocess.Popen:
    return subprocess.Popen(
        [python, "scripts/run_seeds.py", path, "--device", "cpu", *args],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def wait_for(log: Path, text: str, runner: subprocess.Popen) -> None:
    """Wait until a text stands in a log, as long as the runner runs."""
    end = time.monotonic() + 1500
    while not log.is_file() or text not in log.read_text(errors="replace"):
        assert runner.poll() is None, runner.communicate()[0]
        assert time.monotonic() < end, f"{text} never came"
        time.sleep(0.01)


def trainers_of(folder: Path) -> list[int]:
    """The processes that train in a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if str(folder / "checkpoints").encode() in words:
            found.append(int(path.parent.name))
    return found


def test_killed_and_resumed_equals_uninterrupted(whole, place, seeds, server):
    """fairseq-train is killed and tried again, then the runner is, by SIGKILL and by SIGTERM."""
    folder, _ = whole
    path = write_grid(place, "killed")
    run = place / "killed" / "mtsa-3"
    runner = start(server.python, path, "--only", "mtsa-3")
    wait_for(run / "train.log", "@ 8 updates, score", runner)
    (trainer,) = trainers_of(run)
    os.kill(trainer, signal.SIGKILL)
    wait_for(run / "train.log", "Loaded checkpoint", runner)
    runner.kill()
    said = runner.communicate()[0]
    assert "mtsa-3: fairseq-train was killed by signal 9" in said and "1 of 2 times" in said
    assert "train_inner" in said, "the last lines of its log"

    # At once: it waits for what the other left.
    runner = start(server.python, path, "--only", "mtsa-3")
    wait_for(run / "train.log", "@ 24 updates, score", runner)
    assert len(trainers_of(run)) == 1
    runner.terminate()
    assert runner.wait(600) == 143, runner.communicate()[0]
    assert not trainers_of(run)
    assert not (run / "run.json").exists() and not (run / "trained.json").exists()
    assert not (place / "killed" / "summary.csv").exists(), "others may write it"

    seeds(path, "--only", "mtsa-3").ok()
    assert steps_of(run) == ["train", "train", "train", "train", "average", "test"]
    codes = [attempt["code"] for attempt in record_of(run)["attempts"]]
    assert codes == [-9, None, None, 0, 0, 0]
    begun = re.findall(r"Loaded checkpoint .* @ (\d+) updates", (run / "train.log").read_text())
    assert len(begun) == 3 and int(begun[0]) >= 8 and int(begun[2]) >= 24
    expected, resumed = record_of(folder / "mtsa-3"), record_of(run)
    assert resumed["hypotheses"] == expected["hypotheses"]
    assert resumed["scores"] == expected["scores"] and resumed["updates"] == 44
    assert resumed["best_valid"] == expected["best_valid"]

    # Killed after the last checkpoint, but before it was marked as trained.
    (run / "trained.json").unlink()
    (run / "run.json").unlink()
    left = seeds(path, "--only", "mtsa-3", "--dry-run").stdout
    assert "fairseq_cli.generate" in left and "fairseq_cli.train" not in left


def test_a_run_that_cannot_work_fails_alone(place, seeds):
    """fairseq refuses a flag of one system: said once, no score, no second attempt."""
    path = write_grid(place, "wrong", "--encoder-attention multihead", "--no-such-flag 1")
    path.write_text(path.read_text().replace("[3, 5]", "[3]").replace("update 44", "update 8"))
    done = seeds(path, "--jobs", "999")
    assert done.returncode == 1
    assert re.match(r"--jobs is 999, but this machine has room for \d+ at a time\n", done.stdout)
    assert "unrecognized arguments: --no-such-flag 1" in done.stdout
    assert done.stdout.count("failed: multihead-3: ") == 1
    assert steps_of(place / "wrong" / "multihead-3") == ["train"]
    summary = json.loads((place / "wrong" / "summary.json").read_text())
    states = {row["run"]: (row["state"], bool(row["scores"])) for row in summary["runs"]}
    assert states == {"multihead-3": ("failed", False), "mtsa-3": ("done", True)}
    assert summary["systems"]["multihead"] == {}


SRL = """
task: srl
data: {folder}/data
output: {folder}/out
seeds: [1]
common: >-
  --arch deepatt_mtsa --encoder-layers 1 --encoder-attention-heads 2 --encoder-embed-dim 32
  --word-embed-dim 20 --criterion bio_tagging --optimizer adadelta --lr 1.0 --clip-norm 1.0
  --num-workers 0 --max-tokens 500 --max-epoch 4 --log-interval 1
  --best-checkpoint-metric f1 --maximize-best-checkpoint-metric
systems:
  mtsa: --encoder-attention mtsa
gold: {{dev: {folder}/valid.conll}}
predict: --decoder he
"""


def test_a_tagging_grid(tmp_path, run_cli, seeds):
    for split, number, seed in (("train", 150, 1), ("valid", 30, 2)):
        conll.write_columns(tmp_path / f"{split}.conll", sentences(number, seed))
    splits = [f"--{split}={tmp_path / split}.conll" for split in ("train", "valid")]
    run_cli(["scripts/prepare_srl.py", *splits, "--dest", tmp_path / "data"], timeout=3000).ok()
    (tmp_path / "srl.yaml").write_text(SRL.format(folder=tmp_path))
    done = seeds(tmp_path / "srl.yaml").ok()
    run = tmp_path / "out" / "mtsa-1"
    found = record_of(run)["scores"]["dev"]
    official = run_cli(
        ["scripts/score_srl.py", tmp_path / "valid.conll", run / "dev.props", "--json"]
    )
    assert found["F1"] == round(json.loads(official.stdout)["overall"]["f1"], 6) > 0
    assert set(found) == {"F1", "precision", "recall", "Comp."}
    assert record_of(run)["best_valid"]["metric"] == "f1"
    assert "mtsa  dev F1 " in done.stdout


FOLDED = """
task: sentences
data: {folder}/data
output: {folder}/out
seeds: [1]
common: >-
  --arch sentence_encoder_none_tiny --dropout 0 --optimizer adam --lr 0.02 --batch-size 8
  --embed-dim 16 --max-epoch 20 --num-workers 0 --no-epoch-checkpoints --log-interval 1
  --best-checkpoint-metric accuracy --maximize-best-checkpoint-metric
systems:
  none: ""
"""


def test_a_grid_of_folds(tmp_path, run_cli, seeds):
    """Each fold is trained and tested by the real commands, and a committed run is done."""
    texts = [f"{w} paints {what} {n}" for n in range(8) for w in ("who", "where")
             for what in ("boats", "houses", "cheese")]  # fmt: skip
    labels = ["HUM:ind" if text.startswith("who") else "LOC:other" for text in texts]
    rows = [f"{label} {text} ?\n" for label, text in zip(labels, texts, strict=True)]
    (tmp_path / "questions.label").write_text("".join(rows))
    run_cli(
        ["scripts/prepare_sentences.py", "--task=classification", "--folds=3",
         "--train", tmp_path / "questions.label", "--dest", tmp_path / "data"],
        timeout=3000,
    ).ok()  # fmt: skip
    (tmp_path / "folds.yaml").write_text(FOLDED.format(folder=tmp_path))
    seeds(tmp_path / "folds.yaml").ok()
    run = tmp_path / "out" / "none-1"
    record = record_of(run)
    score = run_cli(
        ["scripts/score_sentences.py", tmp_path / "questions.label", run / "test.tsv", "--json"]
    )
    assert record["scores"]["test"]["accuracy"] == json.loads(score.stdout)["accuracy"] == 100
    assert record["folds"]["scores"]["accuracy"]["values"] == [100.0] * 3
    assert record["protocol"] == "selection:dev|folds:3"
    assert record["best_valid"]["metric"] == "accuracy" and record["updates"] == 3 * 40
    for path in list(run.iterdir()):
        if path.name not in ("run.json", "config.json", "test.tsv"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    again = seeds(tmp_path / "folds.yaml")
    assert again.returncode == 0 and "1 of 1 runs done" in again.stdout
    assert record_of(run) == record and not (run / "fold0").exists()
