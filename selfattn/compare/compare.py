"""Compare systems: read, count, test, correct, judge."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..corpus.folder import sha256_of
from ..errors import UserError
from . import run_level
from .metrics import TAGGING, TRANSLATION, Metric
from .reading import read_gold
from .results import Comparison, Planning, Report, Run, Settings, Summary, TestSet
from .runs import System, few_runs, find_runs
from .scoring import Say, Scored, score_runs
from .sentence_level import resample, sentence_tests
from .verdict import holm, judge


@dataclass(frozen=True)
class Request:
    """What to compare.

    Args:
        systems: the baseline first.
        references: name and file of each test set.
        task: ``auto``, ``translation`` or ``srl``.
        metrics: names in any case; empty for all of the task.
        settings: the rest; its task and metrics are filled in here.
        command: as typed, for the report.
        keep_counts: beside the hypotheses, for the next comparison.
    """

    systems: Sequence[System]
    references: Sequence[tuple[str, Path]]
    task: str
    metrics: Sequence[str]
    settings: Settings
    command: str = ""
    keep_counts: bool = True


def compare(request: Request, say: Say = lambda text: None) -> Report:
    """Compare all systems with the first one.

    Args:
        request: what to compare.
        say: told what is being done, for a line of progress.

    Raises:
        UserError: for files that cannot be compared, with the reason.
    """
    run_level.scipy_stats()  # before minutes of scoring
    read = [read_gold(path, request.task) for _, path in request.references]
    tasks = {task for task, _ in read}
    if len(tasks) > 1:
        raise UserError("--ref holds translations and propositions, but must be of one kind")
    (task,) = tasks
    settings = replace(request.settings, task=task, metrics=_metric_names(task, request.metrics))
    report = Report(settings, request.command, _versions(task), request.systems[0].name, [], {})
    drafts = []
    for (name, path), (_, gold) in zip(request.references, read, strict=True):
        report.test_sets.append(TestSet(name, path, sha256_of(path), len(gold)))
        drafts += _compare_on(report, request, name, path, gold, say)
    corrected = holm([draft.welch.p if draft.welch else None for draft in drafts])
    for draft, p_holm in zip(drafts, corrected, strict=True):
        planned = _plan(report, draft, sum(p is not None for p in corrected))
        draft = replace(draft, p_holm=p_holm, planning=planned)
        verdict, words = judge(draft, settings)
        report.comparisons.append(replace(draft, verdict=verdict, words=words))
    report.warnings = list(dict.fromkeys(report.warnings))
    return report


def _metric_names(task: str, wanted: Sequence[str]) -> tuple[str, ...]:
    offered = TAGGING if task == "srl" else TRANSLATION
    known = {name.lower().rstrip("."): name for name in offered}
    for name in wanted:
        if name.lower().rstrip(".") not in known:
            raise UserError(
                f"--metrics has {name!r}, but must be some of {', '.join(known)} for this task"
            )
    chosen = {known[name.lower().rstrip(".")] for name in wanted} or set(offered)
    return tuple(name for name in offered if name in chosen)


def _versions(task: str) -> dict[str, str]:
    packages = ["numpy", "scipy", *(["sacrebleu"] if task == "translation" else [])]
    return {
        "selfattn": __version__,
        **{name: importlib.metadata.version(name) for name in packages},
    }


def _compare_on(
    report: Report, request: Request, name: str, path: Path, gold: Sequence[Any], say: Say
) -> list[Comparison]:
    """Score all runs on one test set, and compare each system with the first one."""
    files = {}
    for system in request.systems:
        files[system.name], warnings = find_runs(system, name, len(request.references) > 1)
        report.warnings += warnings
    report.warnings += few_runs(files)
    scored = score_runs(report.settings, files, name, path, gold, say, request.keep_counts)
    report.runs += scored.runs
    report.warnings += scored.warnings
    report.signatures[name] = {metric.name: metric.signature for metric in scored.metrics}
    _summarise(report, name)
    drafts = []
    for metric in scored.metrics:
        say(f"resampling {name}: {metric.name}")
        drafts += _tests(report, scored, name, metric)
    return sorted(drafts, key=lambda draft: report.systems.index(draft.system))


def _summarise(report: Report, name: str) -> None:
    for metric in report.settings.metrics:
        for system in report.systems:
            scores = _scores(report, name, system, metric)
            report.summaries.append(
                Summary(
                    name,
                    system,
                    metric,
                    len(scores),
                    float(np.mean(scores)),
                    run_level.spread(scores) if len(scores) > 1 else None,
                    run_level.mean_interval(scores),
                )
            )


def _scores(report: Report, test_set: str, system: str, metric: str) -> list[float]:
    return [
        run.scores[metric]
        for run in report.runs
        if (run.test_set, run.system) == (test_set, system)
    ]


def _tests(report: Report, scored: Scored, name: str, metric: Metric) -> list[Comparison]:
    """All tests of one metric but Holm's correction, which needs the others."""
    settings = report.settings
    # Its own stream for each test set and metric: a result must not depend on what else is asked.
    key = hashlib.sha256(f"{name} {metric.name}".encode()).digest()[:8]
    rng = np.random.default_rng([settings.seed, int.from_bytes(key, "big")])
    resampled = resample(scored.counts[metric.name], metric.scores, settings.samples, rng)
    places = {
        system: [i for i, run in enumerate(scored.runs) if run.system == system]
        for system in report.systems
    }
    sides = {system: [scored.runs[i] for i in found] for system, found in places.items()}
    baseline = sides[report.baseline]
    x = [run.scores[metric.name] for run in baseline]
    drafts = []
    for system, runs in sides.items():
        if system == report.baseline:
            continue
        y = [run.scores[metric.name] for run in runs]
        pair, pairs = run_level.paired(_by_seed(baseline, metric), _by_seed(runs, metric))
        drafts.append(
            Comparison(
                test_set=name,
                metric=metric.name,
                baseline=report.baseline,
                system=system,
                runs=(len(x), len(y)),
                difference=float(np.mean(y) - np.mean(x)),
                higher_is_better=metric.higher_is_better,
                welch=run_level.welch(x, y),
                paired=pair,
                pairs=pairs,
                permutation=run_level.permutation(x, y, settings.seed),
                effect=run_level.hedges(x, y),
                planning=None,
                sentence=sentence_tests(
                    resampled, places[report.baseline], places[system], metric.scores, rng
                ),
                same_files=sorted(r.sha256 for r in baseline) == sorted(r.sha256 for r in runs),
            )
        )
    return drafts


