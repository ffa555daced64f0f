"""Warnings about parallel text that looks wrong but can still be used."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ..text import Pair, ParallelText

# Above this share of all pairs, copies and swapped sides are no longer isolated accidents.
_MANY = 0.05
# What lines should not hold, in words, and what to do about it.
_ODD_LINES = (
    (
        # Or as Windows-1252: two characters for one, the first of them C2, C3 or E2.
        re.compile("[\u00c2\u00c3][\u0080-\u00bf]|\u00c3[\u0178\u201e\u2013\u0153]|\u00e2\u20ac"),
        "that look like UTF-8 read as Latin-1 ('\u00c3\u00a4' for '\u00e4')",
        "convert them again",
    ),
    (
        re.compile(r"&(?:quot|amp|lt|gt|apos|nbsp|#\d+|#[xX][0-9a-fA-F]+);"),
        "with entities such as &quot;",
        "put the characters in their place",
    ),
    (
        re.compile("</?s>|<unk>"),
        "with <s>, </s> or <unk>, which SentencePiece takes for its own",
        "remove these marks",
    ),
)


def suspicions(inputs: Mapping[str, ParallelText]) -> list[str]:
    """Warnings about what looks wrong, each with a count and the first line concerned.

    Sides count as swapped if the words of each are more common on the other side of the training
    text. This finds single swapped pairs, and a set that is swapped relative to the training set;
    if all sets are swapped alike, counts cannot tell.

    Args:
        inputs: what was read; ``train`` or ``pair`` is the training text.
    """
    training = inputs["pair" if "pair" in inputs else "train"]
    common = tuple(Counter(_words(pair[side] for pair in training.pairs)) for side in (0, 1))
    found: list[str] = []
    for text in inputs.values():
        count, both = len(text.pairs), f"{text.source} and {text.target}"
        copies = _lines(bool(a.strip()) and a.split() == b.split() for a, b in text.pairs)
        if len(copies) > _MANY * count:
            found.append(
                f"{both}: pairs of identical sides: {len(copies):,} of {count:,}, the first in "
                f"line {copies[0]}; leave untranslated text out"
            )
        swapped = _lines(_is_swapped(pair, common) for pair in text.pairs)
        if len(swapped) > _MANY * count:
            found.append(
                f"{both}: pairs whose words are more common on the other side of the training "
                f"text: {len(swapped):,} of {count:,}, the first in line {swapped[0]}; check "
                "whether the two sides are swapped there"
            )
        for side, path in enumerate((text.source, text.target)):
            lines = [pair[side] for pair in text.pairs]
            for pattern, what, advice in _ODD_LINES:
                if odd := _lines(bool(pattern.search(line)) for line in lines):
                    found.append(
                        f"{path}: lines {what}: {len(odd):,}, the first is {odd[0]}; {advice}"
                    )
    return found


def _lines(holds: Iterable[bool]) -> list[int]:
    """Numbers of the lines for which ``holds`` is true."""
    return [number for number, held in enumerate(holds, start=1) if held]


def _words(lines: Iterable[str]) -> Iterable[str]:
    return (word for line in lines for word in line.casefold().split())


def _is_swapped(pair: Pair, common: Sequence[Counter[str]]) -> bool:
    """Whether most words of both sides are more common on the other one."""
    for side in (0, 1):
        own, other = common[side], common[1 - side]
        words = list(_words([pair[side]]))
        if sum((other[w] > own[w]) - (other[w] < own[w]) for w in words) <= 0:
            return False
    return True
