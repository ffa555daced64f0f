"""Word vectors: read from a text file in GloVe's format, and learnt, fixed or 0 in a model."""

import gzip
import logging
import zlib
from collections.abc import Container, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from selfattn.errors import UserError

from ..text import NUMBER
from .vocabulary import FIRST_WORD, Vocabulary

logger = logging.getLogger(__name__)
_PROGRESS_EVERY = 200_000
# Bi-BloSAN's code and its successors' start words without a vector from U(-0.05, 0.05).
# Differs: on SST from N(0, 1).
_BOUND = 0.05


@dataclass(frozen=True)
class WordVectors:
    """Words and their vectors.

    Args:
        words: word -> row.
        values: ``(N, width)``.
    """

    words: dict[str, int]
    values: Tensor

    @property
    def width(self) -> int:
        """Width of a vector."""
        return self.values.shape[1]

    def row(self, word: str) -> int | None:
        """The row of a word as it stands, or else in lower case."""
        return self.words.get(word, self.words.get(word.lower()))

    @torch.no_grad()
    def fill(self, vocabulary: Vocabulary, trained: Tensor, frozen: Tensor) -> None:
        """Copy vectors into the tables of a vocabulary's words; it has of each frozen one."""
        for row, word in enumerate(vocabulary.words):
            if (found := self.row(word)) is not None:
                trained[row] = self.values[found]
        rows = [self.words[word] for word in vocabulary.frozen]
        frozen.copy_(self.values[torch.tensor(rows, dtype=torch.long)])


def look_up(rows: Tensor, trained: nn.Embedding, frozen: Tensor) -> Tensor:
    """Rows ``(...)`` of a trained table and a fixed one behind it -> vectors ``(..., width)``."""
    known = trained.num_embeddings
    vectors: Tensor = trained(rows.clamp(max=known - 1))
    if not len(frozen):
        return vectors
    fixed = frozen[(rows - known).clamp(min=0)].to(vectors)
    return torch.where((rows >= known)[..., None], fixed, vectors)


def read_vectors(path: Path, only: Container[str] | None = None) -> WordVectors:
    """Read ``word value value ...`` lines; the first line decides the width.

    A first line of two numbers is word2vec's header, how many words of which width. A word that
    occurs again is skipped.

    Args:
        path: plain or gzipped.
        only: the words to keep; the numbers of others are counted, but
            not parsed. Default: all.

    Raises:
        UserError: with file and line, if the file cannot be read, is empty or cut off, its header
            is wrong, or a line has another number of values or something that is no finite number.
    """
    words: dict[str, int] = {}
    rows: list[np.ndarray] = []
    header: tuple[int, int] | None = None
    width = count = 0
    for number, line in _lines(path):
        fields = line.split(" ")
        if number == 1 and (header := _header(path, fields)):
            width = header[1]
            continue
        count += 1
        width = width or len(fields) - 1
        if width < 1 or len(fields) <= width:
            raise UserError(
                f"{path}, line {number}: a word and {max(width, 1)} numbers are needed, but there "
                f"are {len(fields) - 1} numbers"
            )
        word = " ".join(fields[:-width])  # some files hold words with spaces
        if len(fields) > width + 1 and _is_number(fields[1]):
            raise UserError(
                f"{path}, line {number}: {len(fields) - 1} numbers, but {width} are needed as in "
                "the lines before"
            )
        if word in words or (only is not None and word not in only):
            continue
        words[word] = len(rows)
        rows.append(_values(path, number, fields[-width:]))
        if not len(rows) % _PROGRESS_EVERY:
            logger.info("read %s word vectors from %s", f"{len(rows):,}", path)
    if header is not None and header[0] != count:
        raise UserError(
            f"{path}, line 1: the header names {header[0]} words, but {count} follow: the file is "
            "cut off, or its header is another file's"
        )
    if not count:
        raise UserError(f"{path} is empty; lines of a word and its numbers are needed")
    values = np.stack(rows) if rows else np.empty((0, width), dtype=np.float32)
    return WordVectors(words, torch.from_numpy(values))


def vector_width(path: Path) -> int:
    """Width of the vectors of a file, from its first line.

    Raises:
        UserError: as for ``read_vectors``.
    """
    for number, line in _lines(path):
        fields = line.split(" ")
        if header := _header(path, fields):
            return header[1]
        if len(fields) < 2:
            raise UserError(f"{path}, line {number}: a word and its numbers are needed")
        return len(fields) - 1
    raise UserError(f"{path} is empty; lines of a word and its numbers are needed")


def _header(path: Path, fields: list[str]) -> tuple[int, int] | None:
    """The number of words and their width, if this first line is word2vec's header."""
    if len(fields) != 2 or not all(map(NUMBER.fullmatch, fields)):
        return None
    count, width = map(int, fields)
    if width < 1:
        raise UserError(f"{path}, line 1: the header names vectors of {width} numbers")
    return count, width


def _values(path: Path, number: int, fields: list[str]) -> np.ndarray:
    """The numbers of a line."""
    try:
        with np.errstate(over="ignore"):
            row = np.array(fields, dtype=np.float32)
    except ValueError:
        wrong = next((field for field in fields if not _is_number(field)), fields[0])
        raise UserError(
            f"{path}, line {number}: {wrong!r} is no number, but a word and {len(fields)} numbers "
            "are needed"
        ) from None
    if not np.isfinite(row).all():
        wrong = fields[int(np.flatnonzero(~np.isfinite(row))[0])]
        raise UserError(f"{path}, line {number}: {wrong!r} is no finite number of 32 bits")
    return row


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Numbered lines without their ends."""
    number = 0
    try:
        with path.open("rb") as file:
            zipped = file.peek(2)[:2] == b"\x1f\x8b"
            for number, line in enumerate(gzip.GzipFile(fileobj=file) if zipped else file, 1):
                if not line.endswith(b"\n"):  # perhaps within a number, where nothing shows it
                    raise UserError(
                        f"{path}, line {number}: no line end, so that the file seems cut off; "
                        "fetch it again, or end the line"
                    )
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.rstrip("\r\n ")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"the word vectors {path} cannot be read: {reason}") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}, line {number}: the word is not UTF-8 text") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class WordTable(nn.Module):
    """The embedding of the sentence experiments (Bi-BloSAN section 4 and its code).

    Words seen in training have vectors that are trained, words that only the vectors' file knows
    have its vectors as they are, and any other word has 0, as padding has.

    Args:
        words: number of trained words.
        width: of a vector.
        frozen: number of words with fixed vectors, which are 0 until they are set or loaded.
    """

    def __init__(self, words: int, width: int, frozen: int = 0) -> None:
        super().__init__()
        self.trained = nn.Embedding(words, width)
        nn.init.uniform_(self.trained.weight, -_BOUND, _BOUND)
        self.frozen: Tensor
        self.register_buffer("frozen", torch.zeros(frozen, width))

    def forward(self, rows: Tensor) -> Tensor:
        """Row numbers of a ``Vocabulary``, of any shape ``(...)`` -> vectors ``(..., width)``."""
        numbers = rows - FIRST_WORD
        vectors = look_up(numbers.clamp(min=0), self.trained, self.frozen)
        return vectors.masked_fill((numbers < 0)[..., None], 0.0)
