"""Gold files of every format, and the predictions that belong to them."""

import gzip

import pytest

from selfattn.errors import UserError
from selfattn_experiments.compare.reading import read_gold as of_any_task
from selfattn_tasks.sentences import predictions
from selfattn_tasks.sentences.formats.source import Reading
from selfattn_tasks.sentences.gold import read_gold, read_outputs
from selfattn_tasks.sentences.metrics import figures
from selfattn_tasks.sentences.predictions import Prediction

FILES = {
    "part.jsonl": (
        '{"sentences": [["a", "b"], []], "target": 3.5}\n'
        '{"sentences": [["a"], ["c"]], "target": 4.0}\n',
        [3.5, 4.0],
    ),
    "classes.jsonl": (
        '{"sentences": [["a"], ["b"]], "target": "neutral"}\n'
        '{"sentences": [["a"], ["c"]], "target": "entailment"}\n',
        ["neutral", "entailment"],
    ),
    "questions.jsonl": (
        '{"question": "who came", "sentences": ["a dog", "my aunt"], "answer": 1}\n',
        [1],
    ),
    "sick.txt": (
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
        "1\tone\ttwo\t1.6\tNEUTRAL\n2\tone\tone\t5\tENTAILMENT\n",
        [1.6, 5.0],
    ),
    "snli.jsonl": (
        '{"gold_label": "-", "sentence1": "a", "sentence2": "b"}\n'
        '{"gold_label": "neutral", "sentence1": "a", "sentence2": "c"}\n',
        [None, "neutral"],
    ),
    "targets.tsv": (
        "sentence1\tsentence2\ttarget\na\tb\tentailment\n", ["entailment"]
    ),
    "trec.label": ("HUM:ind Who paints boats ?\nNUM:date When ?\n", ["HUM", "NUM"]),
    "cr.all": ("1 it floats\n0 it sinks\n0 \n", ["1", "0", "0"]),
    "tabs.all": ("1\tit floats\n0\tit sinks\n", ["1", "0"]),
    "blanks.jsonl": ('  {"label": "0", "text": "it sinks"}\n', ["0"]),
    "words.ptb": ("(3 Good)\n(0 (2 It) (1 sinks))\n", ["3", "0"]),
    "trees.ptb": ("(3 (2 It) (4 floats))\n(0 (2 It) (1 sinks))\n", ["3", "0"]),
}  # fmt: skip
FOREIGN = {
    "text.de": "Die Katze schläft.\nEin Hund bellt.\n",
    "digits.de": "2 Hunde bellen.\nEine Katze schläft.\n",
    "brackets.de": "(2 Hunde bellen.)\n",
    "columns.txt": "1\tWe\tPRP\n2\tpour\tVBP\n",
    "roles.txt": "1 we pour tea ||| B-A0 B-V B-A1\n",
    "columns.props": "We - (A0*)\npoured pour (V*)\n\n",
    "empty.txt": "",
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("packed", [False, True])
def test_every_format_is_recognised(name, packed, tmp_path):
    text, values = FILES[name]
    path = tmp_path / (name + ".gz" * packed)
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    task, gold = of_any_task(path, "auto")
    assert task == "sentences" and [answer.value for answer in gold] == values


def test_a_file_with_the_training_examples_is_no_gold(tmp_path):
    """SICK's later release is one file; as references of a comparison it is no translation, too."""
    path = tmp_path / "SICK.txt"
    rows = (f"A {n}\tB\t{n}\t{part}\n" for n, part in enumerate(("TRAIN", "TEST", "TEST"), 1))
    header = "sentence_A\tsentence_B\trelatedness_score\tSemEval_set\n"
    path.write_text(header + "".join(rows), encoding="utf-8")
    for look in (read_gold, lambda path: of_any_task(path, "auto")):
        with pytest.raises(UserError, match="holds the parts train, test, some of which a model"):
            look(path)
    found = read_gold(path, reading=Reading(labelled=False, part="test"))
    assert [answer.value for answer in found] == [2.0, 3.0]


def test_labels_in_a_column_of_another_name(tmp_path):
    for text, values in (
        ("text\tstars\nit floats\t5\n", ["5"]),
        ("sentence1\tsentence2\tstars\nit floats\tit sinks\t5\n", [5.0]),
        ('{"premise": "a", "hypothesis": "b", "stars": "neutral"}\n', ["neutral"]),
    ):
        (tmp_path / "gold").write_text(text)
        found = read_gold(tmp_path / "gold", reading=Reading(label_column="stars"))
        assert [answer.value for answer in found] == values
    with pytest.raises(UserError, match="needs star, but there are only: premise, hypothesis, st"):
        read_gold(tmp_path / "gold", reading=Reading(label_column="star"))


@pytest.mark.parametrize("name", FOREIGN)
def test_files_of_other_tasks_stay_theirs(name, tmp_path):
    path = tmp_path / name
    path.write_text(FOREIGN[name], "utf-8")
    with pytest.raises(UserError, match=name):
        read_gold(path)
    if name != "empty.txt":
        assert of_any_task(path, "auto")[0] != "sentences"


def written(tmp_path, kind, labels, rows):
    path = tmp_path / "predicted.tsv"
    predictions.write(path, rows, {"kind": kind, "labels": labels})
    return path


def test_predicted_scores(tmp_path):
    (tmp_path / "gold.txt").write_text(FILES["sick.txt"][0])
    gold = read_gold(tmp_path / "gold.txt")
    rows = [Prediction(3.7, (0, 0, 0.3, 0.7, 0)), Prediction(1.0, (1, 0, 0, 0, 0))]
    path = written(tmp_path, "relatedness", [], rows)
    assert path.read_text().splitlines()[:2] == [
        "prediction\tp(1)\tp(2)\tp(3)\tp(4)\tp(5)",
        "3.700000\t0.000000\t0.000000\t0.300000\t0.700000\t0.000000",
    ]
    found = read_outputs(path, gold, tmp_path / "gold.txt")
    assert [(a.value, a.rank) for a in found] == [(3.7, 2.0), (1.0, 1.0)]
    assert predictions.read(path)[0] == ("3.700000", (0, 0, 0.3, 0.7, 0))


def test_predicted_candidates_and_classes(tmp_path):
    (tmp_path / "gold").write_text(FILES["questions.jsonl"][0])
    path = written(tmp_path, "selection", [], [Prediction(1, (0.25, 0.75))])
    assert path.read_text() == "prediction\tprobabilities\n1\t0.250000 0.750000\n"
    assert read_outputs(path, read_gold(tmp_path / "gold"), path)[0].value == 1
    (tmp_path / "gold").write_text(FILES["cr.all"][0])
    path = written(tmp_path, "classification", ["0", "1"], [Prediction("1", (0.1, 0.9))] * 3)
    assert path.read_text().startswith("prediction\tp(0)\tp(1)\n1\t0.100000\t0.900000\n")
    assert [a.value for a in read_outputs(path, read_gold(tmp_path / "gold"), path)] == ["1"] * 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prediction\n3.5\n", "has 1 predictions, but .* 2 examples"),
        ("prediction\n3.5\nhigh\n", "line 3: 'high', but must be a score"),
        ("prediction\n3.5\nnan\n", "line 3: 'nan', but must be a score"),
        ("prediction\n3.5\n1e201\n", "line 3: '1e201', but must be a score from -10000 to 10000"),
        ("prediction\tp(1)\n3.5\n4\n", "line 2: 1 columns, but the header has 2"),
        ("prediction\tp(1)\n3.5\thalf\n4\t1\n", "line 2: a probability is no number: 'half'"),
        ("score\n3.5\n4\n", "has no column 'prediction'"),
        ("", "has no column 'prediction'"),
    ],
)
def test_bad_predictions(text, said, tmp_path):
    (tmp_path / "gold.txt").write_text(FILES["sick.txt"][0])
    (tmp_path / "predicted.tsv").write_text(text)
    with pytest.raises(UserError, match=said):
        read_outputs(
            tmp_path / "predicted.tsv", read_gold(tmp_path / "gold.txt"), tmp_path / "gold.txt"
        )


