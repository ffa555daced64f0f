"""Read hypotheses and references, and refuse what cannot be compared."""

from __future__ import annotations

import codecs
import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks.srl import conll
from selfattn_tasks.srl.lines import regrouped
from selfattn_tasks.srl.propositions import Sentence
from selfattn_tasks.srl.scorer import check_same_sentences
from selfattn_tasks.text import iter_lines
from selfattn_tasks.translation.outputs import check_subwords, read_translations

TASKS = ("auto", "translation", "srl")
# The reference of a sentence as fairseq-generate prints it.
_TARGET = re.compile(r"T-(\d+)\t(.*)")
_SIGNATURE = re.compile(r"nrefs:\w+\|[\w:|.+-]+\|version:[\d.]+")
_MOST_JSON = 1 << 20
# How much of a file is looked at for roles: some sentence, or a line of them, ends before.
_HEAD = 1 << 20


def read_gold(path: Path, task: str) -> tuple[str, list[Any]]:
    """The task and the references or gold sentences.

    Args:
        path: the file.
        task: one of TASKS; ``auto`` looks whether the file holds propositions.

    Raises:
        UserError: if it cannot be read.
    """
    if task == "srl" or (task == "auto" and _may_hold_roles(path)):
        try:
            gold = conll.read(path, lenient=True)
            if task == "srl" or any(sentence.propositions for sentence in gold):
                return "srl", gold
        except UserError:
            if task == "srl":
                raise
    # Marks in references are the user's choice; then the translations may hold them too.
    return "translation", read_translations(path, subwords=True)


def _may_hold_roles(path: Path) -> bool:
    """False for a large text without any sign of them: to read it as columns takes memory."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return True  # a folder, or what cannot be read and is refused there
    signs = (b"\n\n", b"\n\r\n", b"|||", b"#begin document", b"\x1f\x8b")
    return len(head) < _HEAD or any(sign in head for sign in signs)


def read_hypotheses(path: Path, task: str, gold: Sequence[Any], gold_path: Path) -> list[Any]:
    """The translations or propositions of a run, one for each sentence of the test set.

    Raises:
        UserError: if it belongs to another test set, is not complete, or holds subword marks.
    """
    if task == "srl":
        predicted: list[Sentence] = regrouped(conll.read(path, lenient=True), gold)
        check_same_sentences(gold, predicted, (gold_path, path))
        return predicted
    try:
        translations = read_translations(path, len(gold), subwords=True)
    except UserError as error:
        # Of many files, which one?
        raise error if str(path) in str(error) else UserError(f"{path}: {error}") from None
    check_subwords(path, translations, gold)
    _check_targets(path, gold, gold_path)
    return translations


def _check_targets(path: Path, references: Sequence[str], references_path: Path) -> None:
    """Refuse an output of fairseq-generate whose own references are other ones."""
    known = same = 0
    for line in iter_lines(path):
        match = _TARGET.fullmatch(line)
        if match is None or "<unk>" in match[2]:
            continue
        known += 1
        number = int(match[1])
        same += number < len(references) and _bare(references[number]) == _bare(match[2])
    # Not all: a vocabulary may have normalised characters.
    if same < known / 2:
        raise UserError(
            f"{path} was generated for other references: of the {known} that it holds, {same} "
            f"are those of {references_path}; give the file that belongs to it"
        )


def _bare(text: str) -> str:
    return "".join(unicodedata.normalize("NFKC", text).casefold().split())


def digest_of(sentences: Sequence[Any]) -> str:
    """The SHA-256 of sentences; blanks at the end of a translation, which no score sees, aside."""
    digest = hashlib.sha256()
    for sentence in sentences:
        text = sentence.rstrip() if isinstance(sentence, str) else repr(sentence)
        digest.update(text.encode() + b"\n")
    return digest.hexdigest()


def check_distinct(systems: Mapping[str, Sequence[tuple[Path, str]]]) -> list[str]:
    """Refuse what would count twice: one output as two runs, one file in two compared systems.

    A system compared with itself is no mistake: there all outputs are the same.

    Args:
        systems: name, the baseline first, to the files of its runs and what `digest_of` said.

    Returns:
        Warnings: of a system and the baseline of which some files differ in name alone.

    Raises:
        UserError: naming the files.
    """
    for name, runs in systems.items():
        seen: dict[str, Path] = {}
        for path, digest in runs:
            if digest in seen:
                raise UserError(
                    f"{name}: {seen[digest]} and {path} hold the same output, so they are one run "
                    "(fairseq uses seed 1 when no --seed is given); leave one out"
                )
            seen[digest] = path
    warnings = []
    (baseline, first), *others = systems.items()
    known = {digest: path for path, digest in first}
    for name, runs in others:
        itself = known.keys() == {digest for _, digest in runs}
        for path, digest in runs:
            if digest not in known:
                continue
            if path.samefile(known[digest]):
                if itself:
                    continue
                raise UserError(
                    f"{path} is a run of {baseline} and of {name}: a file belongs to one system; "
                    "give patterns that do not overlap (or one pattern twice, for a system "
                    "against itself)"
                )
            warnings.append(
                f"{baseline}: {known[digest]} and {name}: {path} hold the same output; if that is "
                "one training, the systems are not independent"
            )
    return warnings


def mark_warnings(name: str, path: Path) -> list[str]:
    """A warning for a byte order mark, which would be a part of the first word."""
    with path.open("rb") as file:
        if file.read(len(codecs.BOM_UTF8)) != codecs.BOM_UTF8:
            return []
    return [f"{name} begins with a byte order mark, which is left out"]


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
