"""From p-values and power to a verdict in words."""

from __future__ import annotations

from collections.abc import Sequence

from .cells import count, equals, points, probability, share, signed, span
from .results import Comparison, Settings
from .run_level import MOST_SEEDS

BETTER, WORSE = "better", "worse"
NO_EVIDENCE, UNDERPOWERED = "no evidence", "underpowered"


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down correction (1979); None stays None and does not count."""
    order = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p))
        adjusted[place] = largest
    return adjusted


def judge(found: Comparison, settings: Settings) -> tuple[str, str]:
    """The verdict and the sentence that explains it.

    ``better`` and ``worse``: Welch's test after Holm's correction is below alpha. Otherwise
    ``no evidence`` if so many runs would have found a relevant difference with the wanted power,
    and ``underpowered`` if not: absence of evidence is then no evidence of absence.
    """
    numbers = f"{signed(found.difference)}"
    if found.same_files:
        return NO_EVIDENCE, f"{numbers}: both sides are the same files, p = 1"
    if found.welch is None or found.p_holm is None:
        return UNDERPOWERED, f"{numbers}: {_why_no_test(found)}"
    numbers += (
        f" (95 % interval {span(found.welch.interval)}), {equals(found.welch.p)}, after "
        f"Holm {probability(found.p_holm)}"
    )
    if found.p_holm < settings.alpha:
        up = (found.difference > 0) == found.higher_is_better
        return (BETTER if up else WORSE), numbers + _other_sentences(found, settings)
    assert found.planning is not None
    enough = found.planning.power_relevant >= settings.power
    verdict = NO_EVIDENCE if enough else UNDERPOWERED
    return verdict, f"{numbers}; {_power_words(found, settings, enough)}"


def _why_no_test(found: Comparison) -> str:
    if min(found.runs) > 1:
        return "the runs of each side score alike, so there is no spread to test against"
    sentence = found.sentence
    return (
        f"one run on a side cannot tell the system from its seed; for these runs alone, the "
        f"bootstrap over sentences gives {equals(sentence.bootstrap_p)}"
    )


def _other_sentences(found: Comparison, settings: Settings) -> str:
    if found.sentence.bootstrap_p < settings.alpha:
        return ""
    return (
        f"; on another test set it may vanish (bootstrap over sentences "
        f"{equals(found.sentence.bootstrap_p)})"
    )


def _power_words(found: Comparison, settings: Settings, enough: bool) -> str:
    plan = found.planning
    assert plan is not None
    words = (
        f"{found.runs[1]} against {found.runs[0]} runs find a true difference of "
        f"{points(plan.relevant)} in {share(plan.power_relevant)} of experiments"
    )
    if enough:
        return words
    relevant, observed = (
        count(seeds, MOST_SEEDS) for seeds in (plan.seeds_relevant, plan.seeds_observed)
    )
    return (
        f"{words}; in {share(settings.power)}, {relevant} runs a side would find it and "
        f"{observed} would find the {signed(found.difference)} seen here"
    )
