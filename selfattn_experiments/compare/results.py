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
    """A test set."""

    name: str  # in tables, and what stands for `{test}` in a pattern
    path: Path  # references, or gold propositions
    sha256: str  # of that file
    sentences: int


@dataclass(frozen=True)
class Run:
    """One trained model's output for one test set, and its scores."""

    test_set: str
    system: str
    path: Path  # file of the hypotheses
    sha256: str  # of that file
    seed: str | None  # that it was trained with, if known
    log: Path | None  # of training, if there is one
    scores: dict[str, float]  # metric to score


@dataclass(frozen=True)
class Summary:
    """The runs of a system together."""

    test_set: str
    system: str
    metric: str
    runs: int
    mean: float
    sd: float | None  # standard deviation; None for one run
    interval: Interval | None  # 95 % interval of the mean over seeds; None for one run


@final
@dataclass(frozen=True)
class Planning:
    """What a number of seeds can detect, with the spread that was seen."""

    alpha: float  # level of each test: of the family's, shared out evenly (Bonferroni)
    relevant: float  # a difference that would matter
    detectable: float  # the smallest true difference that so many runs find with the wanted power
    # Runs a side that would find the relevant one; None: more than MOST_SEEDS.
    seeds_relevant: int | None
    seeds_cautious: int | None  # the same with the spread at its upper 80 % limit


@dataclass(frozen=True)
class Comparison:
    """A system against the baseline on one test set by one metric.

    The primary metric's comparisons are one family, those of all other metrics another; a
    correction is for the tests of the family, the differences and the equivalences each.
    """

    test_set: str
    metric: str
    primary: bool  # it carries the verdict
    baseline: str
    system: str
    runs: tuple[int, int]  # of the baseline and of the system
    difference: float  # mean of the system less mean of the baseline
    higher_is_better: bool  # False for an error rate
    welch: TTest | None  # the primary test; None where there is nothing to estimate a spread from
    paired: TTest | None  # t-test of matched seeds; None with fewer than two
    pairs: int  # number of matched seeds
    permutation: Permutation
    order: Order | None  # almost stochastic order; None with one run on a side
    # Bootstrap over seeds and sentences; None with one run on a side.
    both_levels: BothLevels | None
    effect: Effect | None  # Hedges' g
    sentence: SentenceTests
    same_files: bool
    equivalence: float | None = None  # p of the two one-sided tests against the relevant difference
    p_holm: float | None = None  # Welch's p after Holm's correction
    equivalence_holm: float | None = None
    # Welch's interval at the level 1 - alpha / tests of the family (Dunn 1961): all of a family
    # hold their true differences with the probability 1 - alpha or more.
    simultaneous: Interval | None = None
    planning: Planning | None = None  # what so many runs detect, and how many a study needs
    # `better`, `worse`, `equivalent` or `undecided`; `no evidence` for files against themselves,
    # `secondary` for another metric than the primary one.
    verdict: str = ""
    words: str = ""  # the verdict with its numbers


@dataclass(frozen=True)
class Settings:
    """What was asked for."""

    task: str  # a name of `selfattn_tasks.registry`
    metrics: tuple[str, ...]  # names, in the order of the tables
    primary: str = ""  # name of the metric that carries the verdict
    lowercase: bool = False  # whether BLEU and chrF ignore case
    tokenize: str = "13a"
    alpha: float = 0.05  # level of the primary test after Holm's correction
    power: float = 0.8
    relevant: float = 0.5  # a difference that would matter; 0: what the primary metric's scale says
    samples: int = 10_000  # draws of the bootstrap and of the randomisation
    seed: int = 1  # of the resampling
    # Runs of a system after which the results were looked at and runs added.
    looked_after: tuple[int, ...] = ()

    def scale(self, metric: str) -> Scale:
        """How the scores of a metric are written."""
        return TASKS[self.task].scale(metric)

    def digits(self, metric: str) -> int:
        """Digits of its scores after the point."""
        return self.scale(metric).digits


@dataclass
class Report:
    """Everything that is shown or written."""

    settings: Settings
    command: str
    versions: dict[str, str]  # package to version
    baseline: str
    test_sets: list[TestSet]  # in the order given
    signatures: dict[str, dict[str, str]]  # test set to metric to signature
    runs: list[Run] = field(default_factory=list)
    summaries: list[Summary] = field(default_factory=list)  # by test set, metric, system
    # By test set, system, metric, the primary one first.
    comparisons: list[Comparison] = field(default_factory=list)
    # What a reader must know before believing the rest.
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
