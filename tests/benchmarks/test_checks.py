"""Each method that is timed computes what it should, and a wrong one is found out."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from benchmarks.checks import CheckFailed
from benchmarks.kinds import LayerMethod
from benchmarks.method import REFERENCES, Setup
from benchmarks.methods import all_methods, choose
from benchmarks.rivals.dot_product import Explicit, MultiHeadAround, TorchMultiHead
from selfattn.errors import UserError

SMALL = Setup(embed_dim=16, heads=4, ffn_dim=24)
EVERY = [pytest.param(m, id=f"{m.level}-{m.name}") for m in all_methods() if not m.gpu_only]


@pytest.mark.parametrize("mode", ["training", "inference"])
@pytest.mark.parametrize("method", EVERY)
def test_every_method_passes_its_check(method, mode):
    method.check(replace(SMALL, mode=mode), 9)


@pytest.mark.parametrize("method", EVERY)
def test_a_step_runs_in_both_modes_and_leaves_no_gradient(method):
    for mode in ("training", "inference"):
        torch.manual_seed(0)
        case = method.case(replace(SMALL, mode=mode), 2, 5)
        case.step()
        assert case.parameters == sum(p.numel() for p in method.build(SMALL).parameters())


def test_a_level_has_its_reference_and_no_name_twice():
    for level, reference in REFERENCES.items():
        names = [m.name for m in all_methods() if m.level == level]
        assert reference in names
        assert len(set(names)) == len(names)


class Leaky(nn.Module):
    """Takes the mean over all tokens, padding included."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x, padding_mask=None):
        return self.scale * (x - x.mean(1, keepdim=True))


class InfiniteGradient(nn.Module):
    """Right outputs, but the slope of a square root at 0."""

    def forward(self, x, padding_mask=None):
        return x + torch.sqrt(x - x)


class Spare(nn.Linear):
    """A bias that takes no part."""

    def forward(self, x, padding_mask=None):
        return x @ self.weight


def other_weights(module, setup):
    torch.manual_seed(7)
    return MultiHeadAround(setup.embed_dim, setup.heads, Explicit())


@pytest.mark.parametrize(
    ("build", "reference", "words"),
    [
        (lambda s: Leaky(), None, "beside another sentence"),
        (lambda s: InfiniteGradient(), None, "gradient of input 0 is not finite"),
        (lambda s: Spare(16, 16), None, "gradient of bias is missing"),
        (lambda s: TorchMultiHead(16, 4), other_weights, "output, padding none, against the ref"),
    ],
)
def test_a_wrong_method_fails_its_check(build, reference, words):
    with pytest.raises(CheckFailed, match=words):
        LayerMethod("wrong", "wrong", build, reference).check(SMALL, 9)


def test_a_wrong_gradient_alone_is_found():
    class HalfGradient(TorchMultiHead):
        def forward(self, x, padding_mask=None):
            return super().forward(x / 2 + x.detach() / 2, padding_mask)

    (true,) = choose("layer", ["multihead"])
    method = LayerMethod("half", "half", lambda s: HalfGradient(16, 4), true.reference)
    with pytest.raises(CheckFailed, match="gradient of input 0, padding none"):
        method.check(SMALL, 9)


def test_low_precision_is_held_to_a_bound_of_its_own():
    for name in ("multihead", "mtsa:paper"):
        (method,) = choose("layer", [name])
        method.check(Setup(embed_dim=16, heads=4, dtype="bfloat16"), 9)


def test_unknown_methods_are_named(tmp_path):
    with pytest.raises(
        UserError, match="'mtza', which is unknown at level 'layer'; allowed are mu"
    ):
        choose("layer", ["mtza"])
    with pytest.raises(UserError, match="there is no such file"):
        all_methods(tmp_path / "none.py")
    (tmp_path / "empty.py").write_text("METHODS = 3\n")
    with pytest.raises(UserError, match="no list METHODS"):
        all_methods(tmp_path / "empty.py")
