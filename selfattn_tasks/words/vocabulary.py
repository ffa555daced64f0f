"""Words and labels <-> numbers, as a trained model knows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from selfattn.errors import UserError

from ..files import write_lines

# Rows of the word table that are no words.
PADDING, UNKNOWN, FIRST_WORD = 0, 1, 2
# Symbols that every fairseq dictionary has.
_RESERVED = {"<s>", "<pad>", "</s>", "<unk>"}
# Rows of the table of characters, after padding and unknown: a word's ends, then the alphabet.
_BEGIN, _END, FIRST_CHARACTER = 2, 3, 4
# Of a longer word, half of the characters from each end are read.
_LONGEST_WORD = 40


@dataclass(frozen=True)
class Vocabulary:
    """What turns words into row numbers, and labels into their numbers.

    Args:
        words: those of the training data.
        labels: BIO tags, or the classes of sentences.
        frozen: words that only the file of word vectors knows.
        alphabet: the characters of the training data; empty if the model does not read them.
    """

    words: tuple[str, ...]
    labels: tuple[str, ...]
    frozen: tuple[str, ...] = ()
    alphabet: str = ""

    @cached_property
    def _rows(self) -> dict[str, int]:
        # Words of the training data come last: they win where both lists hold a word.
        table = enumerate((*self.words, *self.frozen), FIRST_WORD)
        return {word: row for row, word in reversed(list(table))}

    @cached_property
    def _labels(self) -> dict[str, int]:
        return {label: number for number, label in enumerate(self.labels)}

    @cached_property
    def _letters(self) -> dict[str, int]:
        return {letter: row for row, letter in enumerate(self.alphabet, FIRST_CHARACTER)}

    @property
    def trained_rows(self) -> int:
        """Rows of the trained word table, padding and unknown included."""
        return FIRST_WORD + len(self.words)

    @property
    def character_rows(self) -> int:
        """Rows of the table of characters; 0 without an alphabet."""
        return FIRST_CHARACTER + len(self.alphabet) if self.alphabet else 0

    def encode(self, words: Iterable[str]) -> list[int]:
        """Row numbers of words.

        A word is looked up as it stands and in lower case, first among the words of the training
        data, then among those of the vectors' file.

        Differs:
            The published SRL code has no lower case for a word that training lacks: where the file
            has lower case alone, as GloVe 6B, such a word with a capital letter stays unknown.
        """
        return [self._row(word) for word in words]

    def _row(self, word: str) -> int:
        rows = [self._rows[form] for form in (word, word.lower()) if form in self._rows]
        # min() takes the first of equals: the word as it stands.
        return min(rows, key=lambda row: row >= self.trained_rows, default=UNKNOWN)

    def spell(self, words: Iterable[str]) -> list[tuple[int, ...]]:
        """Numbers of the characters of words as they stand; empty without an alphabet."""
        return [self._characters(word) for word in words] if self.alphabet else []

    def _characters(self, word: str) -> tuple[int, ...]:
        if len(word) > _LONGEST_WORD:
            word = word[: _LONGEST_WORD // 2] + word[-_LONGEST_WORD // 2 :]
        found = (self._letters.get(character, UNKNOWN) for character in word)
        return (_BEGIN, *found, _END)

    def label(self, label: str) -> int | None:
        """Number of a label; None if training never saw it."""
        return self._labels.get(label)

    def with_frozen(self, words: Iterable[str], most: int | None = None) -> Vocabulary:
        """The same words and labels, and the first ``most`` of ``words`` that training lacks."""
        known = set(self.words)
        frozen = tuple(w for w in words if w not in known)
        return replace(self, frozen=frozen[:most])

    def state(self) -> dict[str, Any]:
        """Plain lists, and the alphabet if there is one, for a checkpoint."""
        state = {name: list(getattr(self, name)) for name in ("words", "labels", "frozen")}
        return state | ({"alphabet": self.alphabet} if self.alphabet else {})

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Vocabulary:
        """What :meth:`state` gave.

        Raises:
            KeyError: if a list is missing.
            TypeError: if one holds what is no word.
        """
        words, labels, frozen = (tuple(state[name]) for name in ("words", "labels", "frozen"))
        vocabulary = cls(words, labels, frozen, state.get("alphabet", ""))
        hash(vocabulary)  # raises here what a look-up would raise later
        return vocabulary


def differences(ours: Vocabulary, other: Vocabulary) -> str:
    """What differs between two vocabularies, in words; empty if nothing does."""
    found = [
        f"{len(getattr(ours, name)):,} and {len(getattr(other, name)):,} {title}"
        for name, title in (
            ("words", "words"),
            ("labels", "labels"),
            ("frozen", "words of the vectors' file"),
            ("alphabet", "characters"),
        )
        if getattr(ours, name) != getattr(other, name)
    ]
    return ", ".join(found)


def by_frequency(counts: Counter[str]) -> list[tuple[str, int]]:
    """Symbols and their counts, most frequent first, without those that any dictionary has."""
    found = ((symbol, count) for symbol, count in counts.items() if symbol not in _RESERVED)
    return sorted(found, key=lambda item: (-item[1], item[0]))


def write_symbols(path: Path, counts: Iterable[tuple[str, int]]) -> None:
    """Write a fairseq dictionary, as :func:`read_symbols` reads it."""
    write_lines(path, [f"{symbol} {count}" for symbol, count in counts])


def percent_unknown(words: Iterable[str], known: Collection[str]) -> float:
    """How many of the words that occur are not among the known, in percent."""
    unknown = Counter(word not in known for word in words)
    return round(100 * unknown[True] / max(unknown.total(), 1), 2)


def overlaps(parts: Mapping[str, Sequence[Hashable]]) -> dict[str, int]:
    """How many texts of a part are also in a part before it, by names such as ``test in train``."""
    found: dict[str, int] = {}
    seen: dict[str, set[Hashable]] = {}
    for name, texts in parts.items():
        for earlier, known in seen.items():
            found[f"{name} in {earlier}"] = sum(text in known for text in texts)
        seen[name] = set(texts)
    return found


def read_symbols(path: Path) -> tuple[str, ...]:
    """The symbols of a fairseq dictionary: ``symbol count`` lines.

    Raises:
        UserError: if it is missing, broken or empty.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UserError(f"{path} cannot be read ({reason}); give a prepared folder") from None
    symbols: list[str] = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        symbol, _, count = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
        if not symbol or not count.isdigit():
            raise UserError(f"{path}, line {number}: {line!r} is not a symbol and its count")
        symbols.append(symbol)
    if not symbols:
        raise UserError(f"{path} is empty; give a prepared folder")
    return tuple(symbols)


def spread(sequences: Sequence[Sequence[int]], fill: int) -> list[list[int]]:
    """Rows of one length, ``fill`` at their ends."""
    longest = max(map(len, sequences))
    return [[*sequence, *[fill] * (longest - len(sequence))] for sequence in sequences]
