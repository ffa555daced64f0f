"""scripts/score_sentences.py as a user runs it."""

import json

import pytest

GOLD = "sentence_A\tsentence_B\trelatedness\tentailment\n" + "".join(
    f"a boat\ta ship number {i}\t{score}\t{label}\n"
    for i, (score, label) in enumerate(
        [(1.0, "NEUTRAL"), (2.5, "NEUTRAL"), (4.0, "ENTAILMENT"), (4.9, "ENTAILMENT")]
    )
)


@pytest.fixture
def score(run_cli, tmp_path):
    def run(predicted, *args):
        (tmp_path / "gold.tsv").write_text(GOLD)
        (tmp_path / "predicted.tsv").write_text("prediction\n" + predicted)
        words = ["scripts/score_sentences.py", "gold.tsv", "predicted.tsv", *args]
        return run_cli(words, cwd=tmp_path)

    return run


def test_scores(score):
    done = score("1.5\n2.0\n4.5\n4.4\n", "--json").ok()
    found = json.loads(done.stdout)
    assert set(found) == {"pearson", "spearman", "mse"}
    assert found["spearman"] == pytest.approx(0.8)
    assert found["mse"] == pytest.approx(0.25)
    assert score("1.5\n2.0\n4.5\n4.4\n").stdout.splitlines()[1] == "Spearman  0.8000"


def test_classes_of_the_same_file(score):
    done = score("neutral\nneutral\nneutral\nentailment\n", "--task", "nli", "--json")
    assert json.loads(done.stdout) == {"accuracy": 75.0}


def test_a_constant_is_said_to_be_one(score):
    done = score("3.0\n" * 4, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["pearson"] is None
    assert "every prediction is 3, so its correlations are not defined" in done.stderr
    assert "Pearson   not defined" in score("3.0\n" * 4).stdout


def test_a_mistake_is_one_sentence(score):
    done = score("1.5\n2.0\n")
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "has 2 predictions, but gold.tsv 4 examples" in done.stderr
