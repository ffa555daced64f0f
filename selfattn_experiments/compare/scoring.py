"""Score all runs of a test set, and keep the counts of each sentence beside the hypotheses.

The file is called ``.NAME.METRIC.counts`` and holds a SHA-256, 32 bytes, and an array in NumPy's
format. The hash is that of the array and of all that the counts depend on, so whatever is stale,
damaged or foreign does not match: the sentences are counted again and the file is replaced.
"""

import hashlib
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from selfattn_tasks.files import writing
from selfattn_tasks.folder import sha256_of
from selfattn_tasks.metric import Metric, SentenceCounts
from selfattn_tasks.registry import TASKS

from .reading import check_distinct, digest_of
from .results import Run, Settings
from .runs import Found, check_protocols, mixed_origins

Say = Callable[[str], None]
# Sentences that are counted at a time: chrF's n-grams of one reference take some 200 KB.
_BLOCK = 250
_VERSION = "selfattn counts 1"
_HASH_BYTES = 32


@dataclass(frozen=True)
class Scored:
    """The runs of a test set.

    Args:
        metrics: in the order of the tables.
        runs: all runs, system by system.
        counts: metric to statistics of the sentences, shape (runs, sentences, columns);
            ``metric.scores`` takes their sums over any choice of sentences.
        warnings: what is odd about the files.
        protocol: what the records of the runs say of how they were chosen, for the signatures.
    """

    metrics: Sequence[Metric]
    runs: list[Run]
    counts: dict[str, SentenceCounts]
    warnings: list[str]
    protocol: str


class _Lines:
    """Lines in a file without a name: the texts of all runs are too many for the memory."""

    def __init__(self, lines: Iterable[str], files: ExitStack) -> None:
        file = tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n")  # noqa: SIM115
        self._file: IO[str] = files.enter_context(file)
        self._file.writelines(line + "\n" for line in lines)

    def __iter__(self) -> Iterator[str]:
        self._file.seek(0)
        return (line[:-1] for line in self._file)


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
    found = [(system, file) for system, group in files.items() for file in group]
    protocol, warnings = check_protocols([file for _, file in found])
    warnings += mixed_origins([file for _, file in found])
    task = TASKS[settings.task]
    metrics = task.make_metrics(
        settings.metrics, lowercase=settings.lowercase, tokenize=settings.tokenize
    )
    warnings += task.gold_warnings(str(path), path, gold)
    texts = all(isinstance(sentence, str) for sentence in gold)
    sentences: dict[str, Iterable[Any]] = {}
    systems: dict[str, list[tuple[Found, str]]] = {}
    with ExitStack() as stack:
        for number, (system, run) in enumerate(found, 1):
            say(f"{name}: reading run {number} of {len(found)}")
            output = task.read_outputs(run.path, gold, path)
            digest = digest_of(output)
            warnings += task.output_warnings(
                f"{system}: {run.path}", run.path, output, gold, settings.lowercase
            )
            sentences[digest] = _Lines(output, stack) if texts else output
            systems.setdefault(system, []).append((run, digest))
        warnings += check_distinct(systems)
        runs = [(run.path, digest) for run, digest in chain.from_iterable(systems.values())]
        counted = _Counted(gold, sentences, runs, keep)
        counts = {m.name: counted.of(m, lambda text: say(f"{name}: {text}")) for m in metrics}
    signatures = [metric.signature for metric in metrics]
    for folder in dict.fromkeys(file.path.parent for _, file in found):
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


class _Counted:
    """Counts of all runs; what two runs or two metrics share is counted once.

    Args:
        gold: references, or gold sentences.
        sentences: digest to sentences, which can be gone through again and again.
        runs: file and digest of each run.
        keep: as in :func:`score_runs`.
    """

    def __init__(
        self,
        gold: Sequence[Any],
        sentences: Mapping[str, Iterable[Any]],
        runs: Sequence[tuple[Path, str]],
        keep: bool,
    ) -> None:
        self._gold, self._sentences, self._runs, self._keep = gold, sentences, runs, keep
        self._digest = digest_of(gold)
        self._known: dict[str, dict[str, SentenceCounts]] = {}

    def of(self, metric: Metric, say: Say) -> SentenceCounts:
        """Counts by a metric, shape (runs, sentences, columns)."""
        known = self._known.setdefault(metric.source, {})
        keys = {digest: _key_of(metric, self._digest, digest) for digest in self._sentences}
        if self._keep:
            for path, digest in self._runs:
                if digest not in known and (kept := _load(path, metric, keys[digest])) is not None:
                    known[digest] = kept
        missing = [digest for digest in self._sentences if digest not in known]
        if missing:
            known |= self._count(metric, missing, say)
            for path, digest in self._runs if self._keep else ():
                if digest in missing:
                    _store(path, metric, keys[digest], known[digest])
        return np.stack([known[digest] for _, digest in self._runs])

    def _count(self, metric: Metric, digests: list[str], say: Say) -> dict[str, SentenceCounts]:
        """Counts by digest; a block of sentences is counted in all runs before the next block."""
        streams = [iter(self._sentences[digest]) for digest in digests]
        parts: list[list[SentenceCounts]] = [[] for _ in digests]
        total = len(self._gold)
        for start in range(0, total, _BLOCK):
            say(f"{metric.name} of {len(digests)} runs, {start:,} of {total:,} sentences")
            gold = self._gold[start : start + _BLOCK]
            block = [list(islice(stream, len(gold))) for stream in streams]
            for part, counts in zip(parts, metric.counts(gold, block), strict=True):
                part.append(counts)
        return {d: np.concatenate(part) for d, part in zip(digests, parts, strict=True)}


def _key_of(metric: Metric, gold: str, output: str) -> str:
    """All that counts depend on: the text, and what counts it with its version.

    Args:
        metric: its signature names sacreBLEU's version.
        gold: digest of the references.
        output: digest of the hypotheses.
    """
    return "\n".join((_VERSION, metric.source, metric.signature, gold, output))


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
