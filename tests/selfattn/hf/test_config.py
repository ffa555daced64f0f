"""The configuration of the models for transformers: what it refuses, and what it keeps."""

import json

import numpy as np
import pytest

pytest.importorskip("transformers")

from transformers import AutoConfig

from selfattn.config import CONFIGS
from selfattn.errors import UserError
from selfattn.hf import SelfattnConfig


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"attention": "mtza"}, "attention 'mtza' is unknown; allowed are multihead, mtsa"),
        ({"switches": {"windw": 3}}, "has no switch 'windw'"),
        ({"preset": "best"}, "preset 'best' is unknown for 'mtsa'; allowed: paper, nmt"),
        ({"window": 3}, "'window' is a switch of the attention; give switches="),
        ({"hiden_size": 8}, "has no argument 'hiden_size'; do you mean 'hidden_size'"),
        ({"positions": "sines"}, "positions 'sines' is unknown; allowed are sinusoidal"),
        ({"pool": "first"}, "pool 'first' is unknown; allowed are source2token, max, mean"),
        ({"hidden_act": "rellu"}, "hidden_act 'rellu' is unknown; allowed are gelu"),
        ({"first_position": -1}, "first_position -1 is not allowed; it must be at least 0"),
        ({"pad_token_id": 4000}, "pad_token_id 4000 is not allowed; it must be at most 3999"),
        ({"hidden_size": 8.0}, "hidden_size 8.0 is not allowed; it must be a whole number"),
        ({"num_hidden_layers": -1}, "num_hidden_layers -1 is not allowed; it must be at least 0"),
        ({"decoder_ffn_dim": 0}, "decoder_ffn_dim 0 is not allowed; it must be at least 1"),
        ({"dropout": 1.5}, r"dropout 1.5 is not allowed; it must be in \[0, 1\)"),
        ({"dropout": None}, r"dropout None is not allowed; it must be in \[0, 1\)"),
        ({"hidden_act": ["gelu"]}, r"hidden_act \['gelu'\] is unknown; allowed are gelu"),
        ({"d_model": 8}, "has no argument 'd_model'; do you mean 'hidden_size'"),
        ({"encoder_ffn_dim": 8}, "'encoder_ffn_dim'; do you mean 'intermediate_size'"),
        ({"dropout_rate": 0.3}, "'dropout_rate'; do you mean 'dropout'"),
        ({"hidden_dropout_prob": 0.1}, "do you mean 'dropout'"),
        ({"dropout": "0.1"}, "dropout '0.1' is not allowed"),
        ({"attention": ["mtsa"]}, r"attention \['mtsa'\] is unknown; allowed are multihead, mtsa"),
        ({"switches": "window=3"}, "switches 'window=3' is not allowed; it must be a dict"),
        ({"switches": {3: 5}}, "switches {3: 5} is not allowed; it must be a dict of names"),
        ({"norm_first": "false"}, "norm_first 'false' is not allowed; it must be True or False"),
        ({"decoder_norm_first": 0}, "decoder_norm_first 0 is not allowed; it must be True"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings 'no' is not allowed"),
    ],
)
def test_mistakes_in_a_configuration(wrong, message):
    with pytest.raises(UserError, match=message):
        SelfattnConfig(**wrong)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"positions": "sinusodial"}, "positions 'sinusodial' is unknown; allowed are sinusoidal"),
        ({"window": 3}, "'window' is a switch of the attention; give switches="),
        ({"switches": {"windw": 3}}, "has no switch 'windw'"),
        ({"preset": "best"}, "preset 'best' is unknown for 'mtsa'"),
        ({"d_model": 64}, "has no argument 'd_model'; do you mean 'hidden_size'"),
        ({"dropout": 1.5}, "dropout 1.5 is not allowed"),
    ],
)
def test_mistakes_in_what_changes_a_folder(tmp_path, wrong, message):
    """transformers sets such arguments unchecked, or drops them."""
    SelfattnConfig().save_pretrained(tmp_path)
    for kind in (AutoConfig, SelfattnConfig):
        with pytest.raises(UserError, match=message):
            kind.from_pretrained(tmp_path, **wrong)


def test_what_changes_a_folder(tmp_path):
    """A switch changes one; another preset or attention brings its own."""
    made = SelfattnConfig(preset="srl", switches={"window": 5, "value_bias": False})
    made.save_pretrained(tmp_path)

    def read(**changes):
        return AutoConfig.from_pretrained(tmp_path, **changes).attention_config

    assert read(dropout=0.2, preset="srl", attention="mtsa") == made.attention_config
    assert read(switches={"window": 3}) == made.attention_config.with_switches(window=3)
    assert read(preset="nmt") == CONFIGS["mtsa"].make("nmt")
    assert read(preset="nmt", switches={"window": 3}) == CONFIGS["mtsa"].make("nmt", window=3)
    assert read(attention="disa") == CONFIGS["disa"].make()
    found, unused = AutoConfig.from_pretrained(
        tmp_path, return_unused_kwargs=True, num_labels=5, positions="none", device_map="cpu", foo=1
    )
    assert (found.num_labels, found.positions) == (5, "none")
    assert unused == {"device_map": "cpu", "foo": 1}


def test_tokens_that_other_models_name_are_kept(tmp_path):
    made = SelfattnConfig(vocab_size=50, cls_token_id=4)
    made.mask_token_id = 6
    made.save_pretrained(tmp_path)
    read = SelfattnConfig.from_pretrained(tmp_path)
    assert (read.cls_token_id, read.mask_token_id) == (4, 6)


def test_numbers_of_numpy_are_saved_as_numbers(tmp_path):
    sizes = {"hidden_size": np.int64(16), "num_attention_heads": np.int64(4)}
    switches = {"window": np.int64(3), "s2t_hidden": np.int32(5), "s2t_bias_init": np.float32(0.5)}
    made = SelfattnConfig(
        **sizes, dropout=np.float32(0.25), pad_token_id=np.int64(1), switches=switches
    )
    made.save_pretrained(tmp_path)
    read = SelfattnConfig.from_pretrained(tmp_path)
    assert (read.dropout, read.hidden_size, read.pad_token_id) == (0.25, 16, 1)
    assert read.attention_config == made.attention_config
    assert read.attention_config.window == 3
    SelfattnConfig(switches={"window": list(np.arange(1, 5))}).save_pretrained(tmp_path)
    assert SelfattnConfig.from_pretrained(tmp_path).attention_config.window == (1, 2, 3, 4)


def test_a_configuration_holds_every_switch(tmp_path):
    """A default that changes later changes no saved model."""
    for name, kind in CONFIGS.items():
        for preset in (None, *kind.presets):
            made = SelfattnConfig(attention=name, preset=preset)
            made.save_pretrained(tmp_path)
            stored = json.loads((tmp_path / "config.json").read_text())["switches"]
            assert set(stored) == set(kind.switch_names()) - {"attention_dropout"}
            assert SelfattnConfig.from_pretrained(tmp_path).attention_config == kind.make(preset)
