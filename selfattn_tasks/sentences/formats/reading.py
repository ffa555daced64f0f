"""Read the files of sentence tasks; what a file is, its first line says."""

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from selfattn.errors import UserError, shortened

from ..record import HIGHEST, LOWEST, NLI_LABELS, Example, Kind, Target
from .columns import is_table, read_json_lines, read_table
from .labelled_lines import NUMBERED, TREC, read_labelled
from .source import Item, Reading, Source
from .trees import read_trees

logger = logging.getLogger(__name__)

# SNLI and MultiNLI, where the annotators do not agree.
NO_GOLD = "-"


@dataclass(frozen=True)
class Corpus:
    """What a file holds.

    Args:
        examples: in the order of the file.
        form: ``json``, ``table``, ``trees``, ``trec`` or ``numbered``.
        dropped: what was left out, by reason.
        parts: by part, the files that hold rows of it, where rows name their parts.
        recoded: lines that are not UTF-8, and were read as Latin-1.
    """

    examples: list[Example]
    form: str
    dropped: Counter[str]
    parts: dict[str, list[Path]]
    recoded: int


def read(path: Path, kind: Kind, reading: Reading | None = None) -> Corpus:
    """Read a file of any known form, plain or gzipped.

    Args:
        path: SNLI's or MultiNLI's .jsonl or .txt, SICK, TREC's label files, CR, MPQA, MR or SUBJ
            (``1 text``), trees of the Stanford Sentiment Treebank, a table with tabs and a header
            line, JSON lines, or a file of a prepared folder.
        kind: of the task.
        reading: what to make of it.

    Raises:
        UserError: with file and line, for whatever is wrong in it; if it holds no example.
    """
    reading = reading or Reading()
    source = Source(path)
    form, items = _open(source, kind, reading)
    examples: list[Example] = []
    for item in items:
        target = _target(source, item, kind) if reading.targets else None
        if target is None and reading.labelled:
            if str(item.target).strip() != NO_GOLD:
                source.fail(item.number, "no label; a file to learn from needs one on each line")
            source.dropped["without a gold label (-)"] += 1
            continue
        if not kind.accepts(len(item.texts)):
            source.fail(
                item.number, f"{len(item.texts)} texts, but the task {kind} takes {kind.takes}"
            )
        words = (
            reading.tokens(text) if isinstance(text, str) else reading.tokens.of_words(text)
            for text in item.texts
        )
        example = Example(tuple(words), target)
        if kind.target == "index" and target is not None:
            _check_index(source, item.number, example)
        examples.append(example)
    if not examples:
        part = f" of the part {reading.part}" if source.parts else ""
        raise UserError(f"{path} holds no example{part}")
    dropped = +source.dropped
    for reason, count in dropped.items():
        logger.info("%s: left out: %s %s", path, f"{count:,}", reason)
    if source.recoded:
        logger.info(
            "%s: %s lines are not UTF-8 (the first is line %d) and were read as Latin-1",
            path, f"{len(source.recoded):,}", source.recoded[0],
        )  # fmt: skip
    parts = {part: [path] for part in source.parts}
    return Corpus(examples, form, dropped, parts, len(source.recoded))


def _open(source: Source, kind: Kind, reading: Reading) -> tuple[str, Iterator[Item]]:
    """The form of a file, by its first line, and its reader."""
    first, column = source.first, reading.label_column
    if first.lstrip().startswith("{"):
        return "json", read_json_lines(source, kind, reading)
    if kind.shape != "candidates" and is_table(first, kind):
        return "table", read_table(source, kind, reading)
    if kind.shape == "single":
        if TREC.fullmatch(first) and column in (None, "coarse", "fine"):
            return "trec", read_labelled(source, TREC, fine=column == "fine")
        if column is not None:
            raise UserError(
                f"--label-column is {column}, but {source.path} is no table and no JSON lines; of "
                "TREC's label files, coarse or fine"
            )
        if first.startswith("("):
            return "trees", read_trees(source, reading)
        if NUMBERED.fullmatch(first):
            return "numbered", read_labelled(source, NUMBERED)
    raise UserError(
        f"{source.path} begins with {shortened(first, 60)!r}, which is none of the forms of the "
        f"task {kind}: {_FORMS[kind.shape]}"
    )


_FORMS = {
    "single": "a header line with tabs (sentence, label), JSON lines, trees, TREC's DESC:manner, "
    "or a digit and a text",
    "pair": "a header line with tabs (premise, hypothesis and label; sentence_A, sentence_B and "
    "relatedness; or the like) or JSON lines",
    "candidates": 'JSON lines with "question", "sentences" and "answer"',
}


def _target(source: Source, item: Item, kind: Kind) -> Target:
    """What is right, as it is stored; None without a label."""
    value = item.target
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    # NaN, which some programs write into JSON for what is missing, is a float.
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value != value:
        source.fail(item.number, f"the label is {value!r}, but must be a text or a number")
    if kind.target == "class":
        return _class(source, item.number, str(value).strip(), kind)
    wanted: str
    if kind.target == "score":
        wanted = f"a number from {LOWEST:g} to {HIGHEST:g}"
        try:
            score = float(value)
        except (ValueError, OverflowError):
            score = float("nan")
        if LOWEST <= score <= HIGHEST:
            return score
    else:
        wanted = "the position of a candidate, counted from 0"
        if isinstance(value, int):
            return value
    source.fail(item.number, f"the {kind.target} is {value!r}, but must be {wanted}")


def _class(source: Source, number: int, label: str, kind: Kind) -> str | None:
    if not label.isprintable():
        source.fail(number, f"the label is {label!r}, but must be printable")
    if kind is not Kind.NLI:
        return label
    label = label.lower()
    if label == NO_GOLD:
        return None
    if label not in NLI_LABELS:
        source.fail(
            number,
            f"the label is {label!r}, but must be one of {', '.join(NLI_LABELS)}, or "
            f"{NO_GOLD} where annotators disagree (numbers mean other classes in other sources)",
        )
    return label


def _check_index(source: Source, number: int, example: Example) -> None:
    candidates = len(example.sentences) - 1
    if not 0 <= int(example.target or 0) < candidates:
        source.fail(
            number,
            f"the right candidate is number {example.target}, but there are {candidates}, counted "
            "from 0",
        )


def read_all(paths: Sequence[Path], kind: Kind, reading: Reading) -> Corpus:
    """Several files as one.

    Raises:
        UserError: as for ``read``; if they have different forms.
    """
    first, *others = (read(path, kind, reading) for path in paths)
    for path, other in zip(paths[1:], others, strict=True):
        first.examples.extend(other.examples)
        first.dropped.update(other.dropped)
        for part, files in other.parts.items():
            first.parts.setdefault(part, []).extend(files)
        if (first.form == "trees") != (other.form == "trees"):
            raise UserError(f"{paths[0]} and {path} do not go together: one of them has trees")
        first = replace(first, recoded=first.recoded + other.recoded)
    return first
