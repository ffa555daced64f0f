"""A split must not leak, must not depend on the order of the input, and must leave enough."""

import random
from pathlib import Path

import pytest

from selfattn.errors import UserError
from selfattn_tasks.translation.prepare import Options, prepare
from selfattn_tasks.translation.split import count_overlap, sentence_key, split_pairs


def near_duplicates():
    """Pairs of which many share a side, or differ from another in case, digits or dots only."""
    rng = random.Random(5)
    nouns = ["lamp", "door", "window", "pump", "heater", "sensor", "valve", "fan"]
    verbs = ["open", "close", "check", "start", "stop", "reset", "name", "move", "find", "sell"]
    pairs = []
    for _ in range(400):
        english = f"{rng.choice(verbs)} the {rng.choice(nouns)} and the {rng.choice(nouns)}"
        german = english[::-1]
        ending = rng.choice(["", ".", " 1", " 2!"])
        pairs.append((rng.choice([str.title, str])(english) + ending, german + ending))
    # A free translation: two sources share one target.
    return pairs + [(f"{english} please", german) for english, german in pairs[:40]]


def test_no_side_occurs_twice():
    pairs = near_duplicates()
    splits = split_pairs(pairs, 20)
    everything = [pair for part in splits.values() for pair in part]
    assert set(everything) <= set(pairs)
    for side in (0, 1):
        keys = [sentence_key(pair[side]) for pair in everything]
        assert len(keys) == len(set(keys))
    assert len(splits["valid"]) == len(splits["test"]) == 20
    assert len(splits["train"]) > 100
    # The trap is real: a plain shuffled split of the same pairs leaks.
    random.Random(1).shuffle(pairs)
    assert count_overlap(pairs[:20], pairs[40:]) > 0


def test_same_pairs_in_another_order_give_the_same_split():
    pairs = near_duplicates()
    again = pairs + pairs[:7]
    random.Random(3).shuffle(again)
    assert split_pairs(pairs, 10) == split_pairs(again, 10)
    assert split_pairs(pairs, 10) != split_pairs(pairs, 10, seed=2)


def test_sentences_without_letters_are_told_apart():
    assert sentence_key("10 %") != sentence_key("20 %")


def test_signs_that_belong_to_a_letter_tell_sentences_apart():
    """Vowels of Hindi are marks, no letters; one that is behind no letter is a part of an emoji."""
    assert sentence_key("\u0915\u0940 2") != sentence_key("\u0915\u093e 2")
    assert sentence_key("\u0915\u0940 2") == sentence_key("\u0915\u0940!")
    assert sentence_key("tea \u2615\ufe0f") == sentence_key("Tea")


@pytest.mark.parametrize(("held_out", "words"), [(0, "0 is not allowed; it must be at least 1"), (
    26, "is 26, but with 100 distinct pairs it must be at most 25")])  # fmt: skip
def test_impossible_sizes_are_refused(held_out, words):
    letters = "abcdefghij"
    pairs = [(f"{a} {b}", f"{b}-{a}") for a in letters for b in letters]
    pairs = [(a.replace(" ", "x"), b.replace("-", "y")) for a, b in pairs]
    with pytest.raises(UserError, match=words):
        split_pairs(pairs, held_out)


def test_overlap_counts_either_side():
    train = [("a", "A"), ("b", "B")]
    assert count_overlap([("a", "x"), ("y", "B"), ("c", "C"), ("b", "B")], train) == 3


@pytest.mark.parametrize("names", ["", "train", "pair train valid"])
def test_either_parts_or_a_pair_to_split_are_given(names, tmp_path):
    files = dict.fromkeys(names.split(), (Path("a"), Path("b")))
    with pytest.raises(UserError, match="give files for train and valid, or one pair"):
        prepare(files, tmp_path / "data", Options("en", "de"))
