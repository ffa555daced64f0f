"""Translations as fairseq-generate prints them, in the order of their references."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from selfattn.errors import UserError

from ..text import NUMBER, iter_lines

# The detokenised hypothesis of one sentence: D-NUMBER, score, text.
_HYPOTHESIS = re.compile(rf"D-({NUMBER.pattern})\t\S+\t(.*)")
# The reference of a sentence, likewise.
_TARGET = re.compile(rf"T-({NUMBER.pattern})\t(.*)")
# The marks of SentencePiece and of subword-nmt, and the schemes that remove them.
_SUBWORD_MARKS = ((re.compile("\u2581"), "sentencepiece"), (re.compile("@@(?: |$)"), "subword_nmt"))


def parse_hypothesis(line: str) -> tuple[int, str] | None:
    """Number and text of a sentence if ``line`` is a detokenised hypothesis, else None."""
    match = _HYPOTHESIS.fullmatch(line.rstrip("\n"))
    return (int(match[1]), match[2]) if match else None


def in_corpus_order(
    hypotheses: Iterable[tuple[int, str]], expected: int | None = None
) -> list[str]:
    """Sort hypotheses by their number.

    Args:
        hypotheses: numbers and texts; the first (best) text of a number counts.
        expected: number of sentences in the corpus, if known.

    Raises:
        UserError: if sentences are missing or too many.
    """
    found: dict[int, str] = {}
    for number, text in hypotheses:
        found.setdefault(number, text)
    count = expected if expected is not None else max(found, default=-1) + 1
    missing = next((number for number in range(count) if number not in found), None)
    if missing is not None or not count:
        first = "" if missing is None else f", without number {missing}"
        raise UserError(
            f"the output of fairseq-generate has {len(found)} translations of {count} sentences"
            f"{first}; it must have all of them, so let the command finish"
        )
    if len(found) > count:
        raise UserError(
            f"the output of fairseq-generate has {len(found)} translations, but the corpus has "
            f"{count} sentences; give the corpus that was translated"
        )
    return [found[number] for number in range(count)]


def read_translations(
    path: Path, expected: int | None = None, *, subwords: bool = False
) -> list[str]:
    """Read translations in corpus order, skipping a byte order mark.

    Args:
        path: the output of fairseq-generate, or plain text with one translation per line.
        expected: number of sentences in the corpus, if known.
        subwords: accept subword marks.

    Raises:
        UserError: if the file cannot be read or is empty, sentences are missing or subword marks
            are left.
    """
    lines: list[str] = []
    numbered: list[tuple[int, str]] = []
    # One at a time: the output of fairseq-generate is many times as large as its translations.
    for line in iter_lines(path):
        if found := parse_hypothesis(line):
            numbered.append(found)
        elif not numbered:
            lines.append(line)
    if not lines and not numbered:
        raise UserError(f"{path} is empty, but needs at least one line")
    translations = in_corpus_order(numbered, expected) if numbered else lines
    if expected is not None and len(translations) != expected:
        raise UserError(f"{path} has {len(translations)} translations; it must have {expected}")
    if not subwords:
        check_subwords(path, translations)
    return translations


def check_subwords(path: Path, translations: Sequence[str], references: Sequence[str] = ()) -> None:
    """Refuse translations that contain a subword mark, unless references do too.

    Args:
        path: where the translations come from, for messages.
        translations: one per sentence.
        references: one per sentence.

    Raises:
        UserError: naming the first such translation.
    """
    for mark, scheme in _SUBWORD_MARKS:
        number = next((n for n, line in enumerate(translations, 1) if mark.search(line)), None)
        if number is not None and not any(mark.search(line) for line in references):
            held = mark.findall(translations[number - 1])[0].strip()
            raise UserError(
                f"{path}: translation {number} contains the subword mark {held!r}; "
                f"generate with --remove-bpe {scheme}"
            )


def read_hypotheses(path: Path, gold: Sequence[str], gold_path: Path) -> list[str]:
    """Read the translations of a test set in the order of its references.

    Args:
        path: as for :func:`read_translations`.
        gold: references, one per sentence.
        gold_path: where they come from, for messages.

    Raises:
        UserError: if the translations are of another test set, incomplete, or contain subword
            marks that the references do not.
    """
    try:
        translations = read_translations(path, len(gold), subwords=True)
    except UserError as error:
        # Of many files, which one?
        raise error if str(path) in str(error) else UserError(f"{path}: {error}") from None
    check_subwords(path, translations, gold)
    _check_targets(path, gold, gold_path)
    return translations


def _check_targets(path: Path, references: Sequence[str], references_path: Path) -> None:
    """Refuse an output of fairseq-generate that contains other references."""
    known = same = 0
    for line in iter_lines(path):
        match = _TARGET.fullmatch(line)
        if match is None or "<unk>" in match[2]:
            continue
        known += 1
        number = int(match[1])
        same += number < len(references) and _bare(references[number]) == _bare(match[2])
    # Not all of them: a vocabulary may have normalised characters.
    if same < known / 2:
        raise UserError(
            f"{path} was generated for other references: of the {known} that it holds, {same} "
            f"are those of {references_path}; give the file that belongs to it"
        )


def _bare(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())
