"""scripts/score_srl.py as a user runs it."""

import json

import pytest

GOLD = """\
We - (A0*) (A0*
poured pour (V*) *)
tea - (A1* *
to - * *
drink drink *) (V*)

No -
verb -
"""
PREDICTED = "- (A0*) (A0*)\npour (V*) *\n- (A1* *\n- *) *\ndrink (AM-TMP*) (V*)\n\n-\n-\n"


@pytest.fixture
def score(run_cli, tmp_path):
    def run(*args, gold=GOLD, predicted=PREDICTED):
        (tmp_path / "gold").write_text(gold)
        (tmp_path / "predicted").write_text(predicted, encoding="utf-8")
        return run_cli(["scripts/score_srl.py", "gold", "predicted", *args], cwd=tmp_path)

    return run


def test_json_has_the_promised_keys(score):
    done = score("--json").ok()
    figures = json.loads(done.stdout)
    assert (figures["propositions"], figures["perfect_props"], figures["sentences"]) == (2, 0, 2)
    assert figures["overall"] == {
        "correct": 1, "excess": 3, "missed": 2, "precision": 25.0,
        "recall": pytest.approx(100 / 3), "f1": pytest.approx(200 / 7),
    }  # fmt: skip
    assert set(figures["labels"]) == {"A0", "A1", "AM-TMP", "V"}
    assert figures["labels"]["A0"]["f1"] == 50.0
    assert figures["labels"]["V"]["correct"] == 2 and figures["outside_overall"] == ["V"]
    pytest.importorskip("seqeval")
    assert figures["seqeval"]["f1"] == pytest.approx(100 * 6 / 11)


def test_the_table(score):
    done = score("--confusion").ok()
    lines = done.stdout.splitlines()
    assert lines[6] == "   Overall        1       3       2    25.00   33.33   28.57"
    assert any(line.startswith(" Unlabeled") for line in lines)
    assert lines[-1].startswith("seqeval F1 of BIO spans, V included")


def test_lines_and_columns_can_be_compared(score):
    lines = "1 We poured tea to drink ||| B-A0 B-V B-A1 I-A1 I-A1\n"
    lines += "4 We poured tea to drink ||| B-A0 I-A0 O O B-V\n"
    done = score("--json", gold=GOLD.partition("\n\n")[0], predicted=lines)
    assert json.loads(done.stdout)["overall"]["f1"] == 100


@pytest.mark.parametrize(("one", "two"), [("gold", "predicted"), ("predicted", "gold")])
def test_lines_leave_out_sentences_without_a_predicate(score, one, two):
    """The same words again, with another predicate, are another sentence."""
    quiet = "No -\nverb -\n\n"
    first = "We - (A0*)\npoured pour (V*)\ntea - (A1*)\nto - *\ndrink - *\n\n"
    last = "We - (A0*)\npoured - *\ntea - *\nto - *\ndrink drink (V*)\n\n"
    columns = quiet + GOLD + "\n" + quiet + first + last + quiet
    lines = (
        "1 We poured tea to drink ||| B-A0 B-V B-A1 I-A1 I-A1\n"
        "4 We poured tea to drink ||| B-A0 I-A0 O O B-V\n"
        "1 We poured tea to drink ||| B-A0 B-V B-A1 O O\n"
        "4 We poured tea to drink ||| B-A0 O O O B-V\n"
    )
    done = score("--json", **{one: columns, two: lines}).ok()
    figures = json.loads(done.stdout)
    assert (figures["overall"]["f1"], figures["propositions"], figures["sentences"]) == (100, 4, 7)
    wrong = score(**{one: columns, two: lines.replace("tea", "milk")})
    assert wrong.returncode == 2 and "both must hold the same" in wrong.stderr


def test_json_with_the_confusion(score):
    predicted = PREDICTED.replace("TMP", "ÄMP")
    printed = [
        score(*flags, predicted=predicted).stdout
        for flags in (["--json"], ["--json", "--confusion"])
    ]
    assert all(text.isascii() for text in printed)  # so that a locale cannot spoil it
    plain, more = map(json.loads, printed)
    confusion = more.pop("confusion")
    assert more == plain
    assert confusion["A1"] == {"-NONE-": 1} and confusion["V"] == {"V": 2}
    assert confusion["-NONE-"] == {"A0": 1, "A1": 1, "AM-ÄMP": 1}


def test_a_word_without_an_end_is_not_echoed_whole(score):
    for old, new in (("(A1*", "(" + "A" * 1_000_000), ("drink (AM", "x" * 1_000_000 + " - (AM")):
        done = score(predicted=PREDICTED.replace(old, new))
        assert done.returncode == 2 and 50 < len(done.stderr) < 1000


def test_gold_without_a_predicate(score):
    done = score("--json", gold="a -\nb -\n", predicted="a x (V*)\nb - *\n").ok()
    assert json.loads(done.stdout)["overall"]["f1"] == 0
    assert "1 predicates are not in GOLD and are ignored" in done.stderr


@pytest.mark.parametrize(
    ("gold", "predicted", "words"),
    [
        (GOLD, GOLD.replace("tea", "milk"), "sentence 1, word 3: gold has 'tea' and predicted has"),
        (GOLD, GOLD.partition("\n\n")[0], "gold has 2 sentences and predicted has 1"),
        (GOLD, PREDICTED[:-2], "sentence 2: gold has 2 words and predicted has 1"),
        (
            GOLD,
            PREDICTED.replace("(A1*", "(A1"),
            "predicted, line 3: column 2: '(A1' is not a bracket",
        ),
        ("", PREDICTED, "gold, line 1: the file is empty"),
    ],
    ids=["word", "sentences", "length", "bracket", "empty"],
)
def test_bad_pairs_are_one_sentence(score, gold, predicted, words):
    done = score(gold=gold, predicted=predicted)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and words in done.stderr
