"""The tokenizer of translation models, of pieces that the dictionary has and of others."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

from tokenizers import Tokenizer, models, pre_tokenizers

from selfattn.hf import SelfattnTokenizer


def test_tokens_that_a_user_adds_are_known():
    """Behind pieces that the dictionary lacks, which are unknown."""
    backend = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1, "rare": 2}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = SelfattnTokenizer(tokenizer_object=backend, known=2, unk_token="<unk>")
    tokenizer.add_tokens(["mine"])
    assert tokenizer.convert_tokens_to_ids(["a", "rare", "mine", "other"]) == [1, 0, 3, 0]
    assert tokenizer.convert_tokens_to_ids("rare") == 0
    assert tokenizer("a rare mine other")["input_ids"] == [1, 0, 3, 0]
    numbers = tokenizer("a rare mine other", return_tensors="np")["input_ids"]
    assert numbers.tolist() == [[1, 0, 3, 0]]


def test_all_pieces_of_a_new_training_are_known():
    old = {"<unk>": 0, "a": 1, "rare": 2}
    backend = Tokenizer(models.WordLevel(old, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = SelfattnTokenizer(tokenizer_object=backend, known=2, unk_token="<unk>")
    new = tokenizer.train_new_from_iterator(["b c d"], vocab_size=10)
    assert sorted(new.convert_tokens_to_ids(["b", "c", "d"])) == [1, 2, 3]
    assert tokenizer.convert_tokens_to_ids("rare") == 0
