"""Holm's correction, and when a comparison is called what."""

import math
from dataclasses import replace

import pytest

from selfattn.compare.cells import probability, signed
from selfattn.compare.results import Comparison, Planning, Settings
from selfattn.compare.run_level import Permutation, TTest
from selfattn.compare.sentence_level import SentenceTests
from selfattn.compare.verdict import holm, judge

SETTINGS = Settings("translation", ("BLEU",))
PLAN = Planning(
    alpha=0.05, relevant=0.5, power_relevant=0.9, seeds_relevant=4, power_observed=0.5,
    seeds_observed=12, seeds_cautious=30,
)  # fmt: skip
FOUND = Comparison(
    test_set="test", metric="BLEU", baseline="a", system="b", runs=(5, 4), difference=0.4,
    higher_is_better=True, welch=TTest(0.01, (0.1, 0.7)), paired=None, pairs=0,
    permutation=Permutation(0.02, 0.01, True), effect=None, planning=PLAN,
    sentence=SentenceTests(0.03, (0.1, 0.8), 0.03, 0.2, 0.2), same_files=False, p_holm=0.02,
)  # fmt: skip
NOT = replace(FOUND, p_holm=0.3, welch=TTest(0.3, (-0.2, 1.0)))


def test_holm_by_hand():
    # Holm 1979: sorted p times 4, 3, 2, 1, never falling, at most 1.
    assert holm([0.04, 0.01, 0.03, 0.5]) == pytest.approx([0.09, 0.04, 0.09, 0.5])
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([None, 0.02, None]) == [None, 0.02, None]
    assert holm([]) == []


def test_holm_rejects_what_its_steps_reject():
    p_values, alpha = [0.001, 0.013, 0.017, 0.03, 0.2], 0.05
    rejected, open_tests = set(), sorted(range(5), key=p_values.__getitem__)
    while open_tests and p_values[open_tests[0]] <= alpha / len(open_tests):
        rejected.add(open_tests.pop(0))
    assert rejected and {i for i, p in enumerate(holm(p_values)) if p <= alpha} == rejected


@pytest.mark.parametrize(
    ("found", "verdict", "words"),
    [
        (FOUND, "better", "+0.40 (95 % interval +0.10 to +0.70), p = 0.010, after Holm 0.020"),
        (replace(FOUND, difference=-0.4), "worse", "-0.40"),
        (replace(FOUND, higher_is_better=False), "worse", "+0.40"),
        (NOT, "no evidence", "4 against 5 runs find a true difference of 0.5 in 90 %"),
        (
            replace(NOT, planning=replace(PLAN, power_relevant=0.79)),
            "underpowered",
            "in 80 %, 4 runs a side would find it and 12 would find the +0.40 seen here",
        ),
        (
            replace(NOT, planning=replace(PLAN, power_relevant=0.02, seeds_relevant=None)),
            "underpowered",
            "in 80 %, >100,000 runs a side would find it and 12 would find the +0.40",
        ),
        (replace(FOUND, welch=None, p_holm=None), "underpowered", "no spread to test against"),
        (replace(FOUND, welch=None, p_holm=None, runs=(1, 5)), "underpowered", "one run on a side"),
        (replace(FOUND, same_files=True), "no evidence", "the same files, p = 1"),
        (
            replace(FOUND, sentence=replace(FOUND.sentence, bootstrap_p=0.2)),
            "better",
            "on another test set it may vanish (bootstrap over sentences p = 0.20)",
        ),
    ],
)
def test_verdicts(found, verdict, words):
    assert judge(found, SETTINGS)[0] == verdict
    assert words in judge(found, SETTINGS)[1]


def test_the_corrected_p_decides():
    assert judge(replace(FOUND, p_holm=0.06), SETTINGS)[0] == "no evidence"
    assert judge(replace(FOUND, p_holm=0.06), replace(SETTINGS, alpha=0.1))[0] == "better"


@pytest.mark.parametrize(
    ("p", "text"),
    [(1.0, "1"), (0.25, "0.25"), (0.0496, "0.0496"), (0.0004, "0.0004"), (1e-9, "<0.0001")],
)
def test_p_values_are_short_and_never_cross_the_level(p, text):
    assert probability(p) == text


def test_a_difference_of_nothing_has_no_sign():
    assert signed(-0.001) == signed(0.0) == "0.00" and signed(-0.2) == "-0.20"
    assert not math.copysign(1, float(signed(-0.0))) < 0
