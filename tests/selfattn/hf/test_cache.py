"""The cache of generation, and of its beam search."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

from transformers import DynamicCache, EncoderDecoderCache, StaticCache

from selfattn.errors import UserError
from selfattn.hf import SelfattnForConditionalGeneration
from selfattn.hf.cache import CACHE
from tests.selfattn.hf.test_models import IDS, config


def test_generation_with_a_cache_equals_generation_without_one():
    torch.manual_seed(3)
    model = SelfattnForConditionalGeneration(config()).eval()

    how = {"num_beams": 3, "max_new_tokens": 7, "early_stopping": True, "do_sample": False}
    cached = model.generate(IDS, **how)
    assert torch.equal(cached, model.generate(IDS, use_cache=False, **how))
    assert torch.equal(cached[1:], model.generate(IDS[1:, :3], **how)[:, : cached.shape[1]])
    torch.manual_seed(5)
    model = SelfattnForConditionalGeneration(config(share_embeddings="none")).eval()
    for beams in (1, 3):
        how["num_beams"] = beams
        static = model.generate(IDS, cache_implementation="static", **how)
        assert torch.equal(static, model.generate(IDS, **how))
    logits = model(input_ids=IDS, decoder_input_ids=cached).logits
    greedy = model.generate(IDS, num_beams=1, max_new_tokens=1)
    assert torch.equal(greedy[:, 1], logits[:, 0].argmax(-1))


def test_a_cache_has_two_names_and_no_third():
    model = SelfattnForConditionalGeneration(config()).eval()
    tokens = torch.tensor([[2, 7, 8], [2, 9, 9]])
    expected = model(input_ids=IDS, decoder_input_ids=tokens).logits[:, 2:]
    for name in ("cache", "past_key_values"):
        first = model(input_ids=IDS, decoder_input_ids=tokens[:, :2], use_cache=True)
        call = {"input_ids": IDS, "decoder_input_ids": tokens[:, 2:], name: first[CACHE]}
        torch.testing.assert_close(model(**call).logits, expected)
    with pytest.raises(UserError, match="kept is a cache, but this model takes none by that name"):
        model(input_ids=IDS, decoder_input_ids=tokens, kept=first[CACHE])
    for wrong in (DynamicCache(), ()):
        with pytest.raises(UserError, match=f"is a {type(wrong).__name__}; it must be an Encoder"):
            model(input_ids=IDS, decoder_input_ids=tokens, past_key_values=wrong)


@pytest.mark.parametrize("masked", [True, False])
def test_a_static_cache_with_more_room_than_the_source(masked):
    """Room that is left is no key, in the first call and in later ones."""
    torch.manual_seed(3)
    model = SelfattnForConditionalGeneration(config()).eval()
    tokens = torch.tensor([[2, 7, 8], [2, 9, 9]])
    source = {"encoder_outputs": model.encoder(IDS)}
    if masked:
        source["attention_mask"] = IDS != 1
    expected = model(**source, decoder_input_ids=tokens).logits
    caches = (StaticCache(model.config, max_cache_len=9) for _ in range(2))
    kept = {CACHE: EncoderDecoderCache(*caches)}
    found = [model(**source, decoder_input_ids=part, **kept).logits for part in tokens.split(2, 1)]
    torch.testing.assert_close(torch.cat(found, 1), expected)


@pytest.mark.parametrize("early", [True, False])
def test_finished_sentences_leave_a_beam_search(early):
    """The hypotheses and scores of transformers' own search, with fewer rows in the decoder."""
    torch.manual_seed(3)
    model = SelfattnForConditionalGeneration(config()).eval()
    ids = torch.tensor([[5, 6, 7, 8, 9, 2], [9, 10, 2, 1, 1, 1], [4, 2, 1, 1, 1, 1]])
    rows = []
    model.decoder.register_forward_pre_hook(lambda _, inputs: rows.append(len(inputs[0])))
    how = {
        "num_beams": 3, "num_return_sequences": 2, "early_stopping": early, "max_len_a": 1.0,
        "max_len_b": 1, "output_scores": True, "return_dict_in_generate": True,
    }  # fmt: skip
    found = model.generate(ids, **how)
    cached, rows = rows, []
    expected = model.generate(ids, use_cache=False, **how)
    assert torch.equal(found.sequences, expected.sequences)
    torch.testing.assert_close(found.sequences_scores, expected.sequences_scores)
    assert len({row.index(2) for row in found.sequences[:, 1:].tolist()}) > 1
    assert cached[0] == 9 and (cached[-1] == 3) == early, cached
