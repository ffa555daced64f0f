"""What a task says about itself, once, to runs, comparisons and scripts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .metric import Metric, Scale


@dataclass(frozen=True)
class Scores:
    """Figures by name, what makes them comparable, and what is odd about them."""

    figures: dict[str, float]
    signatures: dict[str, str]
    warnings: tuple[str, ...] = ()


class Folds(Protocol):
    """A corpus without a test set, cut into parts: each training holds one of them out.

    Attributes:
        count: of the parts.
        seed: of the shuffle that dealt the examples out.
    """

    @property
    def count(self) -> int: ...

    @property
    def seed(self) -> int: ...

    def flags(self, fold: int) -> tuple[str, ...]:
        """Flags of fairseq-train that name the part held out, from 0 on."""
        ...

    def write_part(self, fold: int, path: Path) -> None:
        """Write the part held out as a gold file, which the predictor reads as well."""
        ...

    def join(self, outputs: Sequence[Path], path: Path) -> None:
        """Write the outputs of all parts as one, in the order of the corpus.

        Raises:
            UserError: if one is not complete.
        """
        ...


class Task(ABC):
    """A task; its own ``task.py`` has a subclass, which ``selfattn_tasks.registry`` lists.

    In a run, fairseq-train trains a system. Then fairseq-generate, or a command of this project
    (``predictor``), applies it to each test set, and ``score`` scores what that wrote.

    Attributes:
        name: in grid files, ``--task`` and records.
        gold_holds: what its gold files hold, in the plural, for messages.
        metrics: names of all metrics in the order of tables. The first is the primary one, unless
            the user names another.
        packages: whose versions a report gives, beside those of NumPy and SciPy.
        valid_metrics: scores of a validation, by their names in fairseq's log; value: in pictures.
        prepare: the command that makes its data.
        data_mark: a pattern of a file that its data has.
        data_notes: files in its data that decide nothing of a training: where the rest comes from.
        gold_key: the key of a grid file for the references or gold files of the test sets.
        flags_key: the key of a grid file for the flags of what applies a checkpoint.
        ignores_case: whether its scores can: then a grid file may hold ``lowercase``.
        train_flags: flags of fairseq-train that every system of the task has.
        predictor: the command of this project that applies a checkpoint; None: fairseq-generate.
            It takes a checkpoint, ``--input``, ``--output`` and ``--device``.
        predict_flags: flags of that command that every run has.
        input_flags: flags of that command that say what it reads, which a grid file must not give.
        output: ending of the file that the command writes in a run's folder.
        hypotheses: ending of the file that ``score`` leaves there, which comparisons read.
    """

    name: str
    gold_holds: str
    metrics: tuple[str, ...]
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
    def grid_keys(self) -> tuple[str, ...]:
        """The keys of a grid file that belong to the task."""
        return (self.flags_key, self.gold_key, *(["lowercase"] if self.ignores_case else []))

    @abstractmethod
    def recognise(self, path: Path) -> list[Any] | None:
        """The gold sentences of a file that shows that it is of this task; else None.

        Raises:
            UserError: if the file cannot be read, and no other task would be asked.
        """

    @abstractmethod
    def read_gold(self, path: Path) -> list[Any]:
        """The references, or the gold sentences, of a test set.

        Raises:
            UserError: if the file cannot be read.
        """

    @abstractmethod
    def read_outputs(self, path: Path, gold: Sequence[Any], gold_path: Path) -> list[Any]:
        """What a system made of a test set, one item a sentence of it.

        Raises:
            UserError: if it belongs to another test set, or is not complete.
        """

    @abstractmethod
    def make_metrics(
        self, names: Sequence[str], *, lowercase: bool, tokenize: str
    ) -> Sequence[Metric]:
        """Metrics by name.

        Args:
            names: some of ``metrics``.
            lowercase: ignore case, where the task has texts.
            tokenize: the tokenizer of metrics of texts.

        Raises:
            UserError: if a package is missing.
        """

    @abstractmethod
    def score(self, output: Path, gold: Path, hypotheses: Path, lowercase: bool) -> Scores:
        """Score a test set of a run, and leave the hypotheses in a file of their own.

        Args:
            output: what the command of the run wrote.
            gold: the references or gold file.
            hypotheses: the file to write or rename; it appears complete or not at all.
            lowercase: ignore case.

        Raises:
            UserError: as ``read_outputs``, or if a package is missing.
        """

    def metrics_of(self, gold: Sequence[Any]) -> tuple[str, ...]:
        """Those of ``metrics`` that such a gold file has, the primary one first."""
        return self.metrics

    def scale(self, metric: str) -> Scale:
        """How the scores of a metric are written."""
        return Scale()

    def usual_gold(self, data: Path, common: Mapping[str, Sequence[str]]) -> Path | None:
        """The gold file that ``prepare`` left beside the data, if there is one.

        Args:
            data: the folder that fairseq-train reads.
            common: flags of fairseq-train that all systems have, by name.
        """
        return None

    def folds(self, data: Path) -> Folds | None:
        """The parts that trainings on this data hold out in turn; None if it has a test set."""
        return None

    def protocol(self, data: Path) -> str:
        """How checkpoints are chosen there, which a record says; empty if there is one way only.

        Scores of different protocols are never compared.
        """
        return ""

    def gold_warnings(self, name: str, path: Path, gold: Sequence[Any]) -> list[str]:
        """What is odd about a gold file."""
        return []

    def output_warnings(
        self, name: str, path: Path, output: Sequence[Any], gold: Sequence[Any], lowercase: bool
    ) -> list[str]:
        """What is odd about the outputs of a run."""
        return []

    def folder_warnings(self, folder: Path, signatures: Sequence[str]) -> list[str]:
        """What is odd about a run's folder, if the scores have these signatures."""
        return []
