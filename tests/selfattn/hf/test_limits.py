"""What ``generate()`` allows a translation to be."""

from __future__ import annotations

import copy

import pytest
import torch

pytest.importorskip("transformers")

from transformers import GenerationConfig

from selfattn.errors import UserError
from selfattn.hf import SelfattnForConditionalGeneration
from tests.selfattn.hf.test_models import IDS, config


def test_a_limit_of_its_own_for_each_source():
    model = SelfattnForConditionalGeneration(config()).eval()
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())

    found = model.generate(IDS, num_beams=2, max_len_a=1.0, max_len_b=1, min_new_tokens=4)
    for row, most in zip(found.tolist(), (6, 4), strict=True):
        assert 2 in row[1:], row
        assert row[1:].index(2) <= most, row


def test_limits_count_embeddings_and_states_too():
    torch.manual_seed(3)
    model = SelfattnForConditionalGeneration(config()).eval()
    model.generation_config.max_len_a, model.generation_config.max_len_b = 0.5, 1
    full = IDS[:1]
    expected = model.generate(full)
    assert expected.shape[1] <= 5
    embedded = model.encoder.embeddings.tokens(full)
    assert torch.equal(model.generate(inputs_embeds=embedded), expected)
    for others in ({}, {"inputs_embeds": None}):
        found = model.generate(encoder_outputs=model.encoder(full), **others)
        assert torch.equal(found, expected)


@pytest.mark.parametrize("limits", [{"max_len_a": 1.0, "max_len_b": 1}, {"max_new_tokens": 3}])
def test_no_source_is_said(limits):
    model = SelfattnForConditionalGeneration(config()).eval()
    for more in ({}, {"decoder_input_ids": IDS[:, :2]}, {"attention_mask": IDS != 1}):
        with pytest.raises(UserError, match="there is no source; give input_ids, inputs_embeds"):
            model.generate(**more, **limits)
    with pytest.raises(UserError, match=r"the batch has 0 sources; generate\(\) takes at least 1"):
        model.generate(IDS[:0], **limits)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_len_a": 1.2}, "max_len_a 1.2 has no effect alone; give max_len_b, too"),
        ({"max_len_a": float("nan"), "max_len_b": 3}, "max_len_a nan is not allowed; it must be a"),
        ({"max_len_b": "10"}, "max_len_b '10' is not allowed; it must be a finite number"),
    ],
)
def test_limits_that_are_none(limits, message):
    model = SelfattnForConditionalGeneration(config()).eval()
    with pytest.raises(UserError, match=message):
        model.generate(IDS, **limits)


def test_learned_positions_end_a_translation_of_whatever_length():
    sizes = config(positions="learned", max_position_embeddings=8)
    model = SelfattnForConditionalGeneration(sizes).eval()
    model.generation_config.max_len_b = 50
    found = model.generate(IDS, max_new_tokens=20, min_new_tokens=7, do_sample=False)
    assert found.shape == (2, 9) and (found[:, 8] == 2).all()


def test_limits_end_with_the_caller_s_end():
    model = SelfattnForConditionalGeneration(config()).eval()
    for end in (7, [7, 8]):
        found = model.generate(IDS, eos_token_id=end, max_len_a=0.0, max_len_b=2, num_beams=2)
        assert found.shape == (2, 4) and set(found[:, 3].tolist()) <= {7, 8, 1}
        assert not (set(found[:, 1].tolist()) & {7, 8})
        assert all({7, 8} & set(row) for row in found.tolist())


def test_a_caller_s_search_leaves_the_rest_to_the_model_s():
    """Its beams and limits; a length of the caller's comes before them."""
    torch.manual_seed(3)
    model = SelfattnForConditionalGeneration(config()).eval()
    model.generation_config.num_beams = 3
    model.generation_config.max_len_a, model.generation_config.max_len_b = 1.0, 1
    expected = model.generate(IDS)
    for empty in ({}, {"max_len_a": 1.0, "max_len_b": 1}):
        assert torch.equal(
            model.generate(IDS, generation_config=GenerationConfig(**empty)), expected
        )
    short = model.generate(IDS, generation_config=GenerationConfig(max_new_tokens=2))
    assert short.shape == (2, 3)
    copied = copy.deepcopy(model.generation_config)
    for name, value in (("max_new_tokens", 2), ("max_length", 3)):
        given = copy.deepcopy(copied)
        setattr(given, name, value)
        assert torch.equal(model.generate(IDS, generation_config=given), short)
        model.generation_config = given
        assert torch.equal(model.generate(IDS), short)
        for near in ({"max_len_b": 1}, {"generation_config": GenerationConfig(max_len_b=1)}):
            assert torch.equal(model.generate(IDS, **near), expected)
        model.generation_config = copied


def test_a_folder_keeps_limits(tmp_path):
    model = SelfattnForConditionalGeneration(config())
    for limit in (1, 2):  # of a new model, and of one whose folder had no limits
        model.generation_config.max_len_a, model.generation_config.max_len_b = 0.5, limit
        model.save_pretrained(tmp_path)
        model = SelfattnForConditionalGeneration.from_pretrained(tmp_path)
        assert model.generation_config.max_len_a == 0.5
        assert model.generation_config.max_len_b == limit
        (tmp_path / "generation_config.json").unlink()
        model = SelfattnForConditionalGeneration.from_pretrained(tmp_path)


def test_a_least_length_comes_before_the_limit():
    torch.manual_seed(3)
    model = SelfattnForConditionalGeneration(config()).eval()
    for least in ({"min_new_tokens": 4}, {"min_length": 5}):
        found = model.generate(IDS, num_beams=2, max_len_a=0.0, max_len_b=2, **least)
        assert found[:, 5].tolist() == [2, 2] and found.shape == (2, 6)
