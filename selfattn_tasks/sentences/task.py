"""Sentences, pairs and candidates, as ``selfattn_tasks.registry`` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from selfattn.errors import UserError

from ..files import write_lines
from ..task import Scores, Task
from . import gold as files
from . import predictions
from .metrics import NAMES, Answer, SentenceMetric, figures, is_constant, names_of, scale

if TYPE_CHECKING:
    from .folder import Folder


class Sentences(Task):
    """Inference, relatedness, classification and selection; the gold file says which."""

    name = "sentences"
    gold_holds = "labels, scores or answers"
    metrics = NAMES
    valid_metrics: Mapping[str, str] = {"accuracy": "accuracy", "pearson": "Pearson"}
    prepare = "selfattn prepare sentences"
    data_mark = "meta.json"
    data_notes = ("meta.json",)
    train_flags = ("--task", "sentences")
    predictor = "predict sentences"
    input_flags = ("--input", "--sentence", "--tokenized", "--baseline")
    hypotheses = "tsv"

    metric = SentenceMetric
    read_gold = staticmethod(files.read_gold)
    read_outputs = staticmethod(files.read_outputs)
    metrics_of = staticmethod(names_of)
    scale = staticmethod(scale)

    def recognise(self, path: Path) -> list[Answer] | None:
        """See ``Task``; a corpus with its training examples is clearly one of sentences."""
        try:
            return self.read_gold(path)
        except files.SeveralPartsError:
            raise
        except UserError:
            return None

    def count(self, gold: Sequence[Answer]) -> int:
        """Those that have a label."""
        return sum(answer.value is not None for answer in gold)

    def score(self, output: Path, gold: Path, hypotheses: Path, lowercase: bool) -> Scores:
        """Score predictions; their file then gets its final name.

        A correlation that is not defined counts as 0, with a warning.
        """
        wanted = self.read_gold(gold)
        found = self.read_outputs(output, wanted, gold)
        scores = figures(wanted, found)
        warnings = self.output_warnings(hypotheses.name, output, found, wanted, lowercase)
        output.replace(hypotheses)
        return Scores(
            {name: value or 0.0 for name, value in scores.items()},
            {name: SentenceMetric(name).signature for name in scores},
            tuple(warnings),
        )

    def gold_fault(self, path: Path, data: Path) -> str:
        """Labels that the folder does not have, or answers of another task."""
        folder = _folder(data)
        unseen = folder.meta.get("labels not in train", {}).values()
        known = {*folder.labels, *chain.from_iterable(unseen)}
        for answer in self.read_gold(path):
            right = answer.value is None or isinstance(answer.value, folder.kind.type)
            if not right or (isinstance(answer.value, str) and answer.value not in known):
                return (
                    f"{path} has {answer.value!r}, which is no {folder.kind.target} of {data}, a "
                    f"folder of the task {folder.kind}: give a part of it, such as test.jsonl"
                )
        return ""

    def usual_gold(self, data: Path, common: Mapping[str, Sequence[str]]) -> Path | None:
        """The test set of the folder; with folds, all of it."""
        path = data / ("test.jsonl" if self.folds(data) is None else "all.jsonl")
        return path if path.is_file() else None

    def folds(self, data: Path) -> HeldOut | None:
        """The folds of `selfattn prepare sentences --folds`."""
        folder = _folder(data)
        count = folder.fold_count
        return HeldOut(folder, count, int(folder.meta["seed"])) if count else None

    def protocol(self, data: Path) -> str:
        """Whether a validation set chose the checkpoint, or the test set; and the folds."""
        folder = _folder(data)
        folds = f"|folds:{folder.fold_count}" if folder.fold_count else ""
        return f"selection:{folder.selection}{folds}"

    def output_warnings(
        self,
        name: str,
        path: Path,
        output: Sequence[Answer],
        gold: Sequence[Answer],
        lowercase: bool,
    ) -> list[str]:
        """Predictions that are all alike, and classes that the gold file lacks."""
        if is_constant(output):
            score = next(answer.value for answer in output if answer.value is not None)
            return [
                f"{name}: every prediction is {score:g}, so its correlations are not defined, and "
                "count as 0 in tables"
            ]
        classes = {answer.value for answer in gold}
        foreign = sorted(
            {a.value for a in output if isinstance(a.value, str) and a.value not in classes}
        )
        if not foreign:
            return []
        return [f"{name}: predicted, but not in the gold file: {', '.join(foreign[:5])}"]

    def gold_warnings(self, name: str, path: Path, gold: Sequence[Answer]) -> list[str]:
        """Scores that are all alike, and examples that do not count."""
        found = []
        if is_constant(gold):
            found.append(f"{name}: every score is the same, so no correlation is defined")
        if missing := sum(answer.value is None for answer in gold):
            found.append(f"{name}: {missing:,} of {len(gold):,} examples have no label: left out")
        return found


@dataclass
class HeldOut:
    """The folds of a prepared folder, as ``selfattn_tasks.task.Folds`` asks for them."""

    folder: Folder
    count: int
    seed: int

    def flags(self, fold: int) -> tuple[str, ...]:
        """fairseq-train's."""
        return ("--fold", str(fold))

    def write_part(self, fold: int, path: Path) -> None:
        """The examples held out, as lines of a prepared folder."""
        write_lines(path, [example.line() for example in self.folder.examples("test", fold)])

    def join(self, outputs: Sequence[Path], path: Path) -> None:
        """The rows of all parts, each in its place."""
        places = [self.folder.positions("test", fold) for fold in range(self.count)]
        predictions.join(outputs, places, path)


def _folder(data: Path) -> Folder:
    # With torch, which a mistake in a grid file need not wait for in other tasks.
    from .folder import Folder

    return Folder(data)
