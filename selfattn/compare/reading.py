"""Read hypotheses and references, and refuse what cannot be compared."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..corpus.text import read_lines
from ..errors import UserError
from ..report.translations import read_translations
from ..srl import conll
from ..srl.propositions import Sentence
from ..srl.scorer import check_same_sentences
from .cells import share

TASKS = ("auto", "translation", "srl")
# The reference of a sentence as fairseq-generate prints it.
_TARGET = re.compile(r"T-(\d+)\t(.*)")
_SIGNATURE = re.compile(r"nrefs:\w+\|[\w:|.+-]+\|version:[\d.]+")
_MOST_JSON = 1 << 20


def read_gold(path: Path, task: str) -> tuple[str, list[Any]]:
    """The task and the references or gold sentences.

    Args:
        path: the file.
        task: one of TASKS; ``auto`` looks whether the file holds propositions.

    Raises:
        UserError: if it cannot be read.
    """
    if task != "translation":
        try:
            gold = conll.read(path, lenient=True)
            if task == "srl" or any(sentence.propositions for sentence in gold):
                return "srl", gold
        except UserError:
            if task == "srl":
                raise
    return "translation", read_translations(path)


def read_hypotheses(path: Path, task: str, gold: Sequence[Any], gold_path: Path) -> list[Any]:
    """The translations or propositions of a run, one for each sentence of the test set.

    Raises:
        UserError: if it belongs to another test set, is not complete, or holds subword marks.
    """
    if task == "srl":
        predicted: list[Sentence] = conll.read(path, lenient=True)
        check_same_sentences(gold, predicted, (gold_path, path))
        return predicted
    try:
        translations = read_translations(path, len(gold))
    except UserError as error:
        # Of many files, which one?
        raise error if str(path) in str(error) else UserError(f"{path}: {error}") from None
    _check_targets(path, gold, gold_path)
    return translations


def _check_targets(path: Path, references: Sequence[str], references_path: Path) -> None:
    """Refuse an output of fairseq-generate whose own references are other ones."""
    targets = [found for line in read_lines(path) if (found := _TARGET.fullmatch(line))]
    known = [(int(found[1]), found[2]) for found in targets if "<unk>" not in found[2]]
    if not known:
        return
    same = sum(_bare(references[n]) == _bare(text) for n, text in known if n < len(references))
    # Not all: a vocabulary may have normalised characters.
    if same < len(known) / 2:
        raise UserError(
            f"{path} was generated for other references: of the {len(known)} that it holds, {same} "
            f"are those of {references_path}; give the file that belongs to it"
        )


def _bare(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def check_distinct(system: str, outputs: Sequence[tuple[Path, Any]]) -> None:
    """Refuse a system of which two runs have one output: they are no two observations.

    Raises:
        UserError: naming both files.
    """
    seen: dict[Any, Path] = {}
    for path, output in outputs:
        key = tuple(output)
        if key in seen:
            raise UserError(
                f"{system}: {seen[key]} and {path} hold the same output, so they are one run "
                "(fairseq uses seed 1 when no --seed is given); leave one out"
            )
        seen[key] = path


def text_warnings(
    name: str, hypotheses: Sequence[str], references: Sequence[str], lowercase: bool
) -> list[str]:
    """What in the look of translations spoils their scores."""
    warnings = []
    empty = sum(not line.strip() for line in hypotheses)
    if empty > sum(not line.strip() for line in references):
        warnings.append(f"{name}: {empty:,} of {len(hypotheses):,} translations are empty")
    blanks = sum(" " in line.strip() for line in references)
    if blanks > len(references) / 2 and not any(" " in line.strip() for line in hypotheses):
        warnings.append(
            f"{name}: no translation holds a blank, but {blanks:,} of {len(references):,} "
            "references do: generate with one of --remove-bpe and --bpe, and one that fits the data"
        )
    if (spaced := _spaced(hypotheses)) > 0.1 > _spaced(references):
        warnings.append(
            f"{name}: {share(spaced)} of the translations end in ' .', as tokenised text does; "
            "sacreBLEU tokenises by itself"
        )
    if not lowercase and _is_lower(hypotheses) and not _is_lower(references):
        warnings.append(
            f"{name}: no translation has a capital letter, but the references do: restore the case "
            "or give --lowercase"
        )
    return warnings


def _spaced(lines: Sequence[str]) -> float:
    return sum(line.endswith(" .") for line in lines) / len(lines)


def _is_lower(lines: Sequence[str]) -> bool:
    return all(line == line.lower() for line in lines)


def signature_warnings(folder: Path, ours: Sequence[str]) -> list[str]:
    """Warnings for scores of another sacreBLEU signature in the JSON files of a run's folder."""
    recorded = {
        signature
        for file in sorted(folder.glob("*.json"))
        if file.is_file() and file.stat().st_size < _MOST_JSON
        for signature in _SIGNATURE.findall(file.read_text(encoding="utf-8", errors="replace"))
    }
    mine = {_parts(signature) for signature in ours}
    used = {_kind(signature) for signature in ours}
    return [
        f"{folder} records scores with the signature {signature}, which is none of those used "
        "here: do not mix them with these"
        for signature in sorted(recorded)
        if _kind(signature) in used and _parts(signature) not in mine
    ]


def _kind(signature: str) -> str:
    """What tells the signatures of sacreBLEU's metrics apart; one of another metric is no clash."""
    return next((key for key in ("nc:", "norm:", "smooth:") if f"|{key}" in signature), "")


def _parts(signature: str) -> frozenset[str]:
    # The version alone changes no score of sacreBLEU 2.
    return frozenset(part for part in signature.split("|") if not part.startswith("version:"))
