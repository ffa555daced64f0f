"""Each switch and rule reaches the part of a layer that it is about."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.testing import assert_close
from selfattn.layers import Source2Token, build_attention, resa
from selfattn.layers.base import activation, join_heads, scaled_products, split_heads, zero_padding
from selfattn.layers.inspection import mask_names
from selfattn.layers.iterative_sampling import IterativeSampling
from selfattn.layers.positions import Alibi, rotate
from selfattn.layers.rss import RSS
from selfattn.layers.selection import Selection
from selfattn.layers.source2token_scores import Source2TokenScores
from selfattn.masks import PositionalMask, head_masks
from tests.selfattn.layers import test_biblosa, test_inspection, test_mtsa


@pytest.mark.parametrize("qk_input", ["input", "value"])
def test_the_gain_is_that_of_queries_keys_and_values(qk_input):
    found = []
    for gain in (1.0, 0.5):
        torch.manual_seed(1)
        layer = build_attention("mtsa", 12, 2, qk_input=qk_input, qkv_init_gain=gain)
        found.append([layer.v_proj.weight, layer.q_proj.weight, layer.k_proj.weight])
    for one, half in zip(*found, strict=True):
        assert torch.equal(half, one / 2)


@pytest.mark.parametrize("more", [{"qk_bias": True}, {"key_dim": 3}])
def test_many_tokens_are_computed_as_few(more):
    layer, x = test_mtsa.built("paper", qk_input="value", s2t_input="value", **more)
    many = x.repeat(3, 1, 1)
    for row, alone in zip(layer(many), many, strict=True):
        assert_close("alone", layer(alone[None])[0], row, 1e-12)


def test_scores_are_scaled_by_the_width_of_a_head():
    layer, _ = test_mtsa.built("nmt", head_dim=3)
    s = torch.randn(1, 2, 4, 3).double()
    assert_close("s", F.logsigmoid(s / 3**0.5), layer._sigma_s(s), 1e-12)


def test_activations_are_those_of_their_names():
    x = torch.linspace(-3, 3, 7)
    for name in ("relu", "elu", "gelu", "tanh"):
        assert torch.equal(activation(name)(x), getattr(torch, name, getattr(F, name, None))(x))


def test_what_is_shown_is_not_rounded_by_autocast():
    q, k = torch.randn(2, 1, 2, 5, 4)
    with torch.autocast("cpu", torch.bfloat16):
        inside = scaled_products(q, k)
    assert torch.equal(inside, scaled_products(q, k))


@pytest.mark.parametrize(
    "more", [{"include_self": True}, {"window": (1, 4)}, {"masks": "backward"}]
)
def test_masks_of_blocks(more):
    layer = test_biblosa.built(**more)
    c = layer.config
    expected = head_masks(c.masks, 2, c.include_self, c.window)
    assert tuple(head.mask for head in layer.heads) == expected


def test_the_layer_between_blocks_has_the_switches():
    more = {"c": 2.0, "activation": "tanh", "attention_dropout": 0.3, "distance": "log",
            "dense_dropout": 0.2, "include_self": True, "backend": "eager"}  # fmt: skip
    inner = test_biblosa.built("code", block_length=2, window=4, **more).heads[0].between.config
    assert {name: getattr(inner, name) for name in more} == more
    assert inner.window == 2 and inner.masks == "forward"


def test_what_is_shown_of_the_gate_of_blocks_is_what_a_token_keeps():
    layer = test_biblosa.built(block_length=3)
    for head in layer.heads:
        nn.init.zeros_(head.fusion.weight)
        nn.init.constant_(head.fusion.bias, 2.0)
    gate = layer.inspect(test_biblosa.tokens(2, 5)).gate
    kept = 1 - torch.sigmoid(torch.tensor(2.0)).item()
    assert_close("kept", torch.full_like(gate, kept), gate, 1e-6)


def test_first_values_have_the_size_of_their_matrices():
    torch.manual_seed(0)
    gate = build_attention("biblosa", 200, 2).heads[0].block_gate.linear.weight
    relative = build_attention("multihead", 200, 2, positions="relative", relative_clip=50).relative
    for part, sizes in (*((part, 200) for part in gate.view(2, 100, 100)),
                        (relative.keys, 201), (relative.values, 201)):  # fmt: skip
        assert abs(part.abs().max() - (6 / sizes) ** 0.5) < 1e-3


def test_an_iterative_sampler_sees_its_own_choices():
    sampler, x, real = IterativeSampling(4, 4), torch.randn(1, 2, 4), torch.ones(1, 2).bool()
    (_, a), (_, b) = (sampler.choose(x, real, torch.tensor([[n, 0.5]])) for n in (0.0, 1.0))
    assert a[0, 0] == b[0, 0] and a[0, 1] != b[0, 1]  # eq. 24


@pytest.mark.parametrize("kind", [RSS, IterativeSampling])
def test_probabilities_are_float32(kind):
    found = kind(4, 4).bfloat16()(torch.randn(2, 3, 4).bfloat16())
    assert found.probability.dtype == found.log_probability.dtype == torch.float32


def test_the_threshold_selects_what_is_at_it():
    sampler = RSS(4, 4)
    nn.init.zeros_(sampler.network[-1].weight)
    assert sampler(torch.randn(1, 3, 4), how="threshold").selected.all()


def test_all_of_padding_is_nothing():
    found = Selection.everything(torch.tensor([[1, 0], [0, 0]]).bool())
    assert found.probability.tolist() == [[1, 0], [0, 0]] and found.share.tolist() == [1, 0]


def test_switches_of_samplers():
    layer = build_attention("resa", 8, 2, sampler_lr_scale=0.5, sampler_hidden=5)
    for sampler in (layer.head_sampler, layer.dependent_sampler):
        linear = [part for part in sampler.modules() if isinstance(part, nn.Linear)]
        assert linear[0].out_features == 5
        assert all(hasattr(part, "parametrizations") for part in linear)


def test_a_sampler_that_is_trained_needs_no_warning(caplog):
    resa._warn_once.cache_clear()
    layer = build_attention("resa", 8, 2)
    layer.has_policy = True
    layer.train()(torch.randn(1, 3, 8))
    assert not caplog.records


def test_means_of_many_large_numbers_in_float16():
    layer, real = build_attention("resa", 8, 2).half(), torch.ones(1, 3000).bool()
    h = torch.full((1, 3000, 8), 30.0).half()
    assert_close("mean", h[:, :1].float(), layer._mean(h, real, real).float(), 1e-3)
    sampler, seen = RSS(8, 4).half(), []
    sampler.network.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    sampler(h)
    assert seen[0].isfinite().all()


def test_heads_without_biases():
    layer = build_attention("multihead", 8, 2, bias=False)
    assert not any("bias" in name for name, _ in layer.named_parameters())


@pytest.mark.parametrize(
    "switches", [{}, {"distance": "linear"}, {"window": 2}, {"positions": "alibi"}], ids=str
)
def test_weights_of_a_sentence_of_padding(switches):
    layer = test_inspection.make("multihead", None, **switches)
    x = torch.randn(2, 4, test_inspection.WIDTH).double()
    hidden = torch.tensor([[0] * 4, [1] * 4]).bool()
    v = split_heads(layer.v_proj(zero_padding(x, hidden)), test_inspection.HEADS)
    y = layer.out_proj(join_heads(layer.inspect(x, hidden).token2token @ v))
    assert_close("output", layer(x, hidden), y, 1e-12)
    weights = Source2Token(4).weights(torch.randn(2, 4, 4), hidden)
    assert (weights[hidden] == 0).all()


def test_positions_beyond_256_in_bfloat16():
    low = torch.randn(1, 1, 600, 4).bfloat16()
    assert_close("rotary", rotate(low.float()), rotate(low).float(), 0.02)
    assert Alibi([PositionalMask()])(torch.zeros(1, 600, 4).bfloat16()).dtype == torch.float32


def test_hidden_features_of_source2token():
    assert Source2Token(8, hidden=3).scores.network[1].weight.shape == (1, 8, 3)
    joint = Source2TokenScores(2, 8, 4, hidden=3, sharing="joint")
    assert joint.network[1].weight.shape == (6, 8)


def test_a_mask_without_direction_has_no_itself():
    masks = [PositionalMask(include_self=True), PositionalMask("forward", True, 3)]
    assert mask_names(masks) == ("no direction", "forward with itself, window 3")