@pytest.mark.parametrize(
    ("gold", "labels", "refused"),
    [
        ("trec.label", ["3.512345", "4.000000"], True),  # scores
        ("trec.label", ["0", "1"], True),  # candidates, or another file's classes
        ("words.ptb", ["positive", "negative"], True),  # of trees with two classes
        ("words.ptb", ["4", "4"], False),  # all wrong, which may be
        ("trec.label", ["LOC", "LOC"], False),
        ("trec.label", ["LOC", "7"], False),
    ],
)
def test_predictions_that_cannot_be_classes_of_the_gold_file(gold, labels, refused, tmp_path):
    path, predicted = tmp_path / gold, tmp_path / "predicted.tsv"
    path.write_text(FILES[gold][0])
    predicted.write_text("prediction\n" + "".join(f"{label}\n" for label in labels))
    if refused:
        said = f"predicts '{labels[0]}', but .*{gold} has classes such as '(HUM|3)'"
        with pytest.raises(UserError, match=said):
            read_outputs(predicted, read_gold(path), path)
    else:
        assert [a.value for a in read_outputs(predicted, read_gold(path), path)] == labels


def test_parts_are_joined_in_the_order_of_the_corpus(tmp_path):
    for name, rows in (("a", "x2 x0"), ("b", "x1")):
        (tmp_path / name).write_text("prediction\n" + "\n".join(rows.split()) + "\n")
    parts = [tmp_path / "a", tmp_path / "b"]
    predictions.join(parts, [[2, 0], [1]], tmp_path / "all")
    assert (tmp_path / "all").read_text() == "prediction\nx0\nx1\nx2\n"
    with pytest.raises(UserError, match="has 2 rows, but must have 1"):
        predictions.join(parts, [[2], [1]], tmp_path / "all")
    parts[1].write_text("")
    with pytest.raises(UserError, match="b has 0 rows, but must have 1"):
        predictions.join(parts, [[2, 0], [1]], tmp_path / "all")


def test_examples_without_a_label_count_neither_as_right_nor_in_ranks(tmp_path):
    gold, predicted = tmp_path / "gold.jsonl", tmp_path / "predicted"
    row = '{"gold_label": "%s", "sentence1": "a", "sentence2": "b"}\n'
    gold.write_text(row % "-" + row % "neutral")
    predicted.write_text("prediction\nneutral\nneutral\n")
    answers = read_gold(gold)
    assert figures(answers, read_outputs(predicted, answers, gold)) == {"accuracy": 100.0}
    gold = tmp_path / "gold.tsv"
    gold.write_text("sentence1\tsentence2\tscore\na\tb\t\na\tb\t1\na\tb\t2\na\tb\t3\n")
    predicted.write_text("prediction\n2.5\n1\n2\n3\n")
    assert [a.rank for a in read_outputs(predicted, read_gold(gold), gold)] == [0, 1, 2, 3]


def test_files_with_different_headers_are_not_joined(tmp_path):
    for name, header in (("a", "prediction"), ("b", "prediction\tp(0)")):
        (tmp_path / name).write_text(f"{header}\nx\n")
    with pytest.raises(UserError, match="different headers"):
        predictions.join([tmp_path / "a", tmp_path / "b"], [[0], [1]], tmp_path / "all")
