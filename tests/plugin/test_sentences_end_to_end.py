"""Sentences from files to a score, by real commands: prepare, train, resume, validate, predict."""

import json
import re

import numpy as np
import pytest
import torch

from selfattn.errors import UserError
from selfattn_tasks import checkpoints
from selfattn_tasks.sentences import predictions
from selfattn_tasks.sentences.folder import Folder
from selfattn_tasks.sentences.model.predictor import Predictor
from selfattn_tasks.sentences.model.state import KEY
from selfattn_tasks.sentences.record import Example
from tests.plugin import sentence_corpus
from tests.plugin.helpers import logged, losses, run_ranks

FLAGS = """
    --user-dir plugin --task sentences --arch sentence_encoder_mtsa_tiny --dropout 0.1 --l2 1e-4
    --optimizer adam --lr 0.01 --batch-size 8 --seed 1
    --cpu --num-workers 0 --no-progress-bar --log-format json --log-interval 1
""".split()
BEST = "--maximize-best-checkpoint-metric --best-checkpoint-metric".split()


@pytest.fixture(scope="module")
def prepare(run_cli, tmp_path_factory):
    """A function that prepares a task's folder once, and returns it with its parts beside it."""
    folders = {}

    def make(task, *more):
        if (task, more) not in folders:
            place = tmp_path_factory.mktemp(task)
            flags = sentence_corpus.write(place, task)
            script = "scripts/prepare_sentences.py"
            run_cli([script, *flags, *more, "--dest", place / "data"]).ok()
            folders[task, more] = place / "data"
        return folders[task, more]

    return make


@pytest.fixture(scope="module")
def train(run_cli):
    """A function that trains a tiny model on a folder: the log's lines."""

    def run(data, save_dir, *flags, ok=True):
        command = ["-m", "fairseq_cli.train", data, *FLAGS, "--save-dir", save_dir, *flags]
        done = run_cli(command)
        assert not ok or done.returncode == 0, done.stdout + done.stderr
        return done.lines if ok else done

    return run


@pytest.fixture(scope="module")
def related(prepare, train, tmp_path_factory):
    """Data, folder and log of three epochs of relatedness."""
    data, folder = prepare("relatedness"), tmp_path_factory.mktemp("related") / "run"
    flags = ("--max-epoch", "3", "--save-interval-updates", "10", *BEST, "pearson")
    return data, folder, train(data, folder, *flags, "--valid-subset", "valid,test")


def predicted(run_cli, checkpoint, source, output, *more):
    """The predictions of a file."""
    script = "scripts/predict_sentences.py"
    run_cli([script, checkpoint, "--input", source, "--output", output, *more]).ok()
    return predictions.read(output)


def test_validation_says_what_score_says(related, run_cli, tmp_path):
    """Pearson, Spearman and MSE of the best checkpoint, over the whole set."""
    data, folder, log = related
    valid = [r for r in logged(log, "valid") if "valid_pearson" in r]
    best = max(valid, key=lambda record: float(record["valid_pearson"]))
    assert float(best["valid_pearson"]) > 0.5
    source, output = data.parent / "relatedness.valid.tsv", tmp_path / "out.tsv"
    predicted(run_cli, folder / "checkpoint_best.pt", source, output)
    done = run_cli(["scripts/score_sentences.py", source, output, "--json"]).ok()
    found = json.loads(done.stdout)
    for name in ("pearson", "spearman", "mse"):
        assert float(best[f"valid_{name}"]) == pytest.approx(found[name], abs=2e-4), name
    assert {r["test_mse"] for r in logged(log, "test")}


def test_a_resumed_training_is_the_same(related, train, tmp_path):
    """Batches are new in each epoch, and the same after a resume inside of one."""
    data, folder, log = related
    (tmp_path / "checkpoint_last.pt").write_bytes((folder / "checkpoint_2_20.pt").read_bytes())
    after = losses(train(data, tmp_path, "--max-epoch", "3"))
    everything = losses(log)
    assert list(after) == [n for n in everything if int(n) > 20]
    assert after == {number: everything[number] for number in after}


@pytest.mark.parametrize("start", ["cold", "warm"])
def test_two_processes_train_and_score_as_one(start, related, train, run_cli, tmp_path):
    data, folder, _ = related
    more = ["--max-update", "4", "--dropout", "0", "--no-save", "--batch-size-valid", "7"]
    if start == "warm":
        more += ["--finetune-from-model", str(folder / "checkpoint_best.pt")]
    alone = train(data, tmp_path, *more, "--update-freq", "2")
    outputs = run_ranks(run_cli, [data, *FLAGS, *more, "--save-dir", tmp_path])
    together = [line for output in outputs for line in output.splitlines()]
    expected, found = losses(alone), losses(together)
    assert found.keys() == expected.keys() == set("1234")
    for number, (loss, *_) in found.items():
        assert float(loss) == pytest.approx(float(expected[number][0]), abs=2e-4)
    one, two = (logged(lines, "valid")[-1] for lines in (alone, together))
    for name in ("valid_loss", "valid_pearson", "valid_spearman", "valid_mse"):
        assert float(two[name]) == pytest.approx(float(one[name]), abs=2e-4), name


