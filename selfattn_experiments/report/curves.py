"""Learning curves: what fairseq-train logs (--log-format json or simple), and pictures of it."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selfattn.errors import UserError

from .figures import check_picture, legend, lines, new_figure, over_updates, save

# 2026-01-31 12:00:00 | INFO | train_inner | ...
_LINE = re.compile(r"\| INFO \| (\S+) \| (.*)$")
# A --log-file has the message alone; what kind it is follows from its form.
_BARE = (
    (re.compile(r'\{"epoch": \d+, "(\S+?)_loss": '), None),
    (re.compile(r'\{"epoch": \d+, "update": .*"loss": '), "train_inner"),
    (re.compile(r"epoch \d+ \| (\S+) on '"), None),
    (re.compile(r"epoch \d+ \| loss "), "train"),
    (re.compile(r"epoch \d+:\s+\d+ / \d+ loss="), "train_inner"),
)
_INNER_PAIR = re.compile(r"(\w+)=([^\s,]+)")
Points = list[tuple[int, float]]


@dataclass(frozen=True)
class Record:
    """The numbers of one line of a log."""

    # `train_inner` (since the last such line), `train` (an epoch) or the name of a validation set,
    # `valid` unless `--valid-subset` says otherwise.
    kind: str
    update: int  # optimizer steps done so far
    values: dict[str, float]  # loss, bleu, lr and so on, without the prefix `valid_`


@dataclass
class Curves:
    """Points ``(update, value)`` of one run.

    Losses are as they are logged: in bits per token by fairseq's criterions, in nats per word or
    sentence by this project's.
    """

    train_loss: Points = field(default_factory=list)  # over the updates since the point before
    # All numbers of the validations by name: `loss`, `bleu`, `ppl` and so on. Of several sets the
    # first, which chooses the best checkpoint.
    valid: dict[str, Points] = field(default_factory=dict)
    subset: str = ""  # the name of that set

    def add(self, record: Record) -> None:
        """Add the numbers of a record."""
        if record.kind == "train_inner" and "loss" in record.values:
            _add_point(self.train_loss, record, "loss")
        elif record.kind not in ("train", "train_inner"):
            self.subset = self.subset or record.kind  # fairseq validates in the order of the flag
            for name in record.values if record.kind == self.subset else ():
                _add_point(self.valid.setdefault(name, []), record, name)


def _add_point(points: Points, record: Record, name: str) -> None:
    """Add a number of a record.

    A resumed run repeats the updates since its checkpoint: the later lines count.
    """
    while points and points[-1][0] >= record.update:
        points.pop()
    points.append((record.update, record.values[name]))


def parse_line(line: str) -> Record | None:
    """The record in a line of a log, or None if the line holds none."""
    found = _LINE.search(line.rstrip())
    kind, text = found.groups() if found else (_bare_kind(line), line.rstrip())
    if kind is None:
        return None
    pairs = _json_pairs(text) if text.startswith("{") else _simple_pairs(kind, text)
    values = {
        name.removeprefix(f"{kind}_"): number
        for name, value in pairs
        if (number := _number(value)) is not None
    }
    update = values.pop("num_updates", None)
    return None if update is None else Record(kind, int(update), values)


def _bare_kind(message: str) -> str | None:
    """The kind of a message without the name of its logger, or None if it is not a record."""
    for form, kind in _BARE:
        if found := form.match(message):
            return kind or found[1]
    return None


def _json_pairs(text: str) -> list[tuple[str, object]]:
    try:
        return list(json.loads(text).items())
    except json.JSONDecodeError:  # the last line of a killed run
        return []


def _simple_pairs(kind: str, text: str) -> list[tuple[str, object]]:
    if kind == "train_inner":
        return list(_INNER_PAIR.findall(text))
    fields = [part.strip().split(" ") for part in text.split("|")]
    return [(part[0], part[1]) for part in fields if len(part) == 2]


def _number(value: object) -> float | None:
    try:
        return float(str(value))
    except ValueError:
        return None


def read_curves(log: Path) -> Curves:
    """The curves of a run, from the output of fairseq-train or its ``--log-file``.

    Raises:
        UserError: if there is no such file or it holds no training log.
    """
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        folds = sorted(log.parent.glob(f"fold*/{log.name}"))
        hint = f"; its folds have one each, such as {folds[0]}" if folds else ""
        raise UserError(f"there is no log {log}{hint}") from None
    except OSError as error:
        raise UserError(f"the log {log} cannot be read: {error.strerror}") from None
    curves = Curves()
    for line in text.splitlines():
        if record := parse_line(line):
            curves.add(record)
    if not (curves.train_loss or curves.valid):
        raise UserError(
            f"{log} is no training log: allowed is the output of fairseq-train with "
            "--log-format json or simple"
        )
    return curves


def plot(runs: Mapping[str, Curves], output: Path, title: str = "") -> None:
    """Draw training and validation loss over updates, and each validation score that a task has.

    The ending of the output chooses the format.

    Raises:
        UserError: if the ending is another, or matplotlib is not installed.
    """
    from selfattn_tasks.registry import TASKS  # torch comes with it, and readers of logs need none

    check_picture("--output", output)
    scores = {
        name: shown
        for task in TASKS.values()
        for name, shown in task.curves.items()
        if any(name in curves.valid for curves in runs.values())
    }
    figure = new_figure(6.2 + 4.3 * len(scores), 4.2)
    axes = figure.subplots(1, 1 + len(scores), squeeze=False)[0]
    _draw_loss(axes[0], runs)
    for panel, (name, (label, digits)) in zip(axes[1:], scores.items(), strict=True):
        _draw_score(panel, runs, name, label, digits)
    for panel in axes:
        panel.set_xlim(left=0)
        over_updates(panel)
    if title:
        figure.suptitle(title, parse_math=False)
    save(figure, output)


def _draw_loss(panel: Any, runs: Mapping[str, Curves]) -> None:
    alone = len(runs) == 1
    for style, (name, curves) in zip(lines(len(runs)), runs.items(), strict=True):
        validation = curves.valid.get("loss")
        if curves.train_loss:
            label = "training" if alone else "" if validation else name
            line = len(curves.train_loss) > 1  # a point alone is none, and needs its mark
            style_of_training = style | {"marker": ""} if line else style
            panel.plot(
                *zip(*curves.train_loss, strict=True),
                **style_of_training, linewidth=1, alpha=0.5, label=label,
            )  # fmt: skip
        _draw_validation(panel, validation, style, "validation" if alone else name)
    panel.set_ylabel("loss")
    thin = not alone and any(curves.train_loss for curves in runs.values())
    panel.set_title("loss (thin lines: training)" if thin else "loss", fontsize=11)
    legend(panel)


def _draw_score(
    panel: Any, runs: Mapping[str, Curves], score: str, label: str, digits: int
) -> None:
    for style, (name, curves) in zip(lines(len(runs)), runs.items(), strict=True):
        if points := curves.valid.get(score):
            # Written beside the points, the numbers of runs that end alike would overlap.
            end = f"{points[-1][1]:.{digits}f} at the end"
            _draw_validation(panel, points, style, f"{name}: {end}")
    panel.set_ylabel(label)
    # A correlation may be negative at first.
    panel.set_ylim(bottom=min(0, panel.get_ylim()[0]))
    panel.set_title(f"{label} of the validation set", fontsize=11)
    legend(panel)


def _draw_validation(
    panel: Any, points: Points | None, style: Mapping[str, str], label: str
) -> None:
    if points:
        panel.plot(*zip(*points, strict=True), label=label, linewidth=1.8, markersize=3.5, **style)
