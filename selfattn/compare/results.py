"""What a comparison finds out, as plain data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .run_level import Effect, Interval, Permutation, TTest
from .sentence_level import SentenceTests


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
        scores: metric to score, in percent.
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


@dataclass(frozen=True)
class Planning:
    """What a number of seeds can detect; alpha is the level that Holm asks of the smallest p.

    Args:
        alpha: level of the test.
        relevant: a difference that would matter, in points.
        power_relevant: share of experiments of this size that would find such a difference.
        seeds_relevant: runs a side that would find it with the wanted power.
        power_observed: the same for a true difference as large as the observed one.
        seeds_observed: runs a side that would find the observed one; None: more than MOST_SEEDS.
        seeds_cautious: the same with the spread at its upper 80 % limit.
    """

    alpha: float
    relevant: float
    power_relevant: float
    seeds_relevant: int | None
    power_observed: float
    seeds_observed: int | None
    seeds_cautious: int | None


@dataclass(frozen=True)
class Comparison:
    """A system against the baseline on one test set by one metric.

    Args:
        test_set: name of the test set.
        metric: name of the metric.
        baseline: name of the baseline.
        system: name of the system.
        runs: of the baseline and of the system.
        difference: mean of the system less mean of the baseline.
        higher_is_better: False for an error rate.
        welch: the primary test; None where there is nothing to estimate a spread from.
        p_holm: its p after Holm's correction.
        paired: t-test of matched seeds; None with fewer than two.
        pairs: number of matched seeds.
        permutation: permutation test.
        effect: Hedges' g.
        planning: power and numbers of seeds.
        sentence: tests at the level of sentences.
        same_files: both sides are the same files.
        verdict: ``better``, ``worse``, ``no evidence`` or ``underpowered``.
        words: the verdict with its numbers.
    """

    test_set: str
    metric: str
    baseline: str
    system: str
    runs: tuple[int, int]
    difference: float
    higher_is_better: bool
    welch: TTest | None
    paired: TTest | None
    pairs: int
    permutation: Permutation
    effect: Effect | None
    planning: Planning | None
    sentence: SentenceTests
    same_files: bool
    p_holm: float | None = None
    verdict: str = ""
    words: str = ""


@dataclass(frozen=True)
class Settings:
    """What was asked for.

    Args:
        task: ``translation`` or ``srl``.
        metrics: names, in the order of the tables.
        lowercase: whether BLEU and chrF ignore case.
        tokenize: BLEU's tokenizer.
        alpha: level of the primary test after Holm's correction.
        power: wanted power.
        relevant: a difference that would matter, in points.
        samples: draws of the bootstrap and of the randomisation.
        seed: of the resampling.
    """

    task: str
    metrics: tuple[str, ...]
    lowercase: bool = False
    tokenize: str = "13a"
    alpha: float = 0.05
    power: float = 0.8
    relevant: float = 0.5
    samples: int = 10_000
    seed: int = 1


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
        comparisons: by test set, system, metric.
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
        """Names, the baseline first."""
        return list(dict.fromkeys(run.system for run in self.runs))

    def as_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, numbers and strings."""
        plain: dict[str, Any] = _plain(asdict(self))
        return plain


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
