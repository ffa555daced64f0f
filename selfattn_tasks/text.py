"""Reading and cleaning parallel text, one sentence per line."""

from __future__ import annotations

import codecs
import gzip
import io
import logging
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from selfattn.errors import UserError, check_integer

logger = logging.getLogger(__name__)

Pair = tuple[str, str]

# Invisible characters that would make equal sentences differ: zero-width space, soft hyphen,
# byte order mark, marks of writing direction.
INVISIBLE = re.compile("[\u200b\u00ad\ufeff\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069]")
# All of Unicode's category Cc.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
# A count or a position. Python refuses to read thousands of digits; none here has ten.
NUMBER = re.compile("[0-9]{1,9}")


@dataclass(frozen=True)
class Cleaning:
    """What a sentence must look like.

    Args:
        lowercase: lower-case the text.
        max_length: the most words a sentence may have, and the most pieces after SentencePiece.
        max_ratio: how many times longer one side may be than the other, in characters, with 10
            added to both so that one word may become two; infinity means no limit. Not applied to
            valid and test data.
        strict: refuse training data with a bad pair instead of dropping the pair.
    """

    lowercase: bool = False
    max_length: int = 250
    max_ratio: float = 5.0
    strict: bool = False

    def __post_init__(self) -> None:
        check_integer("--max-length", self.max_length)
        if not self.max_ratio >= 1:  # nan is neither below nor above
            raise UserError(f"--max-ratio is {self.max_ratio}, but must be a number of 1 or more")


@dataclass(frozen=True)
class ParallelText:
    """Two files with equally many lines: their paths, and their pairs of lines in order."""

    source: Path
    target: Path
    pairs: list[Pair]


def read_lines(path: Path) -> list[str]:
    """The lines of ``path`` as a list; see :func:`iter_lines`."""
    return list(iter_lines(path))


def iter_lines(path: Path, recode: Callable[[int], None] | None = None) -> Iterator[str]:
    """Read a UTF-8 text file, plain or gzipped, line by line, without newlines.

    A line ends at ``\\n`` or ``\\r\\n`` and nowhere else: not at a lone carriage return, U+0085 or
    U+2028, which occur inside sentences of corpora. A byte order mark is skipped.

    Args:
        path: the file.
        recode: takes the number of each line that is not UTF-8, which is then read as Latin-1.
            Default: such a line is an error.

    Raises:
        UserError: if there is no such file, or it is not UTF-8 text (with the number of the line).
    """
    try:
        with path.open("rb") as file:
            yield from decoded(path, file, recode)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise UserError(f"{path} is a folder, but a text file is needed") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None


def decoded(
    path: Path, file: io.BufferedReader[Any], recode: Callable[[int], None] | None = None
) -> Iterator[str]:
    """Read an open file as :func:`iter_lines` does; ``path`` is its name, for messages.

    Raises:
        UserError: if it is not UTF-8 text, or not a complete gzip file.
    """
    zipped = path.suffix == ".gz" or file.peek(2)[:2] == b"\x1f\x8b"
    try:
        for number, line in enumerate(gzip.GzipFile(fileobj=file) if zipped else file, start=1):
            text = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
            # What follows the last newline is a line only if it holds something.
            if text:
                yield _decode(path, number, text.removesuffix(b"\n"), recode)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UserError(f"{path} is not a complete gzip file") from None


def _decode(path: Path, number: int, line: bytes, recode: Callable[[int], None] | None) -> str:
    line = line.removesuffix(b"\r")
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        if recode is not None and b"\0" not in line:
            recode(number)
            return line.decode("latin-1")
        raise UserError(
            f"{path}, line {number}: byte 0x{line[error.start]:02x} at position {error.start + 1} "
            "is not UTF-8; only UTF-8 text is allowed"
        ) from None
    if "\0" in text:
        raise UserError(
            f"{path}, line {number}: a zero byte, so this is not UTF-8 text (perhaps UTF-16); "
            "only UTF-8 text is allowed"
        )
    return text


def read_pairs(source: Path, target: Path) -> ParallelText:
    """Read two files whose lines are translations of each other.

    Raises:
        UserError: as for :func:`read_lines`, or if the files are empty or differ in line count.
    """
    sources, targets = read_lines(source), read_lines(target)
    if len(sources) != len(targets):
        raise UserError(
            f"{source} has {len(sources)} lines but {target} has {len(targets)}: "
            "line i of one must be the translation of line i of the other"
        )
    if not sources:
        raise UserError(f"{source} and {target} are empty, but need at least one line")
    return ParallelText(source, target, list(zip(sources, targets, strict=True)))


def clean_line(text: str, lowercase: bool = False) -> str:
    """Normalise to Unicode NFC, drop invisible and control characters, squeeze spaces.

    >>> clean_line("  A\\tb\\u200b  C ", lowercase=True)
    'a b c'
    """
    text = CONTROL.sub("", " ".join(INVISIBLE.sub("", text).split()))
    # SentencePiece writes spaces as this character, so it cannot stand for itself.
    text = text.replace("\u2581", "_")
    text = " ".join((text.lower() if lowercase else text).split())
    return unicodedata.normalize("NFC", text)  # last: what it joins may have been apart before


def clean_pairs(
    text: ParallelText, options: Cleaning, *, training: bool
) -> tuple[list[Pair], dict[str, int]]:
    """Clean all pairs: drop bad training pairs, refuse bad valid and test pairs.

    Args:
        text: what was read.
        options: what is bad.
        training: False for valid and test data, where silently dropping a pair would change
            the score.

    Returns:
        the clean pairs, and counts: ``read``, ``kept`` and one for each reason to drop a pair.

    Raises:
        UserError: for a bad pair that is not dropped, with file and line.
    """
    kept: list[Pair] = []
    counts = Counter({"read": len(text.pairs)})
    for number, (source, target) in enumerate(text.pairs, start=1):
        pair = clean_line(source, options.lowercase), clean_line(target, options.lowercase)
        bad = first_fault(pair, options, training=training)
        if bad is None:
            kept.append(pair)
            continue
        reason, side, sentence = bad
        if options.strict or not training:
            path = (text.source, text.target)[side]
            kind = "training" if training else "valid and test"
            raise UserError(f"{path}, line {number}: {sentence}, which {kind} data must not have")
        counts[reason] += 1
    counts["kept"] = len(kept)
    if len(kept) < len(text.pairs):
        reasons = ", ".join(f"{n} {r}" for r, n in counts.items() if r not in ("read", "kept"))
        logger.info(
            "%s: dropped %d of %d pairs (%s)",
            text.source, len(text.pairs) - len(kept), len(text.pairs), reasons,
        )  # fmt: skip
    return kept, dict(counts)


def first_fault(pair: Pair, options: Cleaning, *, training: bool) -> tuple[str, int, str] | None:
    """The first thing that is bad about a pair, or None.

    Args:
        pair: both sides, clean.
        options: what is bad.
        training: False for valid and test data, whose ratio of lengths is not checked.

    Returns:
        a short reason to count, the side (0 source, 1 target) and a sentence.
    """
    for side, text in enumerate(pair):
        if not text:
            return "empty", side, "the line is empty"
        words = text.count(" ") + 1
        if words > options.max_length:
            sentence = f"{words} words are more than --max-length {options.max_length}"
            return "too long", side, sentence
    source, target = (len(text) + 10 for text in pair)
    if training and max(source, target) > options.max_ratio * min(source, target):
        sentence = f"one side is more than --max-ratio {options.max_ratio:g} times the other"
        return "odd ratio", int(target > source), sentence
    return None
