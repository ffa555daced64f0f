"""`--baseline` of scripts/predict_sentences.py: what needs no training, prepared and scored."""

import json
import math

import pytest

from selfattn_tasks.sentences.baselines import Overlap
from selfattn_tasks.sentences.record import Example

# "the" is in every training candidate, "kettle" in one of six, "whistle" in none.
ASKED = [
    ("who fills the kettle ?", ["the boat .", "the kettle is full .", "the the the"], 1),
    ("the end ?", ["the end .", "the end of the end .", "the sea"], 0),
]
UNSEEN = [
    ("the whistle of the boat ?", ["the boat is full .", "a whistle !"], 1),
    ("why ?", ["no", "yes"], 1),
]


def selection(rows):
    keys = ("question", "sentences", "answer")
    return "".join(json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)


CLASSES = "label\tsentence\nb\tone\nb\ttwo\na\tthree\n"
SCORES = "sentence_A\tsentence_B\trelatedness\nx\ty\t1.0\nx\tz\t2.0\nx\tw\t4.5\n"


@pytest.fixture
def apply(run_cli, tmp_path):
    def run(task, train, test, *prepare):
        (tmp_path / "train").write_text(train)
        (tmp_path / "test").write_text(test)
        parts = prepare or ("--valid", "test")
        for name, *words in (
            ("prepare", "--task", task, "--train", "train", *parts, "--dest", "data"),
            ("predict", "--baseline", "data", "--input", "test", "--output", "out.tsv"),
            ("score", "test", "out.tsv", "--task", task, "--json"),
        ):
            done = run_cli([f"scripts/{name}_sentences.py", *words], cwd=tmp_path).ok()
        rows = (tmp_path / "out.tsv").read_text().splitlines()
        return rows, json.loads(done.stdout)

    return run


def test_words_in_common_with_the_question(apply):
    rows, scores = apply("selection", selection(ASKED), selection(UNSEEN))
    assert [row.split("\t")[0] for row in rows] == ["prediction", "1", "0"]  # of equals the first
    assert rows[2] == "0\t0.500000 0.500000"
    assert scores == {"accuracy": 50.0}
    first, second = map(float, rows[1].split("\t")[1].split())
    # "the" weighs nothing, "boat" log(7 / 2), a word that training lacks log 7.
    assert first / second == pytest.approx(math.log(7 / 2) / math.log(7), abs=1e-5)


def test_a_word_counts_once_and_by_the_candidates_that_have_it():
    overlap = Overlap([["a", "a", "b"], ["a"], ["a", "c"]])
    assert overlap.weight("a") == 0
    assert overlap.weight("c") == math.log(2)
    assert overlap.weight("unknown") == math.log(4)
    assert overlap.choose(Example((("b", "c"), ("b", "b"), ("c", "b")), None)).prediction == 1


def test_the_most_frequent_class_of_the_training(apply):
    rows, scores = apply("classification", CLASSES, "label\tsentence\na\tone\na\ttwo\nb\tsix\n")
    assert rows == ["prediction\tp(a)\tp(b)", *["b\t0.333333\t0.666667"] * 3]
    assert scores["accuracy"] == pytest.approx(100 / 3)


def test_the_mean_score(apply):
    rows, scores = apply("relatedness", SCORES, SCORES)
    assert rows[1:] == ["2.500000\t0.333333\t0.333333\t0.000000\t0.000000\t0.333333"] * 3
    assert scores["pearson"] is None and scores["mse"] == pytest.approx((2.25 + 0.25 + 4) / 3)


def test_of_folds_all_parts_are_the_training(apply):
    rows, _ = apply("classification", CLASSES, CLASSES, "--folds", "3", "--seed", "1")
    assert rows[1] == "b\t0.333333\t0.666667"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "give a checkpoint, or --baseline FOLDER"),
        (["model.pt", "--baseline", "."], "give a checkpoint, or --baseline FOLDER"),
        (["--baseline", "."], "meta.json cannot be read"),
        (["--baseline", ".", "--input", "x", "--tokenized"], "--tokenized is for texts; leave it"),
    ],
)
def test_mistakes(words, sentence, run_cli, tmp_path):
    typed = [] if "--input" in words else ["--sentence", "x"]
    done = run_cli(["scripts/predict_sentences.py", *words, *typed], cwd=tmp_path)
    assert done.returncode == 2 and sentence in done.stderr and "Traceback" not in done.stderr
