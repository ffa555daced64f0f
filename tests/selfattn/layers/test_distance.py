"""A learnable penalty for distance, in every layer that has positional masks."""

from dataclasses import fields

import pytest
import torch

from benchmarks.testing import assert_close
from selfattn.config import CONFIGS, MTSAConfig
from selfattn.errors import UserError
from selfattn.layers import MaskedSelfAttention, build_attention
from selfattn.layers.distance import DistanceBias
from selfattn.masks import PositionalMask, head_masks
from selfattn_tasks.words.initialise import initialise

MASKED = [name for name, c in CONFIGS.items() if "masks" in {f.name for f in fields(c)}]


def built(name, heads=2, **switches):
    torch.manual_seed(1)
    layer = build_attention(name, 12, heads, **switches).double()
    return layer, torch.randn(2, 12, 12, dtype=torch.float64)


def slopes(module):
    return [p for name, p in module.named_parameters() if name.endswith("log_slope")]


def test_all_mechanisms_with_masks_have_it():
    assert {"mtsa", "fast_disa", "disa", "biblosa", "resa"} <= set(MASKED)
    assert all("distance" in {f.name for f in fields(CONFIGS[name])} for name in MASKED)


def test_slopes_start_in_one_range_for_each_direction():
    linear = DistanceBias(head_masks("forward_backward", 8), "linear")(torch.zeros(3, 1))
    half = -torch.tensor([2.0**-1, 2.0**-3, 2.0**-5, 2.0**-7])
    torch.testing.assert_close(linear[:, 1], torch.cat([half, half]))
    torch.testing.assert_close(linear[:, 2], 2 * linear[:, 1])
    assert (linear[:, 0] == 0).all()
    log = DistanceBias([PositionalMask()], "log")(torch.zeros(4, 1))
    torch.testing.assert_close(log, -torch.tensor([[1.0, 2.0, 3.0, 4.0]]).log())


@pytest.mark.parametrize("kind", ["linear", "log"])
def test_mtsa_with_windows_is_the_formula(kind):
    layer, x = built("mtsa", heads=4, preset="srl", distance=kind, window=(2, 9, 3, 9))
    with torch.no_grad():
        layer.distance.log_slope.add_(torch.randn(4))
    maps = (layer.q_proj, layer.k_proj, layer.v_proj)
    q, k, v = (linear(x).unflatten(-1, (4, 3)) for linear in maps)
    s = layer.source2token.network[1](x).unflatten(-1, (4, 3))
    expected = torch.zeros(2, 12, 4, 3, dtype=torch.float64)
    for c, mask in enumerate(layer.masks):
        slope = layer.distance.log_slope[c].exp()
        for j in range(12):
            keys = mask.allowed(12)[j].nonzero()[:, 0]
            if len(keys):
                t = (keys - j).abs().double()
                cost = slope * (t if kind == "linear" else torch.log(1 + t))
                r = torch.einsum("bid,bd->bi", k[:, keys, c], q[:, j, c]) / 3**0.5 - cost
                p = torch.softmax(r[..., None] + s[:, keys, c], 1)
                expected[:, j, c] = (p * v[:, keys, c]).sum(1)
    assert_close(kind, layer.out_proj(expected.flatten(2)), layer(x), 1e-12)


@pytest.mark.parametrize("kind", ["linear", "log"])
@pytest.mark.parametrize("name", MASKED)
def test_it_changes_the_layer_and_learns(name, kind):
    layer, x = built(name, distance=kind)
    plain, _ = built(name)
    plain.load_state_dict({k: v for k, v in layer.state_dict().items() if "log_slope" not in k})
    y = layer(x)
    assert (y - plain(x)).abs().max() > 1e-4
    y.square().sum().backward()
    assert slopes(layer)
    for slope in slopes(layer):  # against a difference quotient
        with torch.no_grad():
            slope += 1e-6
            higher = layer(x).square().sum()
            slope -= 2e-6
            quotient = (higher - layer(x).square().sum()) / 2e-6
            slope += 1e-6
        assert abs(quotient) > 1e-6
        torch.testing.assert_close(slope.grad.sum(), quotient, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", MASKED)
def test_padding_changes_no_real_token(name, side):
    layer, x = built(name, distance="linear")
    filler = torch.full((2, 7, 12), 9.0, dtype=torch.float64)
    parts = [filler, x] if side == "left" else [x, filler]
    hidden = torch.tensor([True] * 7 + [False] * 12)
    hidden = hidden if side == "left" else hidden.flip(0)
    y = layer(torch.cat(parts, 1), hidden.expand(2, -1))
    assert_close(side, layer(x), y[:, ~hidden], 1e-12)


@pytest.mark.parametrize("name", ["mtsa", "disa"])
def test_a_steep_slope_sees_its_neighbour_alone(name):
    """What inspect() draws is what the operator computes."""
    layer, x = built(name, distance="linear", masks="backward")
    with torch.no_grad():
        for p in slopes(layer):
            p.fill_(4.0)
    weights = layer.inspect(x).token2token
    assert (weights.diagonal(1, 2, 3) > 0.999).all()
    assert layer(x).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keeps_the_table_in_float32(dtype):
    layer, x = built("mtsa", distance="linear")
    low = layer.to(dtype)(x.to(dtype))
    assert low.dtype == dtype and low.isfinite().all()
    assert layer.distance(torch.zeros(3000, 1)).dtype == torch.float32


def test_the_taggers_initialisers_leave_slopes_alone():
    layer, _ = built("mtsa", distance="linear")
    before = layer.distance.log_slope.clone()
    initialise(layer, "glorot_normal")
    assert torch.equal(layer.distance.log_slope, before)


def test_what_cannot_be_is_refused():
    with pytest.raises(UserError, match="distance 'far' is not allowed for attention 'mtsa'"):
        MTSAConfig.make(distance="far")
    with pytest.raises(UserError, match="distance 'far' is unknown; allowed are none, linear, log"):
        MaskedSelfAttention([PositionalMask()], 4, distance="far")
    layer, x = built("disa", distance="log", backend="fused")
    with pytest.raises(UserError, match="'fused' cannot be used: it has no distance bias"):
        layer.float()(x.float())
