"""Dropout stands before every linear map: what dropout 1 leaves of a layer are its biases."""

import copy

import pytest
from torch import nn

from benchmarks.testing import assert_close
from selfattn.config import CONFIGS
from selfattn.layers import build_attention
from selfattn.layers.dropout import Dropout
from selfattn.layers.linear import PerHeadLinear
from tests.selfattn.layers.test_contract import FORMS, built, title, tokens

# Each has a linear map, or a bias that would be seen.
MAPS = ("qk_bias", "value_bias", "output_bias", "fusion_gate")
LINEAR = (nn.Linear, PerHeadLinear, nn.Conv1d)


def check_dropout(module, *inputs):
    """What dropout 1 leaves of a float64 module are its biases; nothing reaches a linear map."""
    bare = copy.deepcopy(module).eval()
    found = [part for part in module.modules() if isinstance(part, Dropout)]
    assert found and {part.p for part in found} == {0.5}
    for part in found:
        part.p = 1.0
    for part in bare.modules():
        if isinstance(part, LINEAR):
            nn.init.zeros_(part.weight)
    for name, parameter in bare.named_parameters():
        if name.endswith("weight_x"):  # of recurrent cells
            nn.init.zeros_(parameter)
    assert_close("biases", bare(*inputs), module.train()(*inputs), 1e-12)

    def check(_, given):
        assert not given[0].any()

    for part in module.modules():  # of scores, too, which the output does not show
        if isinstance(part, LINEAR):
            part.register_forward_pre_hook(check)
    module(*inputs)


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("form", [form for form in FORMS if form[0] != "multihead"], ids=title)
def test_dropout_is_on_the_input_of_every_linear_map(form, projected):
    name, preset, switches = form
    known = CONFIGS[name].switch_names()
    more = {switch: True for switch in MAPS if switch in known}
    if "output_projection" in known:  # its dropout would hide all others
        more["output_projection"] = projected
    layer = built((name, preset, {"dense_dropout": 0.5, **more, **switches}))
    check_dropout(layer, tokens())
    layer.select_all = False
    layer(tokens())


@pytest.mark.parametrize("sampler", ["parallel", "iterative"])
def test_samplers_have_it_too(sampler):
    layer = build_attention("resa", 8, 2, sampler=sampler, dense_dropout=0.5)
    for each in (layer.head_sampler, layer.dependent_sampler):
        assert [each.network[place].p for place in (0, 3)] == [0.5, 0.5]
