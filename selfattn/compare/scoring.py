"""Score all runs of a test set, and keep the counts of each sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..corpus.folder import sha256_of
from .metrics import Counts, Metric, TaggingMetric, translation_metrics
from .reading import check_distinct, read_hypotheses, signature_warnings, text_warnings
from .results import Run, Settings
from .runs import Found

Say = Callable[[str], None]


@dataclass(frozen=True)
class Scored:
    """The runs of a test set.

    Args:
        metrics: in the order of the tables.
        runs: all runs, system by system.
        counts: metric to counts of the sentences, shape (runs, sentences, columns).
        warnings: what is odd about the files.
    """

    metrics: Sequence[Metric]
    runs: list[Run]
    counts: dict[str, Counts]
    warnings: list[str]


def score_runs(
    settings: Settings,
    files: Mapping[str, Sequence[Found]],
    name: str,
    path: Path,
    gold: Sequence[Any],
    say: Say,
) -> Scored:
    """Read and score every run.

    Args:
        settings: task, metrics and how to count.
        files: system to the files of its runs.
        name: of the test set.
        path: of its references or gold propositions.
        gold: what that file holds.
        say: told what is being done.

    Raises:
        UserError: for a file that cannot be compared, with the reason.
    """
    found = [(system, file) for system, group in files.items() for file in group]
    outputs = []
    for number, (_, file) in enumerate(found, 1):
        say(f"{name}: reading run {number} of {len(found)}")
        outputs.append(read_hypotheses(file.path, settings.task, gold, path))
    hashes = [sha256_of(file.path) for _, file in found]
    for system in files:
        check_distinct(
            system,
            [(f.path, out) for (s, f), out in zip(found, outputs, strict=True) if s == system],
        )
    metrics = _metrics(settings, gold)
    counts = _count(metrics, outputs, hashes, lambda text: say(f"{name}: {text}"))
    scores = {m.name: m.scores(counts[m.name].sum(axis=1)) for m in metrics}
    runs = [
        Run(
            test_set=name,
            system=system,
            path=file.path,
            sha256=hashes[i],
            seed=file.seed,
            log=file.log,
            scores={metric: float(values[i]) for metric, values in scores.items()},
        )
        for i, (system, file) in enumerate(found)
    ]
    warnings = _warnings(settings, metrics, found, outputs, gold)
    return Scored(metrics, runs, counts, warnings)


def _metrics(settings: Settings, gold: Sequence[Any]) -> Sequence[Metric]:
    if settings.task == "srl":
        return [TaggingMetric(name, gold) for name in settings.metrics]
    return translation_metrics(
        gold, settings.metrics, lowercase=settings.lowercase, tokenize=settings.tokenize
    )


def _count(
    metrics: Sequence[Metric], outputs: Sequence[list[Any]], hashes: Sequence[str], say: Say
) -> dict[str, Counts]:
    """Counts of all runs by metric; a file that is given twice is counted once."""
    known: dict[tuple[str, str], Counts] = {}
    for metric in metrics:
        for number, (output, digest) in enumerate(zip(outputs, hashes, strict=True), 1):
            if (metric.source, digest) not in known:
                say(f"{metric.name} of run {number} of {len(outputs)}")
                known[metric.source, digest] = metric.counts(output)
    return {m.name: np.stack([known[m.source, digest] for digest in hashes]) for m in metrics}


def _warnings(
    settings: Settings,
    metrics: Sequence[Metric],
    found: Sequence[tuple[str, Found]],
    outputs: Sequence[list[Any]],
    gold: Sequence[Any],
) -> list[str]:
    if settings.task == "srl":
        return []
    warnings = []
    for (system, file), output in zip(found, outputs, strict=True):
        warnings += text_warnings(f"{system}: {file.path}", output, gold, settings.lowercase)
    signatures = [metric.signature for metric in metrics]
    for folder in dict.fromkeys(file.path.parent for _, file in found):
        warnings += signature_warnings(folder, signatures)
    return warnings
