"""Predicate identification: the labels of a sentence in which no predicate is marked.

The tagger's network reads such a sentence as any other and gives ``B-V`` to its predicates, so that
one pass finds them all. A checkpoint says what it was trained for: see ``TARGETS``.
"""

import reprlib
from collections.abc import Iterable

from torch import Tensor

from selfattn.errors import UserError
from selfattn.masks import check_padding_mask

from ..formats.bio import OUTSIDE
from ..propositions import VERB, Sentence

# What a tagger is trained for, --target: the arguments of a marked predicate, which words are
# predicates, or both by one network.
TARGETS = ("arguments", "predicates", "both")
PREDICATE = f"B-{VERB}"
# The labels of a tagger for predicates alone.
LABELS = (OUTSIDE, PREDICATE)
# Instead of the position of a predicate: no word is marked.
UNMARKED = -1


def check_labels(labels: Iterable[str], target: str, where: object) -> None:
    """Check that the labels of ``where`` can say what ``target`` asks for.

    Raises:
        UserError: if the target is unknown, or there is no label for predicates.
    """
    if target not in TARGETS:
        name = reprlib.repr(target)
        raise UserError(f"{where}: the target {name} is unknown; allowed: {', '.join(TARGETS)}")
    if target != "arguments" and PREDICATE not in labels:
        raise UserError(f"{where}: the label {PREDICATE} is missing, so no predicate can be found")


def predicate_tags(sentence: Sentence) -> list[str]:
    """The labels that training expects of ``sentence`` without a mark, one per word."""
    tags = [OUTSIDE] * len(sentence.words)
    for proposition in sentence.propositions:
        tags[proposition.predicate] = PREDICATE
    return tags


def places(probabilities: Tensor, padding_mask: Tensor) -> list[list[int]]:
    """The predicates of each sentence of a batch.

    Args:
        probabilities: ``(B, T)``, of the label ``B-V``.
        padding_mask: bool ``(B, T)``, True = padding.

    Returns:
        positions whose probability is above one half, in order.
    """
    check_padding_mask(padding_mask, probabilities.shape)
    found = (probabilities > 0.5) & ~padding_mask
    return [[i for i, yes in enumerate(row) if yes] for row in found.tolist()]
