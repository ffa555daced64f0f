"""Compare systems: read, count, test, correct, judge."""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from selfattn import __version__
from selfattn.errors import UserError, needed
from selfattn_tasks.folder import sha256_of
from selfattn_tasks.metric import Metric
from selfattn_tasks.registry import TASKS

from . import run_level
from .planning import plan
from .reading import read_gold, tested_elsewhere
from .records import unlike_runs
from .results import Comparison, Report, Run, Settings, Summary, TestSet
from .runs import Found, System, few_runs, few_sentences, find_runs
from .scoring import Say, Scored, score_runs
from .sentence_level import both_levels, mcnemar, resample, sentence_tests
from .verdict import holm, interval_warnings, judge, looks_warning

# The runs of each system on a test set, and what is to be said of them.
Runs = Mapping[str, tuple[Sequence[Found], Sequence[str]]]


@dataclass(frozen=True)
class Request:
    """What to compare."""

    systems: Sequence[System]  # the baseline first
    references: Sequence[tuple[str, Path]]  # name and file of each test set
    task: str  # `auto` or a name of `selfattn_tasks.registry`
    metrics: Sequence[str]  # names in any case; empty for all of the task
    # The rest; its task and metrics are filled in here. Its primary metric is a name in any case,
    # or empty for the first of the task's metrics that is compared.
    settings: Settings
    command: str = ""  # as typed, for the report
    keep_counts: bool = True  # beside the hypotheses, for the next comparison


def compare(request: Request, say: Say = lambda text: None) -> Report:
    """Compare all systems with the first one.

    Raises:
        UserError: for files that cannot be compared, with the reason.
    """
    needed("scipy.stats")  # before minutes of scoring
    read = [read_gold(path, request.task) for _, path in request.references]
    tasks = {task for task, _ in read}
    if len(tasks) > 1:
        held = " and ".join(task.gold_holds for task in TASKS.values() if task.name in tasks)
        raise UserError(f"--ref holds {held}, but must be of one kind")
    (task,) = tasks
    _check_flags_of_text(task, request.settings)
    offered = {TASKS[task].metrics_of(gold) for _, gold in read}
    if len(offered) > 1:
        raise UserError(
            "--ref holds test sets that are scored differently; compare them one by one"
        )
    metrics, primary = _metric_names(offered.pop(), request.metrics, request.settings.primary)
    settings = replace(request.settings, task=task, metrics=metrics, primary=primary)
    settings = replace(settings, relevant=settings.relevant or settings.scale(primary).relevant)
    report = Report(settings, request.command, _versions(task), request.systems[0].name, [], {})
    several = len(read) > 1
    found = {
        name: {system.name: find_runs(system, name, several) for system in request.systems}
        for name, _ in request.references
    }
    _check_looks(settings, found)
    drafts = []
    for (name, path), (_, gold) in zip(request.references, read, strict=True):
        report.test_sets.append(TestSet(name, path, sha256_of(path), TASKS[task].count(gold)))
        drafts += _compare_on(report, request, found[name], gold, say)
    # A system compared with itself is a check: a family of its own, for which no other test pays.
    keys = [(d.primary, place if d.same_files else None) for place, d in enumerate(drafts)]
    families = {
        key: iter(_correct(report, [d for d, of in zip(drafts, keys, strict=True) if of == key]))
        for key in dict.fromkeys(keys)
    }
    for key in keys:
        corrected = next(families[key])
        verdict, words = judge(corrected, settings)
        report.comparisons.append(replace(corrected, verdict=verdict, words=words))
    report.warnings += interval_warnings(report) + _uneven(report)
    if settings.looked_after:
        report.warnings.insert(0, looks_warning(settings))
    report.warnings = list(dict.fromkeys(report.warnings))
    return report


def _check_looks(settings: Settings, found: Mapping[str, Runs]) -> None:
    """Refuse looks at as many runs as there are now, on the test set that has most."""
    most = max(len(runs) for systems in found.values() for runs, _ in systems.values())
    for runs in settings.looked_after:
        if runs >= most:
            raise UserError(
                f"--looked-after is {runs}, but no system has more than {most} runs: it is the "
                "number of runs at the look, before others were added"
            )


def _check_flags_of_text(task: str, settings: Settings) -> None:
    """Refuse flags that only scores of text obey."""
    if TASKS[task].ignores_case:
        return
    given = {"--lowercase": settings.lowercase, "--tokenize": settings.tokenize != "13a"}
    for flag, is_given in given.items():
        if is_given:
            raise UserError(f"{flag} is for translations, but --ref holds {TASKS[task].gold_holds}")


def _uneven(report: Report) -> list[str]:
    """A warning for each system with fewer runs on one test set than on another."""
    found = []
    for system in report.systems:
        runs = {
            t.name: len(report.scores(t.name, system, report.settings.primary))
            for t in report.test_sets
        }
        few, most = min(runs, key=runs.__getitem__), max(runs, key=runs.__getitem__)
        if runs[few] < runs[most]:
            found.append(
                f"{system}: {runs[few]} runs on {few}, but {runs[most]} on {most}; those that are "
                "missing there are left out"
            )
    return found


def _metric_names(
    offered: Sequence[str], wanted: Sequence[str], primary: str
) -> tuple[tuple[str, ...], str]:
    """The metrics in the order of the tables, and the primary one, which is the first of them."""
    known = {name.lower().rstrip("."): name for name in offered}

    def named(flag: str, name: str) -> str:
        if (key := name.lower().rstrip(".")) not in known:
            several = "some" if flag == "--metrics" else "one"
            raise UserError(
                f"{flag} has {name!r}, but must be {several} of {', '.join(known)} for this task"
            )
        return known[key]

    chosen = {named("--metrics", name) for name in wanted} or set(offered)
    in_order = [name for name in offered if name in chosen]
    first = named("--primary", primary) if primary else in_order[0]
    if first not in chosen:
        raise UserError(f"--primary is {primary}, which --metrics leaves out")
    return (first, *(name for name in in_order if name != first)), first


