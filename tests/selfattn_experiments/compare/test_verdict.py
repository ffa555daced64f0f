"""Holm's correction, and when a comparison is called what."""

import math
from dataclasses import replace

import pytest

from selfattn_experiments.compare.rendering.cells import points, probability, score, signed, span
from selfattn_experiments.compare.results import Comparison, Planning, Settings
from selfattn_experiments.compare.run_level import Permutation, TTest
from selfattn_experiments.compare.sentence_level import BothLevels, SentenceTests
from selfattn_experiments.compare.verdict import holm, judge, looks_warning

SETTINGS = Settings("translation", ("BLEU",))
PLAN = Planning(0.025, relevant=0.5, detectable=0.74, seeds_relevant=9, seeds_cautious=14)
FOUND = Comparison(
    test_set="test", metric="BLEU", primary=True, baseline="a", system="b", runs=(5, 4),
    difference=0.4, higher_is_better=True, welch=TTest(0.01, (0.1, 0.7)), paired=None, pairs=0,
    permutation=Permutation(0.02, 0.01, True), order=None, both_levels=None, effect=None,
    sentence=SentenceTests(0.03, (0.1, 0.8), 0.03, 0.2, 0.2), same_files=False, equivalence=0.3,
    p_holm=0.02, equivalence_holm=0.6, simultaneous=(0.05, 0.75), planning=PLAN,
)  # fmt: skip
NOT = replace(FOUND, p_holm=0.3, welch=TTest(0.3, (-0.2, 1.0)), simultaneous=(-0.3, 1.1))


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
        (
            FOUND,
            "better",
            "+0.40 (95 % interval +0.10 to +0.70, simultaneous +0.05 to +0.75), p = 0.010, after "
            "Holm 0.020",
        ),
        (replace(FOUND, difference=-0.4), "worse", "-0.40"),
        (replace(FOUND, higher_is_better=False), "worse", "+0.40"),
        (
            replace(FOUND, equivalence_holm=0.01),
            "better",
            "yet less than 0.5 apart (equivalence, after Holm p = 0.010)",
        ),
        (replace(NOT, equivalence_holm=0.03), "equivalent", "less than 0.5 apart"),
        (
            replace(NOT, equivalence_holm=0.03, both_levels=BothLevels(0.9, (-0.6, 0.6), 0.06)),
            "equivalent",
            "; on another test set this is not shown (bootstrap over seeds and sentences p = 0.06",
        ),
        (
            NOT,
            "undecided",
            "neither a difference nor equivalence within 0.5 (after Holm p = 0.60) is shown. 4 "
            "and 5 runs find a true 0.74 in 80 % of studies; to find 0.5, plan 9 to 14 runs a side",
        ),
        (
            replace(NOT, planning=replace(PLAN, seeds_relevant=None, seeds_cautious=None)),
            "undecided",
            "plan >100,000 runs a side",
        ),
        (replace(NOT, equivalence=None, equivalence_holm=None), "undecided", "score alike"),
        (replace(FOUND, welch=None, p_holm=None), "undecided", "no spread to test against"),
        (replace(FOUND, welch=None, p_holm=None, runs=(1, 5)), "undecided", "one run on a side"),
        (replace(FOUND, same_files=True), "no evidence", "the same files, p = 1"),
        (replace(FOUND, primary=False), "secondary", "p = 0.010, after Holm 0.020"),
        (replace(FOUND, primary=False, same_files=True), "secondary", "the same files"),
        (replace(FOUND, primary=False, welch=None), "secondary", "no spread to test against"),
        (
            replace(FOUND, sentence=replace(FOUND.sentence, bootstrap_p=0.2)),
            "better",
            "on another test set it may vanish (bootstrap over sentences p = 0.20)",
        ),
        (
            replace(FOUND, both_levels=BothLevels(0.079, (-0.1, 0.9), 0.3)),
            "better",
            "; on another test set this is not shown (bootstrap over seeds and sentences p = 0.079",
        ),
    ],
)
def test_verdicts(found, verdict, words):
    assert judge(found, SETTINGS)[0] == verdict
    assert words in judge(found, SETTINGS)[1]


def test_the_corrected_p_decides():
    assert judge(replace(FOUND, p_holm=0.06), SETTINGS)[0] == "undecided"
    assert judge(replace(FOUND, p_holm=0.06), replace(SETTINGS, alpha=0.1))[0] == "better"


def test_eight_points_that_are_not_significant_are_no_lack_of_power():
    found = replace(NOT, difference=8.0, welch=TTest(0.08, (-1.5, 17.5)))
    verdict, words = judge(found, SETTINGS)
    assert verdict == "undecided" and "seen here" not in words


