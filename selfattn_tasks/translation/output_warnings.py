"""Warnings about translations that look as if their scores were spoiled; it may be intended."""

import codecs
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

# What text that is ready to be scored does not contain, and where it comes from.
_REMAINS = {
    "'<unk>'": ("<unk>|\u2047", "words that the vocabulary lacks"),
    "entities such as '&quot;'": ("&(?:quot|apos|amp|lt|gt|#[0-9]+);", "escaped text"),
    "'##' before a piece": (r"(?:^|\s)##\w", "word pieces that were not joined"),
    "'@-@'": ("(?:^| )@-@(?: |$)", "tokenised text"),
    "'@@' after a piece": ("@@(?: |$)", "pieces that were not joined"),
    "'\u2581'": ("\u2581", "pieces that were not joined"),
}
_FEWEST = 50  # translations for a meaningful correlation of lengths
_LOWEST = 0.3
_SIGNATURE = re.compile(r"nrefs:\w+\|[\w:|.+-]+\|version:[\d.]+")
_MOST_JSON = 1 << 20


def text_warnings(
    name: str, hypotheses: Sequence[str], references: Sequence[str], lowercase: bool
) -> list[str]:
    """Warn about translations of the run ``name`` that look different from the references."""
    warnings = []
    empty = sum(not line.strip() for line in hypotheses)
    if empty > sum(not line.strip() for line in references):
        warnings.append(f"{name}: {empty:,} of {len(hypotheses):,} translations are empty")
    blanks = sum(" " in line.strip() for line in references)
    if blanks > len(references) / 2 and not any(" " in line.strip() for line in hypotheses):
        warnings.append(
            f"{name}: no translation contains a blank, but {blanks:,} of {len(references):,} "
            "references do: generate with either --remove-bpe or --bpe, with a scheme that fits "
            "the data"
        )
    if (spaced := _spaced(hypotheses)) > 0.1 > _spaced(references):
        warnings.append(
            f"{name}: {100 * spaced:.0f} % of the translations end in ' .', as tokenised text "
            "does; sacreBLEU does its own tokenisation"
        )
    if not lowercase and _is_lower(hypotheses) and not _is_lower(references):
        warnings.append(
            f"{name}: no translation has a capital letter, but the references do: restore the case "
            "or give --lowercase"
        )
    for remains, (pattern, origin) in _REMAINS.items():
        held = _count(pattern, hypotheses)
        if held and held > (usual := _count(pattern, references)):
            warnings.append(
                f"{name}: {held:,} of {len(hypotheses):,} translations contain {remains} "
                f"({origin}), but {usual:,} references do"
            )
    return [*warnings, *_order_warnings(name, hypotheses, references)]


def reference_warnings(name: str, references: Sequence[str]) -> list[str]:
    """Warn about references that are not plain text, so that pieces would count as words."""
    return [
        f"{name}: {held:,} of {len(references):,} references contain {remains} ({origin}); they "
        "are scored as they are"
        for remains, (pattern, origin) in _REMAINS.items()
        if (held := _count(pattern, references)) > len(references) / 100
    ]


def mark_warnings(name: str, path: Path) -> list[str]:
    """Warn about a byte order mark at the start of a file."""
    with path.open("rb") as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            return []
    return [f"{name} starts with a byte order mark, which is skipped"]


def signature_warnings(folder: Path, signatures: Sequence[str]) -> list[str]:
    """Warn about scores of other sacreBLEU signatures in the JSON files of a run's folder."""
    recorded = {
        signature
        for file in sorted(folder.glob("*.json"))
        if file.is_file() and file.stat().st_size < _MOST_JSON
        for signature in _SIGNATURE.findall(file.read_text(encoding="utf-8", errors="replace"))
    }
    mine = {_parts(signature) for signature in signatures}
    used = {_kind(signature) for signature in signatures}
    return [
        f"{folder} records scores with the signature {signature}, which is not used here: do not "
        "mix them with these scores"
        for signature in sorted(recorded)
        if _kind(signature) in used and _parts(signature) not in mine
    ]


def _kind(signature: str) -> str:
    """What tells apart the signatures of sacreBLEU's metrics, which may differ between metrics."""
    return next((key for key in ("nc:", "norm:", "smooth:") if f"|{key}" in signature), "")


def _parts(signature: str) -> frozenset[str]:
    # The version alone changes no score of sacreBLEU 2.
    return frozenset(part for part in signature.split("|") if not part.startswith("version:"))


def _count(pattern: str, lines: Sequence[str]) -> int:
    return sum(re.search(pattern, line) is not None for line in lines)


def _order_warnings(name: str, hypotheses: Sequence[str], references: Sequence[str]) -> list[str]:
    """Warn about lines in another order: long sentences should have long translations."""
    if list(hypotheses) == list(references):
        return [f"{name}: the translations are the references themselves"]
    lengths = np.array([[len(line) for line in text] for text in (hypotheses, references)])
    if len(references) >= _FEWEST and lengths.std(axis=1).all():
        together = float(np.corrcoef(lengths)[0, 1])
        if together < _LOWEST:
            return [
                f"{name}: the lengths of the translations do not follow those of the references "
                f"(correlation {together:.2f}): are the lines in the same order, and of this test "
                "set?"
            ]
    return []


def _spaced(lines: Sequence[str]) -> float:
    return sum(line.endswith(" .") for line in lines) / len(lines)


def _is_lower(lines: Sequence[str]) -> bool:
    return all(line == line.lower() for line in lines)
