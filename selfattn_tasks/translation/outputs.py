"""Translations as fairseq-generate prints them, in the order of their references."""

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from selfattn.errors import UserError

from ..text import NUMBER, iter_lines

# The detokenised hypothesis of one sentence: D-NUMBER, score, text.
_HYPOTHESIS = re.compile(rf"D-({NUMBER.pattern})\t\S+\t(.*)")
# The reference of a sentence, likewise.
_TARGET = re.compile(rf"T-({NUMBER.pattern})\t(.*)")
# The marks of SentencePiece and of subword-nmt, and the schemes that remove them.
_SUBWORD_MARKS = ((re.compile("\u2581"), "sentencepiece"), (re.compile("@@(?: |$)"), "subword_nmt"))


def read_translations(path: Path, expected: int | None = None) -> list[str]:
    """Read translations in corpus order, skipping a byte order mark.

    Args:
        path: the output of fairseq-generate, or plain text with one translation per line.
        expected: number of sentences in the corpus, if known.

    Raises:
        UserError: if the file cannot be read or is empty, or sentences are missing.
    """
    lines, numbered = _read(path)
    translations = _in_corpus_order(path, numbered, expected) if numbered else lines
    if expected is not None and len(translations) != expected:
        raise UserError(f"{path} has {len(translations)} translations; it must have {expected}")
    return translations


def _read(path: Path) -> tuple[list[str], dict[int, str]]:
    """The lines of plain text, and of fairseq-generate's output the translations by number."""
    lines: list[str] = []
    numbered: dict[int, str] = {}
    # One at a time: the output of fairseq-generate is many times as large as its translations.
    for line in iter_lines(path):
        if match := _HYPOTHESIS.fullmatch(line):
            numbered.setdefault(int(match[1]), match[2])  # the first of a number is the best one
        elif not numbered:
            lines.append(line)
    if not lines and not numbered:
        raise UserError(f"{path} is empty, but needs at least one line")
    return lines, numbered


def read_references(path: Path) -> list[str]:
    """Read references, plain text with one per line.

    Raises:
        UserError: as for `read_translations`, or if it is the output of fairseq-generate, in which
            a model's translations would be taken for references.
    """
    lines, numbered = _read(path)
    if numbered:
        raise UserError(
            f"{path} is the output of fairseq-generate, but references are plain text with one "
            "line per sentence"
        )
    return lines


def _in_corpus_order(path: Path, numbered: dict[int, str], expected: int | None) -> list[str]:
    """The translations of the sentences 0, 1 and so on."""
    count = max(numbered) + 1 if expected is None else expected
    missing = next((number for number in range(count) if number not in numbered), None)
    if missing is not None:
        raise UserError(
            f"{path}: the output of fairseq-generate has {len(numbered)} translations of {count} "
            f"sentences, without number {missing}; it must have all of them, so let the command "
            "finish, and leave out --skip-invalid-size-inputs-valid-test, which skips long ones"
        )
    if len(numbered) > count:
        raise UserError(
            f"{path}: the output of fairseq-generate has {len(numbered)} translations, but the "
            f"corpus has {count} sentences; give the corpus that was translated"
        )
    return [numbered[number] for number in range(count)]


def _check_subwords(path: Path, translations: list[str], references: Sequence[str]) -> None:
    """Refuse translations, of the file ``path``, with a subword mark that no reference has."""
    for mark, scheme in _SUBWORD_MARKS:
        number = next((n for n, line in enumerate(translations, 1) if mark.search(line)), None)
        if number is not None and not any(mark.search(line) for line in references):
            held = mark.findall(translations[number - 1])[0].strip()
            raise UserError(
                f"{path}: translation {number} contains the subword mark {held!r}; "
                f"generate with --remove-bpe {scheme}"
            )


def read_hypotheses(path: Path, gold: Sequence[str], gold_path: Path) -> list[str]:
    """Read the translations of a test set in the order of its references, ``gold``.

    Raises:
        UserError: if the translations are of another test set, incomplete, or contain subword
            marks that the references do not.
    """
    translations = read_translations(path, len(gold))
    _check_subwords(path, translations, gold)
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
