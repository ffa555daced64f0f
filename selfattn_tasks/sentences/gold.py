"""What is right for the examples of a file, whatever its format and its task."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

from selfattn.errors import UserError

from .formats.columns import Columns
from .formats.labelled_lines import NUMBERED, TREC
from .formats.reading import read
from .formats.source import Reading, Source
from .formats.trees import parse_tree
from .metrics import Answer, answers_of
from .predictions import Prediction
from .predictions import read as read_predictions
from .record import Kind, Target

# A file with scores and classes, as SICK, is one of scores.
_KINDS = (Kind.SELECTION, Kind.RELATEDNESS, Kind.NLI, Kind.CLASSIFICATION)
# Row i is the prediction for example i: one without a label stays in its place.
_ALL = Reading(labelled=False)
# A score beyond this is a mistake, and would leave others too few digits.
_FARTHEST = 10_000
# A line of semantic roles begins with a digit, too.
_ROLES = "|||"


class SeveralPartsError(UserError):
    """A file holds the training examples beside those of a test."""


def read_gold(path: Path, kind: Kind | None = None, reading: Reading = _ALL) -> list[Answer]:
    """The targets of a file, None where it has no label.

    Args:
        path: any file that ``prepare sentences`` reads, or a part of the folder that it writes.
        kind: of the task; None: what the file holds.
        reading: what to make of trees, of a table with several labels, and so on.

    Raises:
        SeveralPartsError: if it holds several parts of a corpus.
        UserError: if the file cannot be read, or holds no target at all.
    """
    kinds = kinds_of(path, reading.label_column is None) if kind is None else [kind]
    if not kinds:
        raise UserError(
            f"{path} holds no sentences with labels, scores or answers in a format that "
            "`selfattn prepare sentences` reads"
        )
    wrong: list[UserError] = []
    for tried in kinds:
        try:
            corpus = read(path, tried, reading)
        except UserError as error:
            wrong.append(error)
            continue
        if reading.part is None and len(corpus.parts) > 1:
            raise SeveralPartsError(
                f"{path} holds the parts {', '.join(corpus.parts)}, some of which a model has "
                "seen: give one part of the folder that `selfattn prepare sentences` wrote, such "
                "as test.jsonl, or `score --part test`"
            )
        found = [example.target for example in corpus.examples]
        if any(target is not None for target in found):
            return answers_of(found)
        wrong.append(UserError(f"{path} has no label, so nothing can be scored"))
    raise wrong[0]


def kinds_of(path: Path, labelled: bool = True) -> list[Kind]:
    """The tasks of which a file may be by its first line, the likeliest first.

    Args:
        path: the file.
        labelled: its labels must have one of the usual names.
    """
    first = Source(path).first
    if first.lstrip().startswith("{"):
        return _kinds_of_row(first, labelled)
    if "\t" in first:
        header = first.split("\t")
        kinds = [kind for kind in _KINDS if not Columns(kind, header).fault(labelled)]
        if kinds or len(header) > 2:  # more columns are words and roles
            return kinds
    return [Kind.CLASSIFICATION] if _has_one_label(first) else []


def _has_one_label(line: str) -> bool:
    """Whether a line is a tree, or a label with a text behind it."""
    if line.startswith("("):
        try:
            words, nodes = parse_tree(line)
        except UserError:
            return False
        return len(words) <= len(nodes)  # or it is a text in brackets
    return _ROLES not in line and any(form.fullmatch(line) for form in (TREC, NUMBERED))


def _kinds_of_row(line: str, labelled: bool) -> list[Kind]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return []
    if not isinstance(row, dict):
        return []
    if row.keys() != {"sentences", "target"}:
        return [kind for kind in _KINDS if not Columns(kind, row).fault(labelled)]
    count = len(row["sentences"]) if isinstance(row["sentences"], list) else 0
    return [k for k in _KINDS if k.accepts(count) and isinstance(row["target"], k.type)]


def read_outputs(path: Path, gold: Sequence[Answer], gold_path: Path) -> list[Answer]:
    """Predictions as answers of the gold file's kind.

    Raises:
        UserError: if there is another number of them, or they are of another kind.
    """
    rows = read_predictions(path)
    if len(rows) != len(gold):
        raise UserError(
            f"{path} has {len(rows):,} predictions, but {gold_path} {len(gold):,} examples; row i "
            "must be the prediction for example i"
        )
    known = next(answer.value for answer in gold if answer.value is not None)
    if isinstance(known, str):
        _check_labels(path, [str(row.prediction).strip() for row in rows], gold, gold_path)
    found = [_value(path, i, row, known) for i, row in enumerate(rows, start=2)]
    # Ranks among the examples that count.
    counted = [
        None if answer.value is None else value for answer, value in zip(gold, found, strict=True)
    ]
    return answers_of(counted)


def _check_labels(path: Path, labels: list[str], gold: Sequence[Answer], gold_path: Path) -> None:
    """Refuse numbers alone where all classes are words, and the other way round."""
    classes = [str(answer.value) for answer in gold if answer.value is not None]
    number = re.compile(r"-?\d+(\.\d+)?")
    kinds = {number.fullmatch(label) is None for label in labels}
    if kinds.isdisjoint(number.fullmatch(name) is None for name in classes):
        raise UserError(
            f"{path} predicts {labels[0]!r}, but {gold_path} has classes such as {classes[0]!r}: "
            "the predictions are of another task, or of other labels"
        )


def _value(path: Path, line: int, row: Prediction, like: Target) -> Target:
    """A prediction of the type of a gold answer."""
    if isinstance(like, str):
        return str(row.prediction).strip()
    score = isinstance(like, float)
    try:
        value = float(row.prediction) if score else int(row.prediction)
    except ValueError:
        value = float("nan")
    if not abs(value) <= _FARTHEST:
        what = f"a score from -{_FARTHEST} to {_FARTHEST}" if score else "a candidate's index"
        raise UserError(f"{path}, line {line}: {row.prediction!r}, but must be {what}")
    return value
