"""Flags <-> configuration, in-process."""

from __future__ import annotations

import argparse
from argparse import Namespace
from dataclasses import fields

import pytest

from plugin import args as plugin_args
from selfattn.config import CONFIGS, FastDiSAConfig, MTSAConfig, MultiHeadConfig
from selfattn.config.base import is_constant
from selfattn.errors import UserError
from tests.plugin.helpers import parsed


def parse(*flags):
    parser = argparse.ArgumentParser(argument_default=argparse.SUPPRESS)
    plugin_args.add_attention_args(parser)
    return parser.parse_args(flags)


def test_every_switch_of_every_mechanism_is_a_flag():
    parser = argparse.ArgumentParser()
    plugin_args.add_attention_args(parser)
    known = {option for action in parser._actions for option in action.option_strings}
    for name in CONFIGS:
        for f in fields(CONFIGS[name]):
            if f.name != "attention_dropout":  # fairseq's own flag
                flag = f"--{name}-{f.name}".replace("_", "-")
                assert (flag in known) is not is_constant(f), flag


def test_a_flag_of_each_kind_reaches_the_configuration():
    args = parse(
        *("--encoder-attention", "mtsa", "--mtsa-preset", "srl", "--mtsa-masks", "backward"),
        *("--mtsa-include-self", "--no-mtsa-zero-padding", "--mtsa-s2t-bias-init", "5"),
        *("--mtsa-key-dim", "7", "--mtsa-window", "3,5"),
    )
    args.attention_dropout = 0.25
    config = plugin_args.attention_config(args)
    assert config == MTSAConfig.make(
        "srl",
        masks="backward",
        include_self=True,
        zero_padding=False,
        s2t_bias_init=5.0,
        key_dim=7,
        window=(3, 5),
        attention_dropout=0.25,
        qkv_init_gain=1 / 2**0.5,
    )


def test_projections_are_fairseqs_unless_the_presets_are_asked_for():
    ours = plugin_args.attention_config(parse("--encoder-attention", "mtsa"))
    assert (ours.qk_bias, ours.value_bias, ours.output_bias) == (True, True, True)
    published = plugin_args.attention_config(
        parse("--encoder-attention", "mtsa", "--mtsa-projections", "preset")
    )
    assert published == MTSAConfig.make("paper")
    mixed = plugin_args.attention_config(parse("--encoder-attention", "mtsa", "--no-mtsa-qk-bias"))
    assert (mixed.qk_bias, mixed.value_bias) == (False, True)


def test_constants_of_a_mechanism_stay_as_they_are():
    """Fairseq's biases have no place in Fast-DiSA: no flag, and no change from the paper's form."""
    args = parse("--encoder-attention", "fast_disa", "--fast-disa-preset", "code")
    assert plugin_args.attention_config(args) == FastDiSAConfig.make("code")
    assert not hasattr(args, "fast_disa_qk_bias")
    paper = plugin_args.attention_config(parse("--encoder-attention", "fast_disa"))
    assert paper == FastDiSAConfig.make("paper")


def test_a_checkpoint_of_when_the_value_bias_was_no_switch_has_it():
    """Its flags hold every other switch; a command that names some of them is no checkpoint."""
    args = parse("--encoder-attention", "fast_disa", "--fast-disa-window", "3")
    assert not plugin_args.attention_config(args).value_bias
    del args.fast_disa_value_bias, args.fast_disa_scores  # newer still
    args.fast_disa_value_activation = "relu"
    config = plugin_args.attention_config(args)
    assert (config.value_bias, config.value_activation, config.window) == (True, "relu", 3)
    assert args.fast_disa_value_bias


def test_what_was_resolved_is_written_back_and_resolves_to_itself():
    args = parse("--encoder-attention", "mtsa", "--mtsa-preset", "nmt")
    config = plugin_args.attention_config(args)
    assert args.mtsa_sigma_s == "scaled_logsigmoid"
    del args.mtsa_preset  # a checkpoint must not depend on what a preset means later
    assert plugin_args.attention_config(args) == config


def test_multihead_is_fairseqs_own():
    assert plugin_args.attention_config(parse()) is None
    both = parse("--encoder-attention", "multihead", "--mtsa-preset", "nmt")
    assert plugin_args.attention_config(both) is None  # the same command with another word
    off = parse("--encoder-attention", "multihead", "--multihead-masks", "none")
    assert plugin_args.attention_config(off) is None


def test_multihead_with_a_switch_is_ours():
    flags = ("--multihead-masks", "forward_backward", "--multihead-window", "3,5")
    args = parse("--encoder-attention", "multihead", *flags)
    config = plugin_args.attention_config(args)
    assert config == MultiHeadConfig(masks="forward_backward", window=(3, 5))
    assert (args.multihead_distance, args.multihead_bias) == ("none", True)
    assert plugin_args.attention_config(args) == config


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"encoder_attention": "mtsaa"}, "--encoder-attention 'mtsaa' is unknown"),
        (
            {"encoder_attention": "multihead", "mtsa_window": 3},
            "--mtsa-window 3 is a switch of --encoder-attention mtsa, not of multihead",
        ),
        (
            {"encoder_attention": "mtsa", "multihead_masks": "forward"},
            "--multihead-masks forward is a switch of --encoder-attention multihead, not of mtsa",
        ),
        ({"encoder_attention": "mtsa", "mtsa_preset": "tri"}, "preset 'tri' is unknown"),
        ({"encoder_attention": "mtsa", "mtsa_window": 0}, "window 0"),
        ({"encoder_attention": "mtsa", "mtsa_s2t_layers": 5}, "s2t_layers 5"),
    ],
)
def test_bad_combinations_are_refused(args, message):
    with pytest.raises(UserError, match=message):
        plugin_args.attention_config(Namespace(**args))


@pytest.mark.parametrize("flags", [("--mtsa-window", "x"), ("--mtsa-masks", "left")])
def test_argparse_refuses_what_is_no_value_at_all(flags, capsys):
    with pytest.raises(SystemExit):
        parse(*flags)
    assert flags[1] in capsys.readouterr().err


def test_flags_that_a_language_model_would_not_read_are_refused(capsys):
    ignored = "--word-embeddings v.txt --pool max --head-hidden-size 7 --highway"
    flags = f"--task masked_lm --arch sentence_lm --hidden-size 9 {ignored}"
    with pytest.raises(SystemExit):
        parsed("data", *flags.split())
    assert f"unrecognized arguments: {ignored}\n" in capsys.readouterr().err


def test_heads_must_divide_the_width():
    plugin_args.check_heads(64, 4)
    for heads in (0, 3):
        with pytest.raises(UserError, match=f"--encoder-attention-heads {heads} does not divide"):
            plugin_args.check_heads(64, heads)
