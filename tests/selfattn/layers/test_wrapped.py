"""Adapters, hooks and offloading stand between a layer and its linear maps: all take effect."""

import copy

import pytest
import torch
from torch import nn

from benchmarks.testing import noisy
from selfattn.config import CONFIGS
from selfattn.layers import ATTENTIONS, build_attention
from selfattn.layers.linear import PerHeadLinear

FORMS = [(name, preset) for name in ATTENTIONS for preset in CONFIGS[name].presets or [None]]


class Doubled(nn.Module):
    """What an adapter is: a module around a linear map, which has its weight, too."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.weight, self.bias = inner, inner.weight, inner.bias

    def forward(self, x):
        return 2 * self.inner(x)


def wrap(module, place):
    parent, _, name = place.rpartition(".")
    module.get_submodule(parent)._modules[name] = Doubled(module.get_submodule(place))


def hook(module, place):
    inner = module.get_submodule(place)
    inner.register_forward_hook(lambda module, args, output: 2 * output)


def replace_forward(module, place):
    inner = module.get_submodule(place)
    forward = inner.forward
    inner.forward = lambda x: 2 * forward(x)


def pre_hook(module, place):
    inner = module.get_submodule(place)
    inner.register_forward_pre_hook(lambda module, args: (2 * args[0],))


class TwiceLinear(nn.Linear):
    """What an adapter may be, too."""

    def forward(self, x):
        return 2 * super().forward(x)


class TwicePerHead(PerHeadLinear):
    """The same for each head."""

    def forward(self, x):
        return 2 * super().forward(x)


def subclass(module, place):
    inner = module.get_submodule(place)
    inner.__class__ = TwicePerHead if isinstance(inner, PerHeadLinear) else TwiceLinear


def test_hooks_on_gradients_are_called():
    """Of a form that takes a short cut in long sentences."""
    layer, seen = build_attention("fast_disa", 8, 2, preset="code"), []
    layer.q_proj.register_full_backward_pre_hook(lambda module, grad: seen.append(module))
    layer(torch.randn(1, 40, 8, requires_grad=True)).sum().backward()
    assert seen == [layer.q_proj]


@pytest.mark.parametrize("change", [wrap, hook, replace_forward])
def test_a_graph_calls_them_too(change):
    layer = build_attention("biblosa", 8, 2).double().eval()
    for name in [n for n, _ in layer.named_modules() if n.endswith("fusion")]:
        change(layer, name)
    x = torch.randn(2, 16, 8, dtype=torch.float64)
    graph = torch.compile(layer, backend="eager")
    torch.testing.assert_close(graph(x), layer(x))


@pytest.mark.parametrize("change", [wrap, hook, replace_forward, pre_hook, subclass])
@pytest.mark.parametrize(("name", "preset"), FORMS)
def test_what_stands_for_a_linear_map_takes_effect(name, preset, change):
    torch.manual_seed(1)
    layer = noisy(build_attention(name, 8, 2, preset=preset).double().eval(), 0.1)
    x = torch.randn(2, 40, 8, dtype=torch.float64)  # long enough for every short cut
    before = layer(x)
    found = [n for n, m in layer.named_modules() if type(m) in (nn.Linear, PerHeadLinear)]
    places = [place for place in found if "sampler" not in place]
    assert places
    for place in places:
        changed = copy.deepcopy(layer)
        change(changed, place)
        assert not torch.allclose(changed(x), before), place


@pytest.mark.parametrize(("name", "preset"), FORMS)
def test_an_offloaded_layer_computes_and_shows_the_same(name, preset):
    accelerate = pytest.importorskip("accelerate")
    layer = noisy(build_attention(name, 8, 2, preset=preset).eval(), 0.1)
    x = torch.randn(2, 5, 8)
    away = accelerate.cpu_offload(copy.deepcopy(layer), execution_device=torch.device("cpu"))
    assert next(away.parameters()).is_meta
    torch.testing.assert_close(away(x), layer(x))
    found, expected = (
        {name: t for name, t in vars(one.inspect(x)).items() if isinstance(t, torch.Tensor)}
        for one in (away, layer)
    )
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("contexts", ["both", "local", "global"])
def test_bi_blosa_gives_the_same_either_way(contexts):
    torch.manual_seed(1)
    layer = build_attention("biblosa", 8, 2, block_length=3, contexts=contexts).double().eval()
    x = torch.randn(2, 7, 8, dtype=torch.float64)
    padding = torch.arange(7) >= torch.tensor([[7], [4]])
    before = layer(x, padding)
    for name, module in layer.named_modules():
        if name.endswith("fusion"):
            module.register_forward_hook(lambda module, args, output: None)
    torch.testing.assert_close(layer(x, padding), before)