def test_fairseq_validate_reads_the_checkpoint(related, run_cli):
    data, folder, log = related
    command = ["-m", "fairseq_cli.validate", data, "--user-dir", "plugin", "--task", "sentences",
               "--path", folder / "checkpoint_best.pt", "--cpu", "--no-progress-bar",
               "--log-format", "json", "--valid-subset", "valid,test"]  # fmt: skip
    lines = run_cli(command).ok().lines
    best = max(logged(log, "valid"), key=lambda record: float(record["valid_pearson"]))
    assert logged(lines, "valid")[-1]["valid_pearson"] == best["valid_pearson"]
    tested = {record["test_num_updates"]: record for record in logged(log, "test")}
    of_best = tested[best["valid_num_updates"]]
    assert logged(lines, "test")[-1]["test_spearman"] == of_best["test_spearman"]


def test_the_checkpoint_is_all_that_is_needed(related, run_cli, tmp_path):
    """Words that only the vectors' file knows, the way to words, and the labels are in it."""
    data, folder, _ = related
    state = checkpoints.read(folder / "checkpoint_best.pt")["task_state"][KEY]
    assert state["meta"]["kind"] == "relatedness" and state["config"]["context"] == "mtsa"
    assert set(state["vocabulary"]["words"]) == set(Folder(data).words())
    predictor = Predictor.load(folder / "checkpoint_best.pt")
    tokens = predictor.state.tokens
    pairs = [("A cook washes the kettle.", "The goat hides some apples."), ("", "The"), ("x", "")]
    examples = [Example((tokens(a), tokens(b)), None) for a, b in pairs]
    found = predictor.predict(examples)
    alone = [predictor.predict([example])[0] for example in examples]
    for one, other in zip(found, alone, strict=True):
        assert one.prediction == pytest.approx(other.prediction, abs=1e-5)
        assert 1 <= one.prediction <= 5 and sum(one.probabilities) == pytest.approx(1)
    with pytest.raises(UserError, match="example 1 has 1 sentence, but a model of the task"):
        predictor.predict([Example((("a",),), None)])
    texts = [word for pair in pairs[:1] for text in pair for word in ("--sentence", text)]
    done = run_cli(["scripts/predict_srl.py", folder / "checkpoint_best.pt", *texts]).ok()
    header, row = done.stdout.splitlines()
    assert header.split("\t") == ["prediction", *(f"p({k})" for k in range(1, 6))]
    assert float(row.split("\t")[0]) == pytest.approx(found[0].prediction, abs=1e-5)
    roles = ["scripts/predict_srl.py", folder / "checkpoint_best.pt", *texts, "--decoder", "he"]
    assert "--decoder belongs to models of semantic roles" in run_cli(roles).stderr
    done = run_cli(["scripts/predict_sentences.py", folder / "checkpoint_best.pt", *texts[:2]])
    assert "1 sentence is given, but an example of the task relatedness is two" in done.stderr


def test_an_ensemble_averages_probabilities(related):
    _, folder, _ = related
    paths = [folder / "checkpoint1.pt", folder / "checkpoint_last.pt"]
    example = [Example((("a", "cook"), ("the", "goat", "hides")), None)]
    each = [Predictor.load(path).predict(example)[0].probabilities for path in paths]
    both = Predictor.load(paths).predict(example)[0].probabilities
    assert both == pytest.approx(np.mean(each, 0).tolist())
    with pytest.raises(UserError, match="hold the same weights"):
        Predictor.load([paths[0], paths[0]])


KINDS = {
    "classification": ("lstm", 6, "0.01", 70),
    "nli": ("biblosa", 6, "0.01", 60),
    "selection": ("multihead", 12, "0.02", 50),
}


@pytest.mark.parametrize("task", KINDS)
def test_every_task_is_learnt(task, prepare, train, run_cli, tmp_path):
    """The criterion follows from the data, and the file of predictions from the task."""
    context, epochs, lr, least = KINDS[task]
    data = prepare(task)
    flags = ("--context", context, "--max-epoch", epochs, *BEST, "accuracy", "--dropout", "0",
             "--lr", lr, "--patience", "9", "--save-interval", "3", "--validate-interval", "3",
             "--no-epoch-checkpoints")  # fmt: skip
    log = train(data, tmp_path, *flags)
    best = max(float(record["valid_accuracy"]) for record in logged(log, "valid"))
    assert best > least
    (source,) = data.parent.glob(f"{task}.valid.*")
    vectors = tmp_path / "vectors.npy"
    rows = predicted(run_cli, tmp_path / "checkpoint_best.pt", source, tmp_path / "out.tsv",
                     "--embeddings", vectors)  # fmt: skip
    gold = Folder(data).examples("valid")
    right = [str(example.target) == row.prediction for example, row in zip(gold, rows, strict=True)]
    assert 100 * sum(right) / len(gold) == pytest.approx(best, abs=0.01)
    most = max(len(example.sentences) for example in gold)
    shape = (len(gold), 16) if task == "classification" else (len(gold), most, 16)
    assert np.load(vectors).shape == shape
    for row in rows:
        assert sum(row.probabilities) == pytest.approx(1, abs=1e-5)


