"""Split a corpus into train, valid and test without leaking sentences between them."""

import hashlib
import re
import unicodedata
from itertools import takewhile

from selfattn.errors import UserError, check_integer

from ..text import Pair

_NOT_A_LETTER = re.compile(r"[\W\d_]+")


def sentence_key(text: str) -> str:
    """A key that is equal for texts that differ only in case, digits, punctuation or spaces.

    >>> sentence_key("Turn off, zone 1!") == sentence_key("turn off zone 2")
    True
    """
    folded = text.casefold()
    return _NOT_A_LETTER.sub(_marks, folded) or folded


def _marks(between: re.Match[str]) -> str:
    """Vowel signs and accents of the letter before, which are no letters themselves."""
    if between[0].isascii():
        return ""
    return "".join(takewhile(lambda c: unicodedata.category(c).startswith("M"), between[0]))


def split_pairs(pairs: list[Pair], held_out: int, seed: int = 1) -> dict[str, list[Pair]]:
    """Split into ``train``, ``valid`` and ``test`` with ``held_out`` pairs in each of the last two.

    In all three together, no source side and no target side occurs twice, compared by
    :func:`sentence_key`; later duplicates are left out. The order, and so the split, depends only
    on the text of the pairs and the seed, not on the order of the input.

    Args:
        pairs: clean pairs.
        held_out: number of pairs in valid, and in test.
        seed: determines the split.

    Raises:
        UserError: if ``held_out`` is below 1, or would take more than half of the pairs.
    """
    check_integer("--held-out", held_out)

    def order(pair: Pair) -> bytes:
        return hashlib.sha256(f"{seed}\0{pair[0]}\0{pair[1]}".encode()).digest()

    seen: set[tuple[int, str]] = set()  # side and key
    distinct = []
    for pair in sorted(set(pairs), key=order):
        keys = set(enumerate(map(sentence_key, pair)))
        if seen.isdisjoint(keys):
            seen |= keys
            distinct.append(pair)
    largest = len(distinct) // 4
    if held_out > largest:
        raise UserError(
            f"--held-out is {held_out}, but with {len(distinct)} distinct pairs it must be at most "
            f"{largest}, so that half of them remain for training"
        )
    return {
        "train": distinct[2 * held_out :],
        "valid": distinct[:held_out],
        "test": distinct[held_out : 2 * held_out],
    }


def count_overlap(pairs: list[Pair], train: list[Pair]) -> int:
    """How many of ``pairs`` have a source or target side that also occurs in ``train``."""
    sources, targets = ({pair[side] for pair in train} for side in (0, 1))
    return sum(source in sources or target in targets for source, target in pairs)
