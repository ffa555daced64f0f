"""The folder that ``prepare sentences`` writes and training reads."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from selfattn.errors import UserError

from ..files import load_json, writing
from ..words.embeddings import WordVectors
from ..words.vocabulary import by_frequency, read_symbols
from . import folds
from .record import Example, Kind, read_examples
from .tokens import Tokens

META, FOLDS, WORDS, VECTORS, ALL = "meta.json", "folds.json", "dict.txt", "vectors.npz", "all.jsonl"
VERSION = 1
_ADVICE = "; give a folder that `selfattn prepare sentences` wrote"


class Folder:
    """A prepared folder.

    Args:
        path: what ``--dest`` of ``prepare sentences`` named.

    Attributes:
        path: the same.
        meta: the content of ``meta.json``.

    Raises:
        UserError: if it is no such folder, or of another version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.meta: dict[str, Any] = load_json(self.path / META, _ADVICE)
        version = self.meta.get("version") if isinstance(self.meta, dict) else None
        if version != VERSION or self.meta.get("kind") not in list(Kind):
            raise UserError(
                f"{self.path / META} is not of `prepare sentences` with version {VERSION}; prepare "
                "the folder again"
            )

    @property
    def kind(self) -> Kind:
        """What is asked of its sentences."""
        return Kind(self.meta["kind"])

    @property
    def labels(self) -> tuple[str, ...]:
        """The classes in the order of their numbers; none of scores and candidates."""
        return tuple(self.meta["labels"])

    @property
    def tokens(self) -> Tokens:
        """How texts became words, so that others become words in the same way."""
        return Tokens(**self.meta["tokens"])

    @property
    def lengths(self) -> tuple[float, float]:
        """Mean and standard deviation of the words of a training sentence.

        Of trees, those of whole sentences, as the published block lengths are made of. With folds,
        those of all parts.
        """
        own = self.meta["lengths"]["all" if self.fold_count else "train"]
        return float(own["mean"]), float(own["sd"])

    @property
    def fold_count(self) -> int:
        """Number of folds; 0 where the folder holds three parts."""
        return int(self.meta["folds"] or 0)

    @property
    def selection(self) -> str:
        """What chooses a checkpoint: ``dev``, or ``test`` as in the papers."""
        return str(self.meta["selection"])

    @cached_property
    def fold_numbers(self) -> list[int]:
        """The fold of each example of the folder, in the order of the file."""
        return [int(number) for number in load_json(self.path / FOLDS, _ADVICE)]

    def positions(self, split: str, fold: int) -> list[int]:
        """Where the examples of a split stand among all examples, counted from 0.

        Raises:
            UserError: if there is no such split or fold.
        """
        self._check_fold(fold)
        if split not in ("train", "valid", "test"):
            raise UserError(f"{self.path} has no part {split!r}; each fold has: train, valid, test")
        return folds.positions(
            self.fold_numbers, self.fold_count, split, fold, select_on_test=self.selection == "test"
        )

    def examples(self, split: str, fold: int | None = None) -> list[Example]:
        """The examples of a part, in the order of the file.

        Args:
            split: ``train``, ``valid``, ``test`` and so on.
            fold: which fold is the test set; None where the folder has none.

        Raises:
            UserError: if there is no such part or fold, or its file is broken.
        """
        self._check_fold(fold)
        if fold is not None:
            rows = self._all
            return [rows[position] for position in self.positions(split, fold)]
        path = self.path / f"{split}.jsonl"
        if not path.is_file():
            there = ", ".join(sorted(file.stem for file in self.path.glob("*.jsonl")))
            raise UserError(f"{self.path} has no part {split!r}; there are: {there}")
        return list(read_examples(path, self.kind))

    def words(self, fold: int | None = None) -> tuple[str, ...]:
        """The words of the training part, most frequent first.

        Raises:
            UserError: as for ``examples``.
        """
        self._check_fold(fold)
        if fold is None:
            return read_symbols(self.path / WORDS)
        counts = Counter(words_of(self.examples("train", fold)))
        return tuple(word for word, _ in by_frequency(counts))

    def vectors(self) -> WordVectors | None:
        """The vectors that ``--vectors`` gave words of all parts; None without that flag.

        Raises:
            UserError: if their file is broken.
        """
        path = self.path / VECTORS
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as file:
                words = bytes(file["words"]).decode("utf-8").split("\n")
                values = torch.from_numpy(file["values"])
            return WordVectors({word: row for row, word in enumerate(words)}, values)
        except Exception as error:  # a damaged archive makes zipfile raise a dozen types
            raise UserError(f"{path} cannot be read ({error}); prepare the folder again") from None

    @cached_property
    def _all(self) -> list[Example]:
        examples = list(read_examples(self.path / ALL, self.kind))
        if len(examples) != len(self.fold_numbers):
            raise UserError(
                f"{self.path / ALL} has {len(examples):,} examples, but {FOLDS} "
                f"{len(self.fold_numbers):,} numbers; prepare the folder again"
            )
        return examples

    def _check_fold(self, fold: int | None) -> None:
        if not self.fold_count and fold is not None:
            raise UserError(f"--fold is {fold}, but {self.path} was prepared without --folds")
        if self.fold_count and (fold is None or not 0 <= fold < self.fold_count):
            given = "--fold is missing" if fold is None else f"--fold is {fold}"
            raise UserError(
                f"{given}; {self.path} has {self.fold_count} folds, from 0 to {self.fold_count - 1}"
            )


def words_of(examples: Iterable[Example]) -> Iterator[str]:
    """All words of examples, as often as they occur."""
    return (word for example in examples for sentence in example.sentences for word in sentence)


def write_vectors(path: Path, words: list[str], values: np.ndarray) -> None:
    """Write words, without line ends inside, and vectors ``(words, width)``: a `VECTORS` file."""
    encoded = np.frombuffer("\n".join(words).encode("utf-8"), dtype=np.uint8)
    with writing(path) as file:
        np.savez(file, words=encoded, values=values.astype(np.float32))
