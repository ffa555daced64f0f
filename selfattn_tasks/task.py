"""What runs, comparisons and commands need to know about a task, in one place."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from selfattn.errors import UserError

from .metric import Metric, Scale


@dataclass(frozen=True)
class Scores:
    """Figures by name, what makes them comparable, and what is odd about them.

    Figures are not rounded, so that means and deviations of runs are exact.
    """

    figures: dict[str, float]
    signatures: dict[str, str]
    warnings: tuple[str, ...] = ()


class Folds(Protocol):
    """A corpus without a test set, cut into parts, each of which is held out once.

    Attributes:
        count: of the parts.
        seed: of the shuffle that dealt the examples out.
    """

    count: int
    seed: int

    def flags(self, fold: int) -> tuple[str, ...]:
        """Flags of fairseq-train that name the part held out, from 0 on."""

    def write_part(self, fold: int, path: Path) -> None:
        """Write the part held out as a gold file, which the predictor reads as well."""

    def join(self, outputs: Sequence[Path], path: Path) -> None:
        """Write the outputs of all parts as one, in the order of the corpus.

        Raises:
            UserError: if one is not complete.
        """


class Task(ABC):
    """A task: a subclass in the task's own ``task.py``, listed in ``selfattn_tasks.registry``.

    A run trains a system with fairseq-train. Then fairseq-generate, or a command of this project
    (``predictor``), applies it to each test set, and ``score`` scores the output.

    Attributes:
        name: what grid files, ``--task`` and records call it.
        gold_holds: what its gold files hold, in the plural, for messages.
        metrics: names of all metrics in the order of tables. The first is the primary one, unless
            the user names another.
        metric: their class, where case and tokenizer do not matter to them.
        packages: whose versions a report gives, beside those of NumPy and SciPy.
        valid_metrics: scores of a validation, by their names in fairseq's log; value: in pictures.
        prepare: the command that makes its data.
        data_mark: a pattern of a file that its data has.
        data_notes: files in its data that do not affect training: where the rest comes from.
        gold_key: the key of a grid file for the references or gold files of the test sets.
        flags_key: the key of a grid file for the flags of the command that applies a checkpoint.
        ignores_case: whether its scores can ignore case; if so, a grid file may hold
            ``lowercase``.
        train_flags: flags of fairseq-train that every system of the task has.
        predictor: the command of this project that applies a checkpoint; None: fairseq-generate.
            It takes a checkpoint, ``--input``, ``--output`` and ``--device``.
        predict_flags: flags of that command that every run has.
        input_flags: flags of that command that name its input; a grid file must not give them.
        output: suffix of the file that the command writes to a run's folder.
        hypotheses: suffix of the file that ``score`` leaves there for comparisons.
    """

    name: str
    gold_holds: str
    metrics: tuple[str, ...]
    metric: type[Metric]
    packages: tuple[str, ...] = ()
    valid_metrics: Mapping[str, str] = {}
    prepare: str
    data_mark: str = "dict.*.txt"
    data_notes: tuple[str, ...] = ()
    gold_key: str = "gold"
    flags_key: str = "predict"
    ignores_case: bool = False
    train_flags: tuple[str, ...] = ()
    predictor: str | None = None
    predict_flags: tuple[str, ...] = ()
    input_flags: tuple[str, ...] = ("--input",)
    output: str = "predicted"
    hypotheses: str

    @property
    def curves(self) -> dict[str, tuple[str, int]]:
        """Of ``valid_metrics`` by name, what pictures call a score, and its digits there."""
        shown = self.valid_metrics.items()
        return {name: (label, min(self.scale(label).digits, 3)) for name, label in shown}

    @property
    def grid_keys(self) -> tuple[str, ...]:
        """The keys of a grid file that belong to the task."""
        return (self.flags_key, self.gold_key, *(["lowercase"] if self.ignores_case else []))

    def recognise(self, path: Path) -> list[Any] | None:
        """The gold sentences of a file that clearly belongs to this task, else None.

        By default those of every file that :meth:`read_gold` accepts.

        Raises:
            UserError: if the file cannot be read and no other task is left to ask.
        """
        try:
            return self.read_gold(path)
        except UserError:
            return None

    @abstractmethod
    def read_gold(self, path: Path) -> list[Any]:
        """The references, or the gold sentences, of a test set.

        Raises:
            UserError: if the file cannot be read.
        """

    def count(self, gold: Sequence[Any]) -> int:
        """How many of these sentences are scored."""
        return len(gold)

    @abstractmethod
    def read_outputs(self, path: Path, gold: Sequence[Any], gold_path: Path) -> list[Any]:
        """A system's output for a test set, one item per sentence.

        Args:
            path: the output.
            gold: the gold sentences.
            gold_path: where they come from, for messages.

        Raises:
            UserError: if the output belongs to another test set or is incomplete.
        """

    def make_metrics(
        self, names: Sequence[str], *, lowercase: bool, tokenize: str
    ) -> Sequence[Metric]:
        """Make metrics by name, of the class ``metric`` unless they depend on the text.

        Args:
            names: some of ``metrics``.
            lowercase: ignore case, if the outputs are text.
            tokenize: the tokenizer, if the outputs are text.

        Raises:
            UserError: if a package is missing.
        """
        return [self.metric(name) for name in names]

    @abstractmethod
    def score(self, output: Path, gold: Path, hypotheses: Path, lowercase: bool) -> Scores:
        """Score a run on a test set, and leave its hypotheses in a file of their own.

        Args:
            output: what the run's command wrote.
            gold: the references or gold file.
            hypotheses: the file to write or rename; it appears complete or not at all.
            lowercase: ignore case.

        Raises:
            UserError: as for ``read_outputs``, or if a package is missing.
        """

    def metrics_of(self, gold: Sequence[Any]) -> tuple[str, ...]:
        """Those of ``metrics`` that such a gold file has, the primary one first."""
        return self.metrics

    def scale(self, metric: str) -> Scale:
        """How the scores of a metric are written."""
        return Scale()

    def gold_fault(self, path: Path, data: Path) -> str:
        """Why no model trained on ``data`` can be right for a gold file; empty if one can.

        Args:
            path: the references or gold file.
            data: the folder to train on.
        """
        return ""

    def usual_gold(self, data: Path, common: Mapping[str, Sequence[str]]) -> Path | None:
        """The gold file that ``prepare`` left with the data, if there is one.

        Args:
            data: the folder that fairseq-train reads.
            common: flags of fairseq-train that all systems have, by name.
        """
        return None

    def folds(self, data: Path) -> Folds | None:
        """The parts that runs on this data hold out in turn; None if it has a test set."""
        return None

    def protocol(self, data: Path) -> str:
        """How checkpoints are chosen there, which a record says; empty if there is one way only.

        Scores of different protocols are never compared.
        """
        return ""

    def gold_warnings(self, name: str, path: Path, gold: Sequence[Any]) -> list[str]:
        """Warnings about a gold file.

        Args:
            name: what to call it.
            path: the file.
            gold: what it holds.
        """
        return []

    def output_warnings(
        self, name: str, path: Path, output: Sequence[Any], gold: Sequence[Any], lowercase: bool
    ) -> list[str]:
        """Warnings about a run's output.

        Args:
            name: the run.
            path: the output.
            output: what it holds.
            gold: the gold sentences.
            lowercase: case is ignored.
        """
        return []

    def folder_warnings(self, folder: Path, signatures: Sequence[str]) -> list[str]:
        """Warnings about what else a run's folder holds.

        Args:
            folder: the run's folder.
            signatures: those of the scores that are computed now.
        """
        return []
