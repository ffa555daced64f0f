"""From p-values to a verdict in words."""

import math
from collections.abc import Sequence

from .planning import MOST_SEEDS
from .rendering.cells import asked, asked_share, equals, points, probability, score, signed, span
from .results import Comparison, Report, Settings

BETTER, WORSE, EQUIVALENT = "better", "worse", "equivalent"
UNDECIDED, NO_EVIDENCE, SECONDARY = "undecided", "no evidence", "secondary"


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

    By the primary metric, after Holm's correction: ``better`` and ``worse`` if Welch's test is
    below alpha; else ``equivalent`` if both one-sided tests show that the difference is smaller
    than a relevant one; else ``undecided``. Other metrics have numbers, but no verdict.
    """
    digits = settings.digits(found.metric)
    numbers = signed(found.difference, digits)
    if found.same_files:
        verdict = NO_EVIDENCE if found.primary else SECONDARY
        return verdict, f"{numbers}: both sides are the same files, p = 1"
    if found.welch is None or found.p_holm is None:
        return UNDECIDED if found.primary else SECONDARY, f"{numbers}: {_why_no_test(found)}"
    numbers += f" (95 % interval {span(found.welch.interval, digits=digits)}"
    if found.primary and found.simultaneous != found.welch.interval:
        numbers += f", simultaneous {span(found.simultaneous, digits=digits)}"
    numbers += f"), {equals(found.welch.p)}, after Holm {probability(found.p_holm)}"
    if settings.looked_after:
        numbers += " (nominal, looked at before)"
    if not found.primary:
        return SECONDARY, numbers
    same = found.equivalence_holm is not None and found.equivalence_holm < settings.alpha
    if found.p_holm < settings.alpha:
        up = (found.difference > 0) == found.higher_is_better
        trivial = f"; yet {_equivalence_words(found, settings)}" if same else ""
        return (BETTER if up else WORSE), numbers + trivial + _other_sentences(found, settings)
    if same:
        words = _equivalence_words(found, settings)
        p = found.both_levels and found.both_levels.equivalence
        return EQUIVALENT, f"{numbers}; {words}{_other_test_sets(p, settings)}"
    return UNDECIDED, f"{numbers}; {_planning_words(found, settings)}"


def _why_no_test(found: Comparison) -> str:
    if min(found.runs) > 1:
        return "the runs of each side score alike, so there is no spread to test against"
    sentence = found.sentence
    return (
        f"one run on a side cannot tell the system from its seed; for these runs alone, the "
        f"bootstrap over sentences gives {equals(sentence.bootstrap_p)}"
    )


def _other_sentences(found: Comparison, settings: Settings) -> str:
    p = found.sentence.bootstrap_p
    if _is_small(p, settings):
        # Other sentences alone may leave it, and other seeds; what of both together?
        return _other_test_sets(found.both_levels and found.both_levels.p, settings)
    return (
        "; on another test set it may vanish (bootstrap over sentences "
        f"{equals(p)}{_borderline(p, settings)})"
    )


def _other_test_sets(p: float | None, settings: Settings) -> str:
    if p is None or _is_small(p, settings):
        return ""
    return (
        "; on another test set this is not shown (bootstrap over seeds and sentences "
        f"{equals(p)}{_borderline(p, settings)})"
    )


def _is_small(p: float, settings: Settings) -> bool:
    """Whether a p from draws is below alpha, or the smallest that so many draws can give."""
    below = p < settings.alpha and not _borderline(p, settings)
    return below or p * (settings.samples + 1) < 1.5


def _borderline(p: float, settings: Settings) -> str:
    """Words for a p from draws that other draws may put on the other side of alpha."""
    if abs(p - settings.alpha) > 3 * math.sqrt(p * (1 - p) / settings.samples):
        return ""
    return f", too near {asked(settings.alpha)} for so few draws: raise --samples"


def _equivalence_words(found: Comparison, settings: Settings) -> str:
    assert found.equivalence_holm is not None
    relevant = asked(settings.relevant)
    return f"less than {relevant} apart (equivalence, after Holm {equals(found.equivalence_holm)})"


def _planning_words(found: Comparison, settings: Settings) -> str:
    plan = found.planning
    if plan is None or found.equivalence_holm is None:
        return _why_no_test(found)
    relevant = asked(settings.relevant)
    detectable = points(plan.detectable, settings.digits(found.metric))
    return (
        f"neither a difference nor equivalence within {relevant} (after Holm "
        f"{equals(found.equivalence_holm)}) is shown. {found.runs[1]} and {found.runs[0]} runs "
        f"find a true {detectable} in {asked_share(settings.power)} of studies; to "
        f"find {relevant}, plan {seeds_words(found)} runs a side"
    )


def seeds_words(found: Comparison) -> str:
    """Runs a side for the relevant difference: ``9 to 14``."""
    if (plan := found.planning) is None:
        return "-"
    few, many = (
        f"{n:,}" if n else f">{MOST_SEEDS:,}" for n in (plan.seeds_relevant, plan.seeds_cautious)
    )
    return few if few == many else f"{few} to {many}"


def looks_warning(settings: Settings) -> str:
    """What holds and what does not after runs were added to results that had been seen."""
    looks, level = len(settings.looked_after) + 1, asked_share(settings.alpha)
    at = " and ".join(map(str, settings.looked_after))
    return (
        f"runs were added after the results had been seen at {at} runs per system: the level of "
        f"{level} was spent at the first look. Scores, means and spreads stand; "
        "intervals, p-values (after Holm, too) and verdicts are nominal, as if nobody had looked: "
        f"{looks} looks at {level} each call equal systems different in up to "
        f"{asked_share(min(1.0, looks * settings.alpha))} of studies, and in more if what was "
        "added depended on what was seen. New seeds, planned beforehand, would settle it"
    )


def interval_warnings(report: Report) -> list[str]:
    """A sentence for each interval over seeds that holds scores which the metric cannot give."""
    found = []
    for s in report.summaries:
        digits = report.settings.digits(s.metric)
        low, high = report.settings.scale(s.metric).limits
        if s.interval is not None and not low <= s.interval[0] <= s.interval[1] <= high:
            found.append(
                f"{s.system} on {s.test_set}: the 95 % interval of {s.metric}, "
                f"{span(s.interval, digits, score)}, holds scores that do not exist; {s.runs} runs "
                "that differ so much say next to nothing about the mean"
            )
    return found
