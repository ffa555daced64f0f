"""Score all runs of a test set, and keep the counts of each sentence beside the hypotheses.

The file is called ``.NAME.METRIC.counts`` and holds a SHA-256, 32 bytes, and an array in NumPy's
format. The hash is that of the array and of all that the counts depend on, so whatever is stale,
damaged or foreign does not match: the sentences are counted again and the file is replaced.
"""

import hashlib
import io
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from selfattn_tasks.files import writing
from selfattn_tasks.folder import digest_of, sha256_of
from selfattn_tasks.metric import Metric, SentenceCounts
from selfattn_tasks.registry import TASKS

from .reading import check_distinct
from .records import check_protocols, check_tasks, mixed_origins
from .results import Run, Settings
from .runs import Found

Say = Callable[[str], None]
# Sentences that are counted at a time: chrF's n-grams of one reference take some 200 KB.
_BLOCK = 250
_VERSION = "selfattn counts 2"
_HASH_BYTES = 32


@dataclass(frozen=True)
class Scored:
    """The runs of a test set."""

    metrics: Sequence[Metric]  # in the order of the tables
    runs: list[Run]  # all runs, system by system
    # Metric to statistics of the sentences, shape (runs, sentences, columns); `metric.scores` takes
    # their sums over any choice of sentences.
    counts: dict[str, SentenceCounts]
    warnings: list[str]  # what is odd about the files
    protocol: str  # what the records of the runs say of how they were chosen, for the signatures


def score_runs(
    settings: Settings,
    files: Mapping[str, Sequence[Found]],
    name: str,
    path: Path,
    gold: Sequence[Any],
    say: Say,
    keep: bool = True,
) -> Scored:
    """Read and score every run.

    Args:
        settings: task, metrics and how to count.
        files: system to the files of its runs, the baseline first.
        name: of the test set.
        path: of its references or gold propositions.
        gold: what that file holds.
        say: told what is being done.
        keep: take counts from beside the hypotheses, and keep them there.

    Raises:
        UserError: for a file that cannot be compared, with the reason.
    """
    found = [(system, run) for system, group in files.items() for run in group]
    check_tasks([run for _, run in found], settings.task)
    protocol, warnings = check_protocols([run for _, run in found])
    warnings += mixed_origins([run for _, run in found])
    task = TASKS[settings.task]
    metrics = task.make_metrics(
        settings.metrics, lowercase=settings.lowercase, tokenize=settings.tokenize
    )
    warnings += task.gold_warnings(str(path), path, gold)
    outputs: dict[str, Sequence[Any]] = {}
    systems: dict[str, list[tuple[Found, str]]] = defaultdict(list)
    for number, (system, run) in enumerate(found, 1):
        say(f"{name}: reading run {number} of {len(found)}")
        output = task.read_outputs(run.path, gold, path)
        warnings += task.output_warnings(
            f"{system}: {run.path}", run.path, output, gold, settings.lowercase
        )
        digest = digest_of(output)
        outputs[digest] = output
        systems[system].append((run, digest))
    warnings += check_distinct(systems)
    runs = [(run.path, digest) for group in systems.values() for run, digest in group]
    counts = _counts(metrics, gold, outputs, runs, keep, lambda text: say(f"{name}: {text}"))
    signatures = [metric.signature for metric in metrics]
    for folder in dict.fromkeys(run.path.parent for _, run in found):
        warnings += task.folder_warnings(folder, signatures)
    return Scored(metrics, _runs(metrics, counts, found, name), counts, warnings, protocol)


def _runs(
    metrics: Sequence[Metric],
    counts: Mapping[str, SentenceCounts],
    found: Sequence[tuple[str, Found]],
    name: str,
) -> list[Run]:
    scores = {m.name: m.scores(counts[m.name].sum(axis=1, dtype=np.float64)) for m in metrics}
    return [
        Run(
            test_set=name,
            system=system,
            path=file.path,
            sha256=sha256_of(file.path),
            seed=file.seed,
            log=file.log,
            scores={metric: float(values[i]) for metric, values in scores.items()},
        )
        for i, (system, file) in enumerate(found)
    ]


def _counts(
    metrics: Sequence[Metric],
    gold: Sequence[Any],
    outputs: Mapping[str, Sequence[Any]],
    runs: Sequence[tuple[Path, str]],
    keep: bool,
    say: Say,
) -> dict[str, SentenceCounts]:
    """Counts by metric, shape (runs, sentences, columns).

    Outputs are by digest, and a run is a file with its digest: what runs of one output or metrics
    of one source share is counted once.
    """
    gold_digest = digest_of(gold)
    known: dict[str, dict[str, SentenceCounts]] = defaultdict(dict)
    for metric in metrics:
        counted = known[metric.source]
        # All that counts depend on: the text, and what counts it; a signature has its version.
        about = (_VERSION, metric.source, metric.signature, gold_digest)
        keys = {digest: "\n".join((*about, digest)) for digest in outputs}
        for path, digest in runs if keep else ():
            if digest not in counted and (old := _load(path, metric, keys[digest])) is not None:
                counted[digest] = old
        missing = [digest for digest in outputs if digest not in counted]
        if missing:
            new = _count(metric, gold, [outputs[digest] for digest in missing], say)
            counted |= zip(missing, new, strict=True)
        for path, digest in runs if keep else ():
            if digest in missing:
                _store(path, metric, keys[digest], counted[digest])
    return {m.name: np.stack([known[m.source][digest] for _, digest in runs]) for m in metrics}


def _count(
    metric: Metric, gold: Sequence[Any], outputs: Sequence[Sequence[Any]], say: Say
) -> list[SentenceCounts]:
    """Counts of each output; a block of sentences is counted in all of them before the next one."""
    blocks = []
    for start in range(0, len(gold), _BLOCK):
        say(f"{metric.name} of {len(outputs)} runs, {start:,} of {len(gold):,} sentences")
        block = slice(start, start + _BLOCK)
        blocks.append(metric.counts(gold[block], [output[block] for output in outputs]))
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _load(hypotheses: Path, metric: Metric, key: str) -> SentenceCounts | None:
    """The counts of a file of hypotheses, shape (sentences, columns); None without good ones."""
    try:
        content = _place(hypotheses, metric).read_bytes()
    except OSError:
        return None
    found, array = content[:_HASH_BYTES], content[_HASH_BYTES:]
    if found != _hash(key, array):
        return None
    counts: SentenceCounts = np.load(io.BytesIO(array), allow_pickle=False)
    return counts


def _store(hypotheses: Path, metric: Metric, key: str, counts: SentenceCounts) -> None:
    """Keep counts, if the folder can be written to."""
    array = io.BytesIO()
    np.save(array, counts, allow_pickle=False)
    # Without the file, the next comparison is slower and nothing else.
    with suppress(OSError), writing(_place(hypotheses, metric)) as file:
        file.write(_hash(key, array.getvalue()) + array.getvalue())


def _place(hypotheses: Path, metric: Metric) -> Path:
    return hypotheses.with_name(f".{hypotheses.name}.{metric.source.lower()}.counts")


def _hash(key: str, array: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\n" + array).digest()
