"""Word vectors from a text file in GloVe's format, plain or gzipped."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from ..errors import UserError

logger = logging.getLogger(__name__)
_PROGRESS_EVERY = 200_000


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors.

    Args:
        words (dict[str, int]): word -> row.
        values (Tensor): ``(N, width)``.
    """

    words: dict[str, int]
    values: Tensor

    @property
    def width(self) -> int:
        """Width of a vector."""
        return self.values.shape[1]


def read_vectors(path: Path) -> WordVectors:
    """Read ``word value value ...`` lines; the first line decides the width.

    A first line of two numbers (word2vec's header) is skipped, a word that occurs again is too.

    Raises:
        UserError: with file and line, if the file cannot be read, is empty, or a line has another
            number of values or something that is no number.
    """
    words: dict[str, int] = {}
    rows: list[np.ndarray] = []
    width = 0
    for number, line in _lines(path):
        fields = line.split(" ")
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            continue
        width = width or len(fields) - 1
        if width < 1 or len(fields) <= width:
            raise UserError(
                f"{path}, line {number}: a word and {max(width, 1)} numbers are needed, but there "
                f"are {len(fields) - 1} numbers"
            )
        word = " ".join(fields[:-width])  # some files hold words with spaces
        if word in words:
            continue
        try:
            row = np.array(fields[-width:], dtype=np.float32)
        except ValueError:
            raise UserError(
                f"{path}, line {number}: {line[:40]!r} is not a word and {width} numbers"
            ) from None
        if len(fields) > width + 1 and _is_number(fields[1]):
            raise UserError(
                f"{path}, line {number}: {len(fields) - 1} numbers, but {width} are needed as in "
                "the lines before"
            )
        words[word] = len(rows)
        rows.append(row)
        if not len(rows) % _PROGRESS_EVERY:
            logger.info("read %s word vectors from %s", f"{len(rows):,}", path)
    if not rows:
        raise UserError(f"{path} is empty; lines of a word and its numbers are needed")
    return WordVectors(words, torch.from_numpy(np.stack(rows)))


def vector_width(path: Path) -> int:
    """Width of the vectors of a file, from its first lines.

    Raises:
        UserError: as for ``read_vectors``.
    """
    for number, line in _lines(path):
        fields = line.split(" ")
        if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
            continue
        if len(fields) < 2:
            raise UserError(f"{path}, line {number}: a word and its numbers are needed")
        return len(fields) - 1
    raise UserError(f"{path} is empty; lines of a word and its numbers are needed")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines without their ends."""
    number = 0
    try:
        with _open(path) as file:
            for number, line in enumerate(file, 1):
                yield number, line.decode("utf-8").rstrip("\r\n ")
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"the word vectors {path} cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}, line {number}: the word is not UTF-8 text") from None


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if zipped else path.open("rb")  # type: ignore[return-value]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