def _by_seed(runs: Sequence[Run], metric: Metric) -> dict[str, float]:
    """Seed to score; empty if a run's seed is not known or two runs share one."""
    seeds = [run.seed for run in runs]
    if len(set(seeds)) < len(seeds):
        return {}
    return {run.seed: run.scores[metric.name] for run in runs if run.seed is not None}


def _plan(report: Report, draft: Comparison, tests: int) -> Planning | None:
    """Power at the level that the smallest of this number of p-values must pass."""
    if draft.welch is None:
        return None
    settings = report.settings
    sx, sy = (
        run_level.spread(_scores(report, draft.test_set, system, draft.metric))
        for system in (draft.baseline, draft.system)
    )
    alpha = settings.alpha / tests
    limit = run_level.spread_limit(sum(draft.runs) - 2)
    size, observed = settings.relevant, draft.difference

    def needed(difference: float, factor: float = 1.0) -> int | None:
        return run_level.seeds_needed(difference, factor * sx, factor * sy, alpha, settings.power)

    return Planning(
        alpha=alpha,
        relevant=size,
        power_relevant=run_level.power(size, sx, sy, *draft.runs, alpha),
        seeds_relevant=needed(size),
        power_observed=run_level.power(observed, sx, sy, *draft.runs, alpha),
        seeds_observed=needed(observed),
        seeds_cautious=needed(observed, limit),
    )
