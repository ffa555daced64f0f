"""The file of predictions: a header, then one row per example, in the order of the input."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from selfattn.errors import UserError

from ..files import write_lines
from ..text import iter_lines
from .record import SCORES, Kind

PREDICTION, PROBABILITIES = "prediction", "probabilities"
DIGITS = 6


class Prediction(NamedTuple):
    """What a model says of an example.

    Args:
        prediction: a class, a score or the index of a candidate; as read from a file, its text.
        probabilities: of the classes in their order, of the scores 1 to 5, or of the candidates;
            empty where a file has none.
    """

    prediction: str | float | int
    probabilities: tuple[float, ...] = ()


def write(path: Path, predictions: Sequence[Prediction], meta: Mapping[str, Any]) -> None:
    """Write predictions as tab-separated columns.

    Args:
        path: the file.
        predictions: one per example, in order.
        meta: ``kind`` and ``labels`` of the prepared folder.
    """
    target = Kind(meta["kind"]).target
    labels = meta["labels"] if target == "class" else SCORES
    if target == "index":  # each question has its own number of candidates
        lines = [f"{PREDICTION}\t{PROBABILITIES}"]
        lines += [f"{p.prediction}\t{' '.join(_numbers(p.probabilities))}" for p in predictions]
    else:
        lines = ["\t".join([PREDICTION, *(f"p({label})" for label in labels)])]
        for prediction, probabilities in predictions:
            shown = _numbers([prediction])[0] if isinstance(prediction, float) else str(prediction)
            lines.append("\t".join([shown, *_numbers(probabilities)]))
    write_lines(path, lines)


def _numbers(values: Sequence[float]) -> list[str]:
    return [f"{value:.{DIGITS}f}" for value in values]


def read(path: Path) -> list[Prediction]:
    """Read a file of predictions; columns with other names than `write` gives are left out.

    Raises:
        UserError: with file and line, if a row does not fit the header, or there is none.
    """
    lines = iter_lines(path)
    header = next(lines, "").split("\t")
    if PREDICTION not in header:
        raise UserError(
            f"{path} has no column {PREDICTION!r} in its first line; give a file that "
            "`selfattn predict sentences` wrote"
        )
    place = header.index(PREDICTION)
    single = [i for i, name in enumerate(header) if name.startswith("p(") and name.endswith(")")]
    several = header.index(PROBABILITIES) if PROBABILITIES in header else None
    found = []
    for number, line in enumerate(lines, start=2):
        cells = line.split("\t")
        if len(cells) != len(header):
            raise UserError(
                f"{path}, line {number}: {len(cells)} columns, but the header has {len(header)}"
            )
        texts = [cells[i] for i in single] if several is None else cells[several].split()
        try:
            found.append(Prediction(cells[place], tuple(map(float, texts))))
        except ValueError:
            raise UserError(
                f"{path}, line {number}: a probability is no number: {' '.join(texts)!r}"
            ) from None
    return found


def join(parts: Sequence[Path], order: Sequence[Sequence[int]], path: Path) -> None:
    """Write the rows of several files as one.

    Args:
        parts: files of predictions with one header.
        order: of each part, where its rows belong, counted from 0.
        path: the file.

    Raises:
        UserError: if a part has another number of rows or another header.
    """
    rows: dict[int, str] = {}
    headers = {}
    for part, places in zip(parts, order, strict=True):
        header, *lines = [*iter_lines(part)] or [""]
        headers[header] = part
        if len(lines) != len(places):
            raise UserError(f"{part} has {len(lines)} rows, but must have {len(places)}")
        rows.update(zip(places, lines, strict=True))
    if len(headers) > 1:
        first, second, *_ = headers.values()
        raise UserError(f"{first} and {second} have different headers, so they are not one corpus")
    write_lines(path, [*headers, *(rows[place] for place in sorted(rows))])
