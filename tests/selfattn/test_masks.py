"""Positional masks: the interval arithmetic against the mask written out."""

import itertools

import pytest
import torch

from selfattn.errors import UserError
from selfattn.masks import (
    PositionalMask,
    as_masks,
    head_masks,
    padding_from_attention_mask,
    padding_from_lengths,
    visible_pairs,
)

MASKS = [
    PositionalMask(direction, include_self, window)
    for direction, include_self, window in itertools.product(
        ("forward", "backward", "none"), (False, True), (None, 1, 3)
    )
]


def visible(mask: PositionalMask, query: int, key: int) -> bool:
    """The definition, for one pair."""
    if mask.window is not None and abs(key - query) > mask.window:
        return False
    if mask.direction == "none":
        return True
    if key == query:
        return mask.include_self
    return key < query if mask.direction == "forward" else key > query


@pytest.mark.parametrize("mask", MASKS, ids=str)
@pytest.mark.parametrize("length", [1, 2, 7])
def test_allowed_follows_the_definition(mask, length):
    expected = [[visible(mask, j, i) for i in range(length)] for j in range(length)]
    assert mask.allowed(length).tolist() == expected


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_ranges_hold_what_some_and_what_all_queries_see(mask):
    length = 9
    whole = mask.allowed(length)
    for start, stop in itertools.combinations(range(length + 1), 2):
        rows = whole[start:stop]
        lo, hi = mask.key_range(start, stop, length)
        assert rows.any(0).nonzero()[:, 0].tolist() == list(range(lo, hi))
        lo, hi = mask.common_range(start, stop, length)
        assert rows.all(0).nonzero()[:, 0].tolist() == list(range(lo, hi))


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_visible_keys_counts_real_tokens_only(mask):
    rows = [[0, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 1, 1], [1, 1, 1, 1, 1]]
    padding = torch.tensor(rows).bool()
    expected = (mask.allowed(5)[None] & ~padding[:, None, :]).sum(-1)
    assert torch.equal(mask.visible_keys(padding), expected)


def test_forward_is_key_before_query_and_halves_share_the_heads():
    forward, backward = head_masks("forward_backward", 2)
    assert forward.allowed(3).tolist() == [[False] * 3, [True, False, False], [True, True, False]]
    assert torch.equal(backward.allowed(3), forward.allowed(3).T)
    masks = head_masks("forward_backward", 8)
    assert [m.direction for m in masks] == ["forward"] * 4 + ["backward"] * 4


def test_windows_for_all_heads_or_for_each():
    assert {m.window for m in head_masks("none", 3, window=4)} == {4}
    assert [m.window for m in head_masks("none", 3, window=(1, 2, 3))] == [1, 2, 3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PositionalMask("left"), "'left' is unknown"),
        (lambda: PositionalMask(window=0), "window 0"),
        (lambda: PositionalMask(window=-2), "window -2"),
        (lambda: PositionalMask(window=1.5), "window 1.5"),
        (lambda: PositionalMask(window=True), "window True"),
        (
            lambda: PositionalMask(window=2**63 - 1),
            "window 9223372036854775807 .* at most 536870912",
        ),
        (lambda: PositionalMask(window=2**200), "it must be at most 536870912"),
        (lambda: head_masks("none", 4, window=(1, 2, 3, 2**63)), "it must be at most 536870912"),
        (lambda: PositionalMask("forward", include_self="no"), "include_self 'no' is not allowed"),
        (lambda: head_masks("none", 4, window=1.5), "window 1.5 .* a whole number"),
        (lambda: as_masks(()), "masks is empty; give one PositionalMask"),
        (lambda: head_masks("half", 4), "'half' is unknown"),
        (lambda: head_masks("forward_backward", 5), "is 5; it must be even"),
        (lambda: head_masks("none", 4, window=(1, 2)), "2 values for 4 heads"),
        (
            lambda: visible_pairs(head_masks("none", 2), 3, torch.zeros(2, 1, dtype=torch.bool)),
            r"padding_mask has shape \(2, 1\); it must be \(B, T\) = \(2, 3\)",
        ),
    ],
)
def test_bad_masks_are_refused_by_name_and_value(make, message):
    with pytest.raises(UserError, match=message):
        make()


def test_padding_from_lengths_and_attention_masks():
    expected = torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]]).bool()
    for lengths in ([2, 0, 4], torch.tensor([2, 0, 4]), torch.tensor([2, 0, 4]).byte()):
        assert torch.equal(padding_from_lengths(lengths), expected)
    assert padding_from_lengths([1], 3).tolist() == [[False, True, True]]
    assert padding_from_lengths([], 3).shape == (0, 3)
    for dtype in (torch.bool, torch.int64, torch.float32):
        assert torch.equal(padding_from_attention_mask((~expected).to(dtype)), expected)
    for wrong, sentence in (
        (lambda: padding_from_lengths([3], 2), r"lie between 3 and 3; they must be in \[0, 2\]"),
        (lambda: padding_from_lengths([-1]), r"lie between -1 and -1; they must be in \[0, 0\]"),
        (lambda: padding_from_lengths([1.5]), "dtype torch.float32; they must be integers"),
        (lambda: padding_from_lengths([[1]]), r"shape \(1, 1\)"),
        (lambda: padding_from_lengths(3), r"shape \(\)"),
        (lambda: padding_from_attention_mask(torch.tensor([[1, 2]])), "holds 2; allowed are 0 and"),
        (lambda: padding_from_attention_mask([1, 0]), r"shape \(2,\); it must be \(B, T\)"),
    ):
        with pytest.raises(UserError, match=sentence):
            wrong()
