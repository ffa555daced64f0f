"""The first step: pairs of sentences out of the archives, cleaned, one line each."""

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks.progress import Progress, Show
from selfattn_tasks.text import Cleaning, clean_line, first_fault

from .archive import line_pairs, member_lines
from .sgm import segment_pairs
from .sources import PARTS, Corpus, Sources

LANGUAGES = ("en", "de")
REFERENCE = "reference.de"


def write_text(
    folder: Path,
    sources: Sources,
    archives: Mapping[str, Path],
    max_words: int,
    max_ratio: float | None,
    any_data: bool,
    show: Show,
) -> dict[str, Any]:
    """Write ``PART.en`` and ``PART.de``, and ``reference.de``: the test set as it was published.

    Returns:
        By part and corpus, the pairs ``read``, ``kept`` and left out for each reason.

    Raises:
        UserError: if a file is missing or damaged, two files do not fit each other, a corpus has
            another number of pairs than it must, or a pair of the valid or test set is bad.
    """
    cleaning = Cleaning(
        max_length=max_words, max_ratio=sys.float_info.max if max_ratio is None else max_ratio
    )
    counts: dict[str, Any] = {}
    for part in PARTS:
        counts[part] = {"read": 0, "kept": 0}
        with (
            (folder / f"{part}.en").open("w", encoding="utf-8", newline="\n") as source,
            (folder / f"{part}.de").open("w", encoding="utf-8", newline="\n") as target,
        ):
            for corpus in sources.corpora:
                if corpus.part != part:
                    continue
                found: Counter[str] = Counter(read=0, kept=0)
                for left, right in _clean(corpus, archives[corpus.archive], cleaning, found, show):
                    source.write(left + "\n")
                    target.write(right + "\n")
                _check_count(corpus, found["read"], any_data)
                show(f"text: {corpus.name}: " + ", ".join(f"{n:,} {k}" for k, n in found.items()))
                counts[part][corpus.name] = dict(found)
                for name in ("read", "kept"):
                    counts[part][name] += found[name]
        if not counts[part]["kept"]:
            raise UserError(f"no pair is left for {part}, but one or more are needed")
    _write_reference(folder / REFERENCE, sources, archives)
    return counts


def _pairs(corpus: Corpus, archive: Path) -> Iterator[tuple[bytes, bytes]]:
    if not corpus.source.endswith(".sgm"):
        yield from line_pairs(archive, corpus.source, corpus.target)
        return
    files = [(name, member_lines(archive, name)) for name in (corpus.source, corpus.target)]
    for source, target in segment_pairs(*files):
        yield source.encode(), target.encode()


def _clean(
    corpus: Corpus, archive: Path, cleaning: Cleaning, found: Counter[str], show: Show
) -> Iterator[tuple[str, str]]:
    """The good pairs; ``found`` counts all of them by what became of them."""
    training = corpus.part == "train"
    progress = Progress(show, f"text: {corpus.name}", corpus.pairs, "pairs")
    for number, (left, right) in enumerate(_pairs(corpus, archive), start=1):
        found["read"] += 1
        progress.to(number)
        try:
            pair = clean_line(left.decode("utf-8")), clean_line(right.decode("utf-8"))
            fault = first_fault(pair, cleaning, training=training)
        except UnicodeDecodeError:
            fault = "not UTF-8", 0, "the pair is not UTF-8"
        if fault is None:
            found["kept"] += 1
            yield pair
        elif training:
            found[fault[0]] += 1
        else:
            raise UserError(
                f"{corpus.name}, pair {number}: {fault[2]}, which {corpus.part} data must not have"
            )


def _check_count(corpus: Corpus, pairs: int, any_data: bool) -> None:
    if corpus.pairs is not None and pairs != corpus.pairs and not any_data:
        raise UserError(
            f"{corpus.name} has {pairs:,} pairs, but {corpus.pairs:,} are known: it is not "
            "complete or another version; --any-data with --archives accepts it"
        )


def _write_reference(path: Path, sources: Sources, archives: Mapping[str, Path]) -> None:
    """The target side of the test set with nothing changed but white space."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for corpus in sources.corpora:
            if corpus.part == "test":
                for _, target in _pairs(corpus, archives[corpus.archive]):
                    file.write(" ".join(target.decode("utf-8").split()) + "\n")
