"""Counts kept beside the hypotheses, so that the next comparison does not have to count again.

The file is called ``.NAME.METRIC.counts`` and holds a SHA-256, 32 bytes, and an array in NumPy's
format. The hash is that of the array and of all that the counts depend on, so whatever is stale,
damaged or foreign does not match: the sentences are counted again and the file is replaced.
"""

from __future__ import annotations

import hashlib
import io
from contextlib import suppress
from pathlib import Path

import numpy as np

from selfattn_tasks.files import writing
from selfattn_tasks.metric import Metric, SentenceCounts

_VERSION = "selfattn counts 1"
_HASH_BYTES = 32


def key_of(metric: Metric, gold: str, output: str) -> str:
    """All that counts depend on: the text, and what counts it with its version.

    Args:
        metric: its signature names sacreBLEU's version.
        gold: digest of the references.
        output: digest of the hypotheses.
    """
    return "\n".join((_VERSION, metric.source, metric.signature, gold, output))


def load(hypotheses: Path, metric: Metric, key: str) -> SentenceCounts | None:
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


def store(hypotheses: Path, metric: Metric, key: str, counts: SentenceCounts) -> None:
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