def test_a_look_makes_every_number_of_a_test_nominal():
    looked = replace(SETTINGS, looked_after=(2,))
    for found in (FOUND, NOT, replace(FOUND, primary=False), replace(NOT, equivalence_holm=0.01)):
        assert "(nominal, looked at before)" in judge(found, looked)[1]
        assert "nominal" not in judge(found, SETTINGS)[1]
    words = looks_warning(looked)
    assert "seen at 2 runs per system: the level of 5 % was spent" in words
    assert "2 looks at 5 % each call equal systems different in up to 10 % of studies" in words
    assert "3 looks at 5 % each call" in looks_warning(replace(SETTINGS, looked_after=(2, 3)))


def test_a_margin_and_a_level_are_stated_as_they_were_asked_for():
    asked = replace(SETTINGS, relevant=0.004, alpha=0.025, power=0.925, looked_after=(2,))
    words = judge(replace(FOUND, p_holm=0.3), asked)[1]
    assert "within 0.004 (" in words and "in 92.5 % of studies; to find 0.004, plan" in words
    assert "less than 0.004 apart" in judge(replace(FOUND, equivalence_holm=0.01), asked)[1]
    words = looks_warning(asked)
    assert "the level of 2.5 % was" in words and "2 looks at 2.5 % each" in words


@pytest.mark.parametrize(
    ("p", "text"),
    [
        (1.0, "1"),
        (0.25, "0.25"),
        (0.0496, "0.0496"),
        (0.0004, "0.0004"),
        (1e-9, "<0.0001"),
        (0.04997, "0.04997"),
        (0.04999996, "0.04999996"),
        (0.0503, "0.0503"),
        (0.0097, "0.0097"),
        (0.0102, "0.010"),
        (0.02496, "0.02496"),
        (0.02504, "0.025"),
        (0.00496, "0.00496"),
    ],
)
def test_p_values_are_short_and_never_cross_the_level(p, text):
    assert probability(p) == text


def test_a_difference_of_nothing_has_no_sign():
    assert signed(-0.001) == signed(0.0) == "0.00" and signed(-0.2) == "-0.20"
    assert not math.copysign(1, float(signed(-0.0))) < 0
    assert score(-0.00001, 4) == "0.0000" and score(-0.2) == "-0.20" and score(37.7) == "37.70"
    assert signed(-0.03, 1) == signed(0.03, 1) == "0.0" and signed(0.5, 1) == "+0.5"


def test_digits():
    assert [points(x) for x in (0.5, 0.25, 37.7)] == ["0.5", "0.25", "37.70"]
    assert [points(x, 4) for x in (0.01, 0.0125, 0.01234)] == ["0.01", "0.0125", "0.0123"]
    assert [signed(x, 4) for x in (0.00123, -0.00001, -0.01)] == ["+0.0012", "0.0000", "-0.0100"]
    assert span((0.86, 0.8712), 4, score) == "0.8600 to 0.8712"


def test_reservations_are_said_only_where_there_are_some():
    assert "may vanish" not in judge(FOUND, SETTINGS)[1]
    sure = replace(FOUND, both_levels=BothLevels(0.03, (0.1, 0.8), 0.3))
    assert "another test set" not in judge(sure, SETTINGS)[1]
    equivalent = replace(NOT, equivalence_holm=0.03, both_levels=BothLevels(0.9, (-0.6, 0.6), 0.01))
    assert "not shown" not in judge(equivalent, SETTINGS)[1]
    # No test over sentences can be below this alpha: 10,000 draws give 1 / 10,001 at the least.
    strict = replace(SETTINGS, alpha=5e-5)
    least = replace(FOUND, p_holm=1e-6, sentence=replace(FOUND.sentence, bootstrap_p=1 / 10_001))
    assert "another test set" not in judge(least, strict)[1]
    most = replace(least, sentence=replace(FOUND.sentence, bootstrap_p=2 / 10_001))
    assert "may vanish" in judge(most, strict)[1]


@pytest.mark.parametrize("p", [0.049, 0.051])
def test_a_p_that_other_draws_may_move_across_alpha_is_said_to_be_near_it(p):
    near = replace(FOUND, sentence=replace(FOUND.sentence, bootstrap_p=p))
    words = f"may vanish (bootstrap over sentences p = {p}, too near 0.05 for so few draws: raise"
    assert words in judge(near, SETTINGS)[1]
    assert "near" not in judge(near, replace(SETTINGS, samples=1_000_000))[1]
    both = replace(FOUND, both_levels=BothLevels(p, (0.1, 0.8), 0.3))
    assert "seeds and sentences p = " in judge(both, SETTINGS)[1]
