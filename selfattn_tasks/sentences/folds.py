"""Which example is in which part: folds of cross-validation, and a share that is held out."""

import random
from collections.abc import Hashable, Sequence

from selfattn.errors import UserError

FEWEST = 3  # one part to test on, one to choose by, one to learn from


def draw_folds(count: int, folds: int, seed: int) -> list[int]:
    """The number of the fold of each example, after one shuffle.

    Fold i holds the examples from position floor(i n / K) of the shuffle to that of i + 1, as in
    the code of Bi-BloSAN.

    Differs: that code's shuffle has no seed.

    Raises:
        UserError: for fewer than 3 folds or more than there are examples.
    """
    if not FEWEST <= folds <= count:
        raise UserError(
            f"--folds is {folds}, but must be from {FEWEST} to the number of examples, {count:,}"
        )
    order = list(range(count))
    random.Random(seed).shuffle(order)
    numbers = [0] * count
    for fold in range(folds):
        for example in order[fold * count // folds : (fold + 1) * count // folds]:
            numbers[example] = fold
    return numbers


def positions(
    numbers: Sequence[int], folds: int, split: str, fold: int, *, select_on_test: bool = False
) -> list[int]:
    """The examples of a split while one fold is tested, in the order of the file.

    Of K folds, number i is the test set, i + 1 (mod K) the validation set, and the rest is for
    training.

    Differs: the papers' code has no validation set (``select_on_test``).

    Args:
        numbers: the fold of each example.
        folds: how many there are, K.
        split: ``train``, ``valid`` or ``test``.
        fold: i, from 0.
        select_on_test: the papers' rule: the test set is the validation set, too, and all other
            folds are for training.
    """
    valid = fold if select_on_test else (fold + 1) % folds
    if split == "train":
        return [n for n, own in enumerate(numbers) if own not in (fold, valid)]
    wanted = {"valid": valid, "test": fold}[split]
    return [n for n, own in enumerate(numbers) if own == wanted]


def draw_share(targets: Sequence[Hashable], share: float, seed: int) -> list[int]:
    """The examples to hold out, in the order of the file: a share of each class.

    A class of several examples gives one at least and keeps one at least; one that has a single
    example keeps it.

    Args:
        targets: the class of each example.
        share: between 0 and 1.
        seed: of the shuffle of each class.

    Raises:
        UserError: if the share is none, or nothing would be held out.
    """
    if not 0 < share < 1:
        raise UserError(f"--valid-share is {share}, but must be more than 0 and less than 1")
    members: dict[Hashable, list[int]] = {}
    for number, target in enumerate(targets):
        members.setdefault(target, []).append(number)
    generator = random.Random(seed)
    held_out: list[int] = []
    for own in members.values():
        generator.shuffle(own)
        held_out += own[: min(max(1, round(share * len(own))), len(own) - 1)]
    if not held_out:
        raise UserError(
            f"--valid-share is {share}, but of {len(targets)} examples none can be held out; "
            "give --valid"
        )
    return sorted(held_out)