def test_resa_is_trained_by_policy_gradient(prepare, train, run_cli, tmp_path):
    """One reward a pair, the cost on the selected tokens of both, through all phases."""
    flags = ("--context", "resa", "--criterion", "policy_gradient", "--select-all-updates", "3",
             "--policy-only-updates", "3", "--reward-baseline", "running_mean", "--max-update",
             "9", "--save-interval-updates", "3", "--validate-interval-updates", "3")  # fmt: skip
    log = train(prepare("nli"), tmp_path, *flags)
    records = logged(log, "train_inner")
    assert [float(r["selected_heads"]) == 1 for r in records] == [True] * 3 + [False] * 6
    assert all(float(r["reward"]) < 0 for r in records)
    valid = logged(log, "valid")[-1]
    assert "valid_accuracy" in valid and 0 < float(valid["valid_selected_heads"]) <= 1

    def weights(update):
        (path,) = tmp_path.glob(f"checkpoint_*_{update}.pt")
        return checkpoints.read(path)["model"]

    before, after = weights(3), weights(6)
    moved = {name for name, value in before.items() if not value.equal(after[name])}
    moved = {name for name in moved if not name.endswith("_extra_state")}
    assert moved and all("_sampler." in name for name in moved)
    command = ["scripts/show_attention.py", tmp_path / "checkpoint_last.pt", "A cook hides maps.",
               "Nobody hides maps.", "--layer", "all", "--output", tmp_path / "pair", "--json",
               tmp_path / "pair.json"]  # fmt: skip
    run_cli(command).ok()
    assert len(list(tmp_path.glob("pair-sentence?-layer?.png"))) == 4
    for found in json.loads((tmp_path / "pair.json").read_text())["sentences"]:
        context, pool = found["layers"]
        assert (
            len(context["selected_heads"]) == len(found["tokens"]) and "source2token" not in context
        )
        assert sum(pool["source2token"][0]) == pytest.approx(1)
        assert pool["attention"] == "pool" and len(pool["source2token"][0]) == len(found["tokens"])


def test_a_language_model_is_fine_tuned(prepare, train, run_cli, tmp_path):
    """MTSA's transfer: fairseq's masked_lm trains words and context, inference takes them over."""
    data = prepare("nli")
    text = tmp_path / "text.txt"
    lines = [" ".join(s) for e in Folder(data).examples("train") for s in e.sentences if s]
    text.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run_cli(["-m", "fairseq_cli.preprocess", "--only-source", "--srcdict",
             data / "dict.txt", "--trainpref", text, "--validpref", text, "--destdir",
             tmp_path / "bin"]).ok()  # fmt: skip
    lm = """--user-dir plugin --task masked_lm --arch sentence_lm --criterion masked_lm --cpu
        --context mtsa --hidden-size 8 --embed-dim 12 --sample-break-mode eos
        --tokens-per-sample 64 --optimizer adam --lr 0.01 --batch-size 16 --max-update 10
        --num-workers 0 --no-progress-bar --log-format json""".split()
    run_cli(["-m", "fairseq_cli.train", tmp_path / "bin", *lm, "--save-dir",
             tmp_path / "lm"]).ok()  # fmt: skip
    start = ("--finetune-from-model", tmp_path / "lm" / "checkpoint_last.pt")
    more = ("--max-update", "1", "--lr", "1e-12", "--activation-fn", "relu")
    log = "\n".join(train(data, tmp_path / "run", *start, *more))
    words = len(Folder(data).words())
    assert f"{words} of {words} words start from its vectors" in log
    taken = re.search(r"are the checkpoint's: (.*)", log)[1]
    assert "network.encoder.context.layer" in taken and "network.encoder.pool" not in taken
    assert "network.head" in re.search(r"are new: (.*)", log)[1]
    old = checkpoints.read(tmp_path / "lm" / "checkpoint_last.pt")["model"]
    new = checkpoints.read(tmp_path / "run" / "checkpoint_last.pt")["model"]
    shared = [name for name in old if name.startswith("network.encoder.")]
    assert shared and all(abs(old[n] - new[n]).max() < 1e-6 for n in shared)
    row = "network.table.trained.weight"
    assert abs(old[row][4 : 4 + words] - new[row]).max() < 1e-6  # behind fairseq's four symbols
    train(data, tmp_path / "x", *start, *more, "--hidden-size", "4", "--embed-dim", "12",
          "--context", "lstm", ok=False).ok()  # fmt: skip
    saved = checkpoints.read(tmp_path / "lm" / "checkpoint_last.pt")
    saved["model"] = {f"decoder.{name}": weight for name, weight in saved["model"].items()}
    torch.save(saved, tmp_path / "other.pt")
    other = ("--finetune-from-model", tmp_path / "other.pt")
    done = train(data, tmp_path / "y", *other, *more, ok=False)
    assert done.returncode != 0 and "other.pt has no weight of the name and shape" in done.stderr
