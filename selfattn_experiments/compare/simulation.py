"""How often each test is wrong when there is no difference, by simulation.

Two systems of one quality are made up again and again: n-gram counts of sentences, scored as BLEU.
A sound test calls 5 % of such pairs different at the level 0.05, and 5 % of pairs that differ by
just the margin equivalent.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from selfattn.errors import needed
from selfattn_tasks.metric import Counts
from selfattn_tasks.translation.metrics import bleu_scores

from . import run_level
from .sentence_level import both_levels, resample, sentence_tests

LEVEL, STRICT = 0.05, 0.01
# Below it, a system counts as almost stochastically better (Ulmer et al. 2022).
EPSILON = 0.2
# BLEU; the tests of equivalence need some two standard deviations of a run to say anything.
MARGIN = 6.0
WELCH, PAIRED, PERMUTATION = "Welch t", "paired t", "permutation"
BOOTSTRAP, RANDOMISATION = "paired bootstrap", "approximate randomisation"
COIN_PER_RUN = "randomisation, a coin for each run (MultEval)"
LOOKED = "Welch t, at 3 runs or else at 5"
ORDER, BOTH = "almost stochastic order", "bootstrap of seeds and sentences"
EQUIVALENCE = f"equivalence (of systems {MARGIN:g} BLEU apart)"
_SENTENCE = (BOOTSTRAP, RANDOMISATION)
_RUN = (WELCH, PAIRED, PERMUTATION)
_FIVE = (*_RUN, ORDER, BOTH, EQUIVALENCE)


@dataclass(frozen=True)
class Scenario:
    """A way in which two equally good systems come about."""

    what: str  # in the table
    runs: tuple[int, int]  # of the baseline and of the system
    tests: tuple[str, ...]  # names of the tests to try
    # Spread of the quality of runs, on the logit scale of a word's being right.
    seed_sd: float = 0.0
    own_sd: float = 0.0  # spread of how much better a system is at one sentence than at another
    # Spread of the quality of the system's runs; None for that of the baseline's.
    system_sd: float | None = None
    # Most runs are a little better than their mean, and few much worse (skewness -2).
    skew: bool = False


# Runs of 300 sentences whose seeds are alike have a standard deviation of 1.0 BLEU; 0.01 on the
# logit scale is 0.26 BLEU. The two spreads of seeds add 0.3 and 3 times the variance of sentences.
_FIXED = "no seed is better than another"
_LITTLE, _MUCH = "seeds differ a little", "seeds differ much"
_TAIL, _THREEFOLD = "a tail of bad seeds", "one system spreads threefold"
_OWN = "systems are good at different sentences"
SCENARIOS = (
    Scenario(_FIXED, (1, 1), _SENTENCE),
    Scenario(_LITTLE, (1, 1), _SENTENCE, seed_sd=0.022),
    Scenario(_MUCH, (1, 1), _SENTENCE, seed_sd=0.066),
    Scenario(_MUCH, (5, 5), (*_FIVE, LOOKED, *_SENTENCE), seed_sd=0.066),
    Scenario(_MUCH, (3, 3), _RUN, seed_sd=0.066),
    Scenario(_MUCH, (5, 3), (WELCH, PERMUTATION), seed_sd=0.066),
    Scenario(_TAIL, (5, 5), _FIVE, seed_sd=0.066, skew=True),
    Scenario(_THREEFOLD, (5, 5), _FIVE, seed_sd=0.05, system_sd=0.19),
    Scenario(f"{_THREEFOLD}, with {_TAIL}", (5, 5), _FIVE, seed_sd=0.05, system_sd=0.19, skew=True),
    Scenario(_FIXED, (5, 5), (*_FIVE, *_SENTENCE)),
    Scenario(_FIXED, (5, 3), _SENTENCE),
    Scenario(_OWN, (5, 5), (*_SENTENCE, COIN_PER_RUN), own_sd=0.5),
)


@dataclass(frozen=True)
class Rate:
    """How often a test was wrong."""

    scenario: Scenario
    test: str
    wrong: int  # number of pairs that it called different, or equivalent, at LEVEL
    strict: int | None  # the same at STRICT; None for a test without p
    pairs: int
    # Standard deviation of BLEU over the runs of a system, of each where they differ.
    spreads: tuple[float, ...]
    interval: run_level.Interval  # 95 % interval of the share (Clopper and Pearson)

    @property
    def share(self) -> float:
        """The share of wrong verdicts, from 0 to 1."""
        return self.wrong / self.pairs


def make_counts(scenario: Scenario, sentences: int, rng: np.random.Generator) -> Counts:
    """BLEU's counts of all runs, the baseline's first, shape (runs, sentences, 10)."""
    n, m = scenario.runs
    length = rng.integers(6, 25, size=sentences)
    own = rng.normal(0, scenario.own_sd, size=(2, sentences))[[0] * n + [1] * m]
    luck = 1 - rng.exponential(size=(n + m, 1)) if scenario.skew else rng.normal(size=(n + m, 1))
    system_sd = scenario.seed_sd if scenario.system_sd is None else scenario.system_sd
    logit = (
        0.9
        + rng.normal(0, 0.7, size=sentences)
        + own
        + luck * np.array([[scenario.seed_sd]] * n + [[system_sd]] * m)
        + rng.normal(0, 0.5, size=(n + m, sentences))
    )
    right = 1 / (1 + np.exp(-logit))
    counts = np.empty((n + m, sentences, 10))
    counts[..., 0] = counts[..., 1] = length
    matches = np.broadcast_to(length, right.shape)
    for order in range(4):
        total = np.maximum(length - order, 0)
        matches = rng.binomial(np.minimum(matches, total), right)
        counts[..., 2 + order], counts[..., 6 + order] = matches, total
    return counts


def p_values(
    scenario: Scenario, counts: Counts, samples: int, rng: np.random.Generator
) -> dict[str, float]:
    """The p-value of each test of the scenario."""
    n, m = scenario.runs
    scores = bleu_scores(counts.sum(axis=1))
    x, y = list(scores[:n]), list(scores[n:])
    found: dict[str, float] = {}
    if WELCH in scenario.tests and (test := run_level.welch(x, y)):
        found[WELCH] = test.p
    if PAIRED in scenario.tests:
        pair, _ = run_level.paired(
            {str(i): score for i, score in enumerate(x)}, {str(i): s for i, s in enumerate(y)}
        )
        if pair:
            found[PAIRED] = pair.p
    if PERMUTATION in scenario.tests:
        found[PERMUTATION] = run_level.permutation(x, y).p
    if ORDER in scenario.tests and (order := run_level.stochastic_order(x, y)):
        found[ORDER] = LEVEL if order.limit < EPSILON else 1.0
    if EQUIVALENCE in scenario.tests:
        # Made worse by just the margin. Where bad seeds are rare, few runs hide how bad it is.
        worse = [score - MARGIN for score in y]
        if (p := run_level.equivalence(x, worse, MARGIN)) is not None:
            found[EQUIVALENCE] = p
    if LOOKED in scenario.tests and WELCH in found and (early := run_level.welch(x[:3], y[:3])):
        found[LOOKED] = min(early.p, found[WELCH])
    if BOOTSTRAP in scenario.tests or BOTH in scenario.tests:
        draws = resample(counts, bleu_scores, samples, rng)
        if BOTH in scenario.tests and (both := both_levels(draws, range(n), range(n, n + m), rng)):
            found[BOTH] = both.p
        if BOOTSTRAP in scenario.tests:
            tests = sentence_tests(draws, range(n), range(n, n + m), bleu_scores, rng)
            found[BOOTSTRAP], found[RANDOMISATION] = tests.bootstrap_p, tests.randomisation_p
    if COIN_PER_RUN in scenario.tests:
        # The runs one after the other as one run of a longer test set: a coin for each line.
        longer = np.stack([counts[:n].reshape(-1, 10), counts[n:].reshape(-1, 10)])
        draws = resample(longer, bleu_scores, samples, rng)
        found[COIN_PER_RUN] = sentence_tests(draws, [0], [1], bleu_scores, rng).randomisation_p
    return found


def simulate(
    scenarios: Sequence[Scenario],
    repetitions: int,
    *,
    sentences: int = 300,
    samples: int = 299,
    seed: int = 1,
    say: Callable[[str], None] = lambda text: None,
) -> Iterator[Rate]:
    """Count wrong verdicts.

    Args:
        scenarios: which to try.
        repetitions: pairs of systems for each.
        sentences: of a test set.
        samples: draws of the tests over sentences.
        seed: of all random numbers.
        say: called with how far it is.

    Yields:
        One rate for each scenario and test.
    """
    stats = needed("scipy.stats")
    for number, scenario in enumerate(scenarios):
        rng = np.random.default_rng([seed, number])
        n, levels = scenario.runs[0], (LEVEL, STRICT)
        wrong = {test: [0, 0] for test in scenario.tests}
        variances = []
        for repetition in range(repetitions):
            if repetition % 50 == 0:
                say(f"{scenario.what}, {scenario.runs}: {repetition} of {repetitions}")
            counts = make_counts(scenario, sentences, rng)
            for test, p in p_values(scenario, counts, samples, rng).items():
                wrong[test] = [
                    w + (p <= level) for w, level in zip(wrong[test], levels, strict=True)
                ]
            scores = bleu_scores(counts.sum(axis=1))
            # A pair of single runs has a spread only if both come from one distribution.
            sides = [scores[:n], scores[n:]] if min(scenario.runs) > 1 else [scores]
            found = [np.var(side, ddof=1) for side in sides]
            pooled = np.average(found, weights=[len(side) - 1 for side in sides])
            variances.append([pooled] if scenario.system_sd is None else found)
        spreads = tuple(float(sd) for sd in np.sqrt(np.mean(variances, axis=0)))
        for test, (hits, strict) in wrong.items():
            limits = stats.binomtest(hits, repetitions).proportion_ci()
            yield Rate(
                scenario, test, hits, None if test == ORDER else strict, repetitions, spreads,
                (float(limits.low), float(limits.high)),
            )  # fmt: skip


HEADER = (
    "| test | two equally good systems | runs | sd of a run, BLEU | wrong at 0.05 | 95 % interval "
    "| wrong at 0.01 |\n"
    "|---|---|---|---|---|---|---|"
)


def markdown_row(rate: Rate) -> str:
    """A rate as a row of the Markdown table that HEADER begins."""
    n, m = rate.scenario.runs
    spreads = " and ".join(f"{sd:.1f}" for sd in rate.spreads)
    low, high = (100 * limit for limit in rate.interval)
    found = f"{100 * rate.share:.1f} % | {low:.1f} to {high:.1f} %"
    strict = "-" if rate.strict is None else f"{100 * rate.strict / rate.pairs:.1f} %"
    return f"| {rate.test} | {rate.scenario.what} | {n} and {m} | {spreads} | {found} | {strict} |"
