"""Fast-DiSA: its note's formula written out, what MTSA calls it, and published sizes."""

import pytest
import torch

from benchmarks.testing import assert_close, noisy
from selfattn.config import BiBloSAConfig, FastDiSAConfig, MTSAConfig, ReSAConfig
from selfattn.errors import UserError
from selfattn.layers import MTSA, DiSA, FastDiSA, build_attention
from selfattn.masks import PositionalMask


def built(preset, **switches):
    torch.manual_seed(1)
    layer = noisy(build_attention("fast_disa", 12, 2, preset=preset, **switches).double(), 0.2)
    return layer, torch.randn(2, 5, 12, dtype=torch.float64)


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.mark.parametrize("preset", ["paper", "code"])
def test_equations_1_to_6(preset):
    layer, x = built(preset)
    first, last = layer.source2token.network[1], layer.source2token.network[4]
    assert (layer.v_proj.bias is None) is (preset == "paper")
    outs = []
    for c, direction in enumerate(("forward", "backward")):
        head = slice(6 * c, 6 * c + 6)
        u = x @ layer.v_proj.weight[head].T  # eq. 6: x^l = W^(m) x, and nothing else
        if preset == "code":
            u = torch.relu(u + layer.v_proj.bias[head])
        q, k = u @ layer.q_proj.weight[c], u @ layer.k_proj.weight[c]
        s = torch.relu(u @ first.weight[c] + first.bias[c]) @ last.weight[c] + last.bias[c]
        weight = torch.sigmoid(q @ k.mT * 6**-0.5)[..., None] * torch.exp(s)[:, None]
        visible = PositionalMask(direction, include_self=preset == "paper").allowed(5)[..., None]
        weight = weight * visible
        total = weight.sum(2)
        h = (weight * u[:, None]).sum(2) / torch.where(total == 0, 1.0, total)
        if preset == "code":
            g = torch.cat([u, h], -1) @ layer.gate.linear.weight[c] + layer.gate.linear.bias[c]
            h = torch.sigmoid(g) * u + torch.sigmoid(-g) * h
        outs.append(h)
    assert_close(preset, torch.cat(outs, -1), layer(x), 1e-12)


def test_its_code_is_the_sentence_form_of_mtsa():
    layer, x = built("code")
    sentence = build_attention("mtsa", 12, 2, preset="sentence").double()
    sentence.load_state_dict(layer.state_dict())
    hidden = torch.tensor([[1, 1, 0, 0, 0], [0, 0, 0, 0, 1]]).bool()
    assert torch.equal(layer(x, hidden), sentence(x, hidden))


def test_a_layer_takes_the_configuration_of_its_own_mechanism_alone():
    for layer, of_another in (
        (FastDiSA, MTSAConfig), (MTSA, FastDiSAConfig), (DiSA, ReSAConfig), (DiSA, BiBloSAConfig),
    ):  # fmt: skip
        with pytest.raises(UserError, match="it must be a configuration of"):
            layer(of_another.make(), 8, 2)


def test_the_value_map_of_the_code_in_the_equations_is_two_switches():
    assert built("paper", value_activation="relu", value_bias=True)[0].config == FastDiSAConfig(
        include_self=True, value_activation="relu", value_bias=True
    )
    bare = build_attention("fast_disa", 300, 2, preset="paper", head_dim=300)
    mapped = build_attention("fast_disa", 300, 2, preset="paper", head_dim=300, value_bias=True)
    # Eq. 6, two maps of eq. 2 and the two of eq. 3 with their biases, for each of two heads.
    assert size(bare) == 2 * (300 * 300 + 2 * 300 * 300 + 2 * (300 * 300 + 300)) == 901_200
    assert size(mapped) == size(bare) + 600


@pytest.mark.parametrize("name", ["qk_bias", "output_projection", "s2t_input"])
def test_what_the_equations_fix_is_no_switch(name):
    with pytest.raises(UserError, match=f"'fast_disa' has no switch '{name}'"):
        FastDiSAConfig.make("paper", **{name: True})
    with pytest.raises(UserError, match=f"{name} 'x' is not allowed for attention 'fast_disa'"):
        FastDiSAConfig(**{name: "x"})
