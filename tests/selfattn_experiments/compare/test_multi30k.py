"""The tests over runs of examples/multi30k_en_de, computed anew from the committed scores."""

import csv

import pytest

from selfattn_experiments.compare.rendering import cells
from selfattn_experiments.compare.run_level import equivalence, welch
from selfattn_experiments.compare.verdict import holm

pytest.importorskip("scipy")
LATE = ("disa", "biblosa", "fast_disa", "resa")


@pytest.fixture
def example(repo_root):
    return repo_root / "examples" / "multi30k_en_de"


@pytest.fixture
def scores(example):
    with (example / "runs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        system: [float(row["test BLEU"]) for row in rows if row["system"] == system]
        for system in {row["system"] for row in rows}
    }


def test_the_mechanisms_that_were_looked_at_after_two_seeds(example, scores):
    text = (example / "README.md").read_text("utf-8")
    base = scores["multihead"]
    looks = [holm([welch(base, scores[name][:seeds]).p for name in LATE]) for seeds in (2, 3)]
    assert [p < 0.05 for p in looks[0]] == [False, True, False, False]
    assert all(p < 0.05 for p in looks[1])
    for name, first, second in zip(LATE, *looks, strict=True):
        one, all_four = (
            welch(base, scores[name], level).interval for level in (0.95, 1 - 0.05 / 4)
        )
        difference = cells.signed(sum(scores[name]) / 3 - sum(base) / 5)
        assert (
            f"| `{name}` | {cells.probability(first)} | {difference} ({cells.span(one)}; "
            f"{cells.span(all_four)}) | {cells.probability(second)} |\n"
        ) in text


def test_the_masks(example, scores):
    found = welch(scores["mtsa-nmt"], scores["mtsa-nmt-masks"])
    low, high = found.interval
    text = " ".join((example / "README.md").read_text("utf-8").split())
    assert f"(95 % interval {low:.1f} to {high:.1f}, {cells.equals(found.p)}, two runs" in text


def test_the_report_follows_from_its_scores(example):
    with (example / "report" / "report.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))

    def numbers(metric, system, quantity):
        wanted = (metric, system, quantity)
        return [r["value"] for r in rows if (r["metric"], r["system"], r["quantity"]) == wanted]

    systems = ("mtsa-paper", "mtsa-nmt")
    for family in (["BLEU"], ["chrF", "TER"]):
        tests = [(metric, system) for system in systems for metric in family]
        sides = [
            [list(map(float, numbers(metric, s, "score"))) for s in ("multihead", system)]
            for metric, system in tests
        ]
        found = [welch(x, y, 1 - 0.05 / len(tests)) for x, y in sides]
        columns = {
            "welch_p": [test.p for test in found],
            "holm_p": holm([test.p for test in found]),
            "simultaneous_low": [test.interval[0] for test in found],
            "simultaneous_high": [test.interval[1] for test in found],
            "equivalence_holm_p": holm([equivalence(x, y, 0.5) for x, y in sides]),
        }
        for name, values in columns.items():
            committed = [float(numbers(*test, name)[0]) for test in tests]
            assert committed == pytest.approx(values, rel=1e-9), name
    assert [numbers("BLEU", system, "verdict") for system in systems] == [["better"], ["undecided"]]
