"""What a comparison finds out, as plain data."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from selfattn_tasks.metric import Scale
from selfattn_tasks.registry import TASKS

from .run_level import Effect, Interval, Order, Permutation, TTest
from .sentence_level import BothLevels, SentenceTests


@dataclass(frozen=True)
class TestSet:
    """A test set.

    Args:
        name: in tables, and what stands for ``{test}`` in a pattern.
        path: references, or gold propositions.
        sha256: of that file.
        sentences: how many it has.
    """

    name: str
    path: Path
    sha256: str
    sentences: int


@dataclass(frozen=True)
class Run:
    """One trained model's output for one test set, and its scores.

    Args:
        test_set: name of the test set.
        system: name of the system.
        path: file of the hypotheses.
        sha256: of that file.
        seed: of the training, if it is known.
        log: the training's log, if there is one.
        scores: metric to score.
    """

    test_set: str
    system: str
    path: Path
    sha256: str
    seed: str | None
    log: Path | None
    scores: dict[str, float]


@dataclass(frozen=True)
class Summary:
    """The runs of a system together.

    Args:
        test_set: name of the test set.
        system: name of the system.
        metric: name of the metric.
        runs: how many.
        mean: of their scores.
        sd: standard deviation; None for one run.
        interval: 95 % interval of the mean over seeds; None for one run.
    """

    test_set: str
    system: str
    metric: str
    runs: int
    mean: float
    sd: float | None
    interval: Interval | None


@final
@dataclass(frozen=True)
class Planning:
    """What a number of seeds can detect, with the spread that was seen.

    Args:
        alpha: level of each test: of the family's, shared out evenly (Bonferroni).
        relevant: a difference that would matter.
        detectable: the smallest true difference that so many runs find with the wanted power.
        seeds_relevant: runs a side that would find the relevant one; None: more than MOST_SEEDS.
        seeds_cautious: the same with the spread at its upper 80 % limit.
    """

    alpha: float
    relevant: float
    detectable: float
    seeds_relevant: int | None
    seeds_cautious: int | None


@dataclass(frozen=True)
class Comparison:
    """A system against the baseline on one test set by one metric.

    The primary metric's comparisons are one family, those of all other metrics another; a
    correction is for the tests of the family, the differences and the equivalences each.

    Args:
        test_set: name of the test set.
        metric: name of the metric.
        primary: it carries the verdict.
        baseline: name of the baseline.
        system: name of the system.
        runs: of the baseline and of the system.
        difference: mean of the system less mean of the baseline.
        higher_is_better: False for an error rate.
        welch: the primary test; None where there is nothing to estimate a spread from.
        paired: t-test of matched seeds; None with fewer than two.
        pairs: number of matched seeds.
        permutation: permutation test.
        order: almost stochastic order; None with one run on a side.
        both_levels: bootstrap over seeds and sentences; None with one run on a side.
        effect: Hedges' g.
        sentence: tests at the level of sentences.
        same_files: both sides are the same files.
        equivalence: p of the two one-sided tests against the relevant difference.
        p_holm: Welch's p after Holm's correction.
        equivalence_holm: p of equivalence after Holm's correction.
        simultaneous: Welch's interval at the level 1 - alpha / tests of the family (Dunn 1961):
            all of a family hold their true differences with the probability 1 - alpha or more.
        planning: what so many runs detect, and how many a study needs.
        verdict: ``better``, ``worse``, ``equivalent`` or ``undecided``; ``no evidence`` for files
            against themselves, ``secondary`` for another metric than the primary one.
        words: the verdict with its numbers.
    """

    test_set: str
    metric: str
    primary: bool
    baseline: str
    system: str
    runs: tuple[int, int]
    difference: float
    higher_is_better: bool
    welch: TTest | None
    paired: TTest | None
    pairs: int
    permutation: Permutation
    order: Order | None
    both_levels: BothLevels | None
    effect: Effect | None
    sentence: SentenceTests
    same_files: bool
    equivalence: float | None = None
    p_holm: float | None = None
    equivalence_holm: float | None = None
    simultaneous: Interval | None = None
    planning: Planning | None = None
    verdict: str = ""
    words: str = ""


@dataclass(frozen=True)
class Settings:
    """What was asked for.

    Args:
        task: a name of ``selfattn_tasks.registry``.
        metrics: names, in the order of the tables.
        primary: name of the metric that carries the verdict.
        lowercase: whether BLEU and chrF ignore case.
        tokenize: BLEU's tokenizer.
        alpha: level of the primary test after Holm's correction.
        power: wanted power.
        relevant: a difference that would matter; 0: what the primary metric's scale says.
        samples: draws of the bootstrap and of the randomisation.
        seed: of the resampling.
        looked_after: runs of a system after which the results were looked at and runs added.
    """

    task: str
    metrics: tuple[str, ...]
    primary: str = ""
    lowercase: bool = False
    tokenize: str = "13a"
    alpha: float = 0.05
    power: float = 0.8
    relevant: float = 0.5
    samples: int = 10_000
    seed: int = 1
    looked_after: tuple[int, ...] = ()

    def scale(self, metric: str) -> Scale:
        """How the scores of a metric are written."""
        return TASKS[self.task].scale(metric)

    def digits(self, metric: str) -> int:
        """Digits of its scores behind the point."""
        return self.scale(metric).digits


@dataclass
class Report:
    """Everything that is shown or written.

    Args:
        settings: what was asked for.
        command: the command line.
        versions: package to version.
        baseline: name of the baseline.
        test_sets: in the order given.
        signatures: test set to metric to signature.
        runs: all runs.
        summaries: by test set, metric, system.
        comparisons: by test set, system, metric, the primary one first.
        warnings: what a reader must know before believing the rest.
    """

    settings: Settings
    command: str
    versions: dict[str, str]
    baseline: str
    test_sets: list[TestSet]
    signatures: dict[str, dict[str, str]]
    runs: list[Run] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def systems(self) -> list[str]:
        """Names of all systems, the baseline first."""
        return list(dict.fromkeys(run.system for run in self.runs))

    @property
    def error_rates(self) -> list[str]:
        """Names of the metrics of which less is better."""
        worse = {c.metric for c in self.comparisons if not c.higher_is_better}
        return [name for name in self.settings.metrics if name in worse]

    def scores(self, test_set: str, system: str, metric: str) -> list[float]:
        """Of the runs of one system by one metric."""
        key = test_set, system
        return [run.scores[metric] for run in self.runs if (run.test_set, run.system) == key]

    def summary(self, test_set: str, system: str, metric: str) -> Summary:
        """The summary of one system by one metric."""
        key = test_set, system, metric
        return next(s for s in self.summaries if (s.test_set, s.system, s.metric) == key)

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, numbers and strings."""
        return asdict(self, dict_factory=_plain)


def _plain(items: list[tuple[str, Any]]) -> dict[str, Any]:
    return {key: str(item) if isinstance(item, Path) else item for key, item in items}