def _versions(task: str) -> dict[str, str]:
    packages = ("numpy", "scipy", *TASKS[task].packages)
    for name in packages:
        needed(name)
    return {"selfattn": __version__} | {name: version(name) for name in packages}


def _compare_on(
    report: Report, request: Request, found: Runs, gold: Sequence[Any], say: Say
) -> list[Comparison]:
    """Score all runs on the last test set, and compare each system with the first."""
    test_set = report.test_sets[-1]
    name, path = test_set.name, test_set.path
    files = {system: runs for system, (runs, _) in found.items()}
    for system, (runs, warnings) in found.items():
        report.warnings += [*warnings, *unlike_runs(runs, system)]
    report.warnings += few_runs(files) + few_sentences(name, test_set.sentences)
    everything = itertools.chain(*files.values())
    report.warnings += tested_elsewhere(everything, path, gold, test_set.sha256)
    scored = score_runs(report.settings, files, name, path, gold, say, request.keep_counts)
    report.runs += scored.runs
    report.warnings += scored.warnings
    report.signatures[name] = {
        metric.name: "|".join(filter(None, (metric.signature, scored.protocol)))
        for metric in scored.metrics
    }
    _summarise(report, name)
    drafts = []
    for metric in scored.metrics:
        say(f"resampling {name}: {metric.name}")
        drafts += _tests(report, scored, name, metric)
    return sorted(drafts, key=lambda draft: report.systems.index(draft.system))


def _summarise(report: Report, name: str) -> None:
    for metric in report.settings.metrics:
        for system in report.systems:
            scores = report.scores(name, system, metric)
            mean, interval = float(np.mean(scores)), run_level.mean_interval(scores)
            sd = run_level.sample_sd(scores) if len(scores) > 1 else None
            found = Summary(name, system, metric, len(scores), mean, sd, interval)
            report.summaries.append(found)


def _tests(report: Report, scored: Scored, name: str, metric: Metric) -> list[Comparison]:
    """All tests of one metric but Holm's correction, which needs the others."""
    settings = report.settings
    # Its own stream for each test set and metric: a result must not depend on what else is asked.
    digest = hashlib.sha256(f"{name} {metric.name}".encode()).digest()[:8]
    key = [settings.seed, int.from_bytes(digest, "big")]
    rng = np.random.default_rng(key)
    counts = scored.counts[metric.name]
    resampled = resample(counts, metric.scores, settings.samples, rng)
    right = counts[..., 0] if settings.scale(metric.name).right_or_wrong else None
    places = {
        system: [i for i, run in enumerate(scored.runs) if run.system == system]
        for system in report.systems
    }
    sides = {system: [scored.runs[i] for i in found] for system, found in places.items()}
    baseline, base = sides[report.baseline], places[report.baseline]
    x = [run.scores[metric.name] for run in baseline]
    drafts = []
    for system, runs in sides.items():
        if system == report.baseline:
            continue
        y = [run.scores[metric.name] for run in runs]
        pair, pairs = run_level.paired(_by_seed(baseline, metric), _by_seed(runs, metric))
        # Each system's numbers are those that it would have alone.
        own = places[system]
        sentence = sentence_tests(resampled, base, own, metric.scores, deepcopy(rng))
        if right is not None and len(x) == len(y) == 1:
            p = mcnemar(right[base][0], right[own][0])
            sentence = replace(sentence, mcnemar_p=p)
        both_rng = np.random.default_rng([*key, 1])
        drafts.append(
            Comparison(
                test_set=name,
                metric=metric.name,
                primary=metric.name == settings.primary,
                baseline=report.baseline,
                system=system,
                runs=(len(x), len(y)),
                difference=float(np.mean(y) - np.mean(x)),
                higher_is_better=metric.higher_is_better,
                welch=run_level.welch(x, y),
                paired=pair,
                pairs=pairs,
                permutation=run_level.permutation(x, y, settings.seed),
                order=run_level.stochastic_order(x, y, seed=settings.seed),
                both_levels=both_levels(resampled, base, own, both_rng, settings.relevant),
                effect=run_level.hedges(x, y),
                sentence=sentence,
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


def _correct(report: Report, family: Sequence[Comparison]) -> list[Comparison]:
    """What needs all tests of a family: corrected p-values and intervals, and planning."""
    settings = report.settings
    p_values = holm([c.welch.p if c.welch else None for c in family])
    tests = sum(p is not None for p in p_values)
    scores = [
        [report.scores(c.test_set, system, c.metric) for system in (c.baseline, c.system)]
        for c in family
    ]
    same = [
        None if c.same_files else run_level.equivalence(x, y, settings.relevant)
        for c, (x, y) in zip(family, scores, strict=True)
    ]
    mcnemars = holm([c.sentence.mcnemar_p for c in family])
    found = []
    for c, (x, y), p, one, both, exact in zip(
        family, scores, p_values, same, holm(same), mcnemars, strict=True
    ):
        c = replace(c, sentence=replace(c.sentence, mcnemar_holm=exact))
        if c.welch is not None:
            alpha = settings.alpha / tests
            wider = run_level.welch(x, y, 1 - alpha)
            c = replace(
                c, p_holm=p, equivalence=one, equivalence_holm=both,
                simultaneous=wider.interval if wider else None,
                planning=plan(x, y, alpha, settings.relevant, settings.power),
            )  # fmt: skip
        found.append(c)
    return found
