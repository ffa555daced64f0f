"""Folds, held-out shares, and distributions of scores."""

from collections import Counter

import pytest
import torch

from selfattn.errors import UserError
from selfattn.models.relatedness_head import distribution, expected_score
from selfattn_tasks.sentences.folds import draw_folds, draw_share, positions


def test_folds_part_the_data():
    numbers = draw_folds(103, 10, seed=1)
    assert sorted(Counter(numbers).values()) == [10] * 7 + [11] * 3
    for fold in range(10):
        parts = [positions(numbers, 10, split, fold) for split in ("train", "valid", "test")]
        assert sorted(sum(parts, [])) == list(range(103))
        assert all(part == sorted(part) for part in parts)
        assert {numbers[n] for n in parts[2]} == {fold}
        assert {numbers[n] for n in parts[1]} == {(fold + 1) % 10}


def test_the_papers_rule_chooses_on_the_test_part():
    numbers = draw_folds(20, 4, seed=1)
    parts = {
        s: positions(numbers, 4, s, 2, select_on_test=True) for s in ("train", "valid", "test")
    }
    assert parts["valid"] == parts["test"] and len(parts["test"]) == 5
    assert sorted(parts["train"] + parts["test"]) == list(range(20))


def test_a_seed_is_a_shuffle():
    assert draw_folds(50, 5, seed=1) == draw_folds(50, 5, seed=1) != draw_folds(50, 5, seed=2)
    # Recorded results depend on it: the same on every machine and Python.
    assert draw_folds(8, 4, seed=1) == [2, 1, 3, 0, 3, 1, 0, 2]


@pytest.mark.parametrize("folds", [-1, 1, 2, 8])
def test_folds_that_cannot_be(folds):
    with pytest.raises(UserError, match=rf"--folds is {folds}, but must be from 3 to .* 7"):
        draw_folds(7, folds, seed=1)


def test_a_share_of_each_class():
    labels = ["a"] * 100 + ["b"] * 30 + ["c"] * 2 + ["d"]
    held = draw_share(labels, 0.1, seed=1)
    assert Counter(labels[n] for n in held) == {"a": 10, "b": 3, "c": 1}
    assert held == sorted(held) != draw_share(labels, 0.1, seed=2)


@pytest.mark.parametrize("share", [0, 1, -0.5, float("nan")])
def test_a_share_that_is_none(share):
    with pytest.raises(UserError, match="--valid-share is .*, but must be more than 0 and less"):
        draw_share(["a", "a"], share, seed=1)


def test_nothing_to_hold_out():
    with pytest.raises(UserError, match="of 2 examples none can be held out; give --valid"):
        draw_share(["a", "b"], 0.5, seed=1)


def test_distributions_of_scores():
    scores = torch.tensor([3.7, 5.0, 1.0, 4.0, 1.2], dtype=torch.float64)
    expected = torch.tensor(
        [[0, 0, 0.3, 0.7, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [0, 0, 0, 1, 0],
         [0.8, 0.2, 0, 0, 0]], dtype=torch.float64,
    )  # fmt: skip
    found = distribution(scores)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(expected_score(found), scores)
    torch.testing.assert_close(distribution(scores, 0, 6).sum(-1), torch.ones_like(scores))
