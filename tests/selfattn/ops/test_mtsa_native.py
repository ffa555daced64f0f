"""MTSA's kernel in C: dropout, threads, torch.compile, vector widths."""

import os

import pytest
import torch

from benchmarks.testing import PADDINGS, assert_close, padding_mask, run_with_grads
from selfattn.errors import UserError
from selfattn.masks import PositionalMask
from selfattn.ops import mtsa
from selfattn.ops.mtsa import native
from selfattn.ops.mtsa.equation import equation

MASKS = [*(PositionalMask(d) for d in ("forward", "backward", "none")), PositionalMask(window=3)]

pytestmark = pytest.mark.skipif(
    native.refusal(torch.float32) is not None, reason=str(native.refusal(torch.float32))
)


def inputs(length=33, key_width=16, width=24, batch=2):
    """q, k, v, s as a layer makes them: heads side by side in memory; and a gradient."""
    generator = torch.Generator().manual_seed(3)
    *x, upstream = (
        torch.randn(batch, length, 4, n, generator=generator).transpose(1, 2)
        for n in (key_width, key_width, width, width, width)
    )
    return x, upstream


@pytest.mark.parametrize("scale", [1.0, 40.0])  # 40: some queries are computed in double
@pytest.mark.parametrize("padding", PADDINGS)
def test_dropout_is_what_its_factors_say(padding, scale):
    x, upstream = inputs()
    x[3] = x[3] * scale
    hidden = padding_mask(padding, 2, 33)
    torch.manual_seed(11)
    got = run_with_grads(
        lambda *t: mtsa(*t, masks=MASKS, padding_mask=hidden, dropout_p=0.4, backend="fused"),
        x,
        upstream,
    )
    torch.manual_seed(11)
    factors = native.dropout_factors(x[2], 0.4, int(torch.randint(1 << 62, ())))
    expected = run_with_grads(
        lambda *t: equation(*t, None, hidden, MASKS, "identity", factors),
        [t.double() for t in x],
        upstream,
    )
    assert_close("results", expected, got, 5e-6)


@pytest.mark.parametrize("what", ["identity", "logsigmoid", "dropout"])
@pytest.mark.parametrize("padding", PADDINGS)
def test_backward_takes_some_keys_at_a_time(padding, what):
    """At 530 tokens three times or more, whatever the width of the vectors."""
    length = 530
    x, upstream = inputs(length, 3, 4)
    hidden = padding_mask(padding, 2, length)
    masks = [*MASKS[:2], PositionalMask(window=3), PositionalMask("backward", window=300)]
    given = {"masks": masks, "padding_mask": hidden}
    if what == "dropout":
        given["dropout_p"] = 0.4
        torch.manual_seed(11)
        factors = native.dropout_factors(x[2], 0.4, int(torch.randint(1 << 62, ())))

        def slow(*t):
            return equation(*t, None, hidden, masks, "identity", factors)
    else:
        given["sigma_t"] = what
        x.append(torch.linspace(1, -3, length).expand(4, length) * torch.arange(4)[:, None])

        def slow(*t):
            return mtsa(*t[:4], distance_bias=t[4], **given, backend="reference")

    torch.manual_seed(11)
    got = run_with_grads(
        lambda *t: mtsa(*t[:4], distance_bias=t[4] if t[4:] else None, **given, backend="fused"),
        x,
        upstream,
    )
    expected = run_with_grads(slow, [t.double() for t in x], upstream)
    assert_close("results", expected, got, 2e-5)


def one_score(length, scale):
    """q, k, v, one score for all features, and a bias by distance; a gradient."""
    x, upstream = inputs(length, 5, 19)
    x[3] = scale * x[3][..., :1]
    x.append(torch.linspace(1, -3, length).expand(4, length) * torch.arange(4)[:, None])
    return x, upstream


@pytest.mark.parametrize("scale", [1.0, 60.0])  # 60: some queries are computed in double
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("length", [33, 300])
def test_one_score_for_all_features(length, padding, scale):
    x, upstream = one_score(length, scale)
    given = {"masks": MASKS, "padding_mask": padding_mask(padding, 2, length), "backend": "fused"}
    narrow, wide = (
        run_with_grads(
            lambda q, k, v, s, b, widen=widen: mtsa(
                q, k, v, s.expand_as(v) if widen else s, **given, distance_bias=b
            ),
            x,
            upstream,
        )
        for widen in (False, True)
    )
    assert narrow[4].shape == (2, 4, length, 1)
    assert_close("results", narrow, wide, 5e-6)


@pytest.mark.parametrize("scale", [1.0, 60.0])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("length", [1, 33, 300])
def test_one_score_for_all_features_drops_weights_alone(length, padding, scale):
    """As dot-product attention does: no factor of features, and kept as often as asked."""
    x, upstream = one_score(length, scale)
    hidden = padding_mask(padding, 2, length)
    torch.manual_seed(7)
    given = {"masks": MASKS, "padding_mask": hidden, "dropout_p": 0.36, "backend": "fused"}
    got = run_with_grads(lambda *t: mtsa(*t[:4], distance_bias=t[4], **given), x, upstream)
    torch.manual_seed(7)
    seed = int(torch.randint(1 << 62, ()))
    pairs, features = native.dropout_factors(x[2], 0.36, seed, pairs_only=True)
    assert (features == 1).all() and (pairs[pairs > 0] == torch.tensor(1 / 0.64)).all()
    assert length < 300 or abs((pairs > 0).double().mean() - 0.64) < 0.003
    expected = run_with_grads(
        lambda *t: equation(*t, hidden, MASKS, "identity", (pairs.double(), None)),
        [t.double() for t in x],
        upstream,
    )
    assert_close("results", expected, got, 2e-5)


def test_a_gradient_penalty_of_one_score_under_dropout():
    x, _ = one_score(7, 1.0)
    torch.manual_seed(7)
    factors = native.dropout_factors(x[2], 0.36, int(torch.randint(1 << 62, ())), pairs_only=True)

    def penalty(run, values):
        leaves = [t.requires_grad_() for t in values]
        grads = torch.autograd.grad(run(*leaves).square().sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in grads), leaves)

    torch.manual_seed(7)
    got = penalty(
        lambda *t: mtsa(*t[:4], masks=MASKS, distance_bias=t[4], dropout_p=0.36, backend="fused"),
        [t.clone() for t in x],
    )
    expected = penalty(
        lambda *t: equation(*t, None, MASKS, "identity", factors), [t.double() for t in x]
    )
    assert_close("results", expected, got, 5e-5)


def test_dropout_factors_are_fair_and_differ_between_seeds_and_lines():
    z = torch.zeros(8, 4, 64, 48)
    kept = []
    for seed in (0, 1, 1 << 40):
        for factor in native.dropout_factors(z, 0.36, seed):
            on = (factor > 0).double()
            error = (0.8 * 0.2 / on.numel()) ** 0.5
            assert abs(on.mean() - 0.8) < 4 * error
            assert (factor[factor > 0] == 1 / 0.8).all()
            kept.append(on.flatten(0, 2)[:, :48])
    for a, b in zip(kept, kept[2:], strict=False):  # the same kind of factor, another seed
        agreement = (a == b).double().mean()
        assert abs(agreement - (0.8**2 + 0.2**2)) < 0.01
    lines = torch.corrcoef(kept[0].T)
    assert (lines - torch.eye(48)).abs().max() < 0.12


FORK = """
import os, signal, time, torch
from selfattn.masks import PositionalMask
from selfattn.ops import mtsa
torch.set_num_threads(2)
x = torch.zeros(2, 2, 64, 32)
(torch.ones(1 << 20) * 2).sum()
compute = lambda: mtsa(x, x, x, x, masks=PositionalMask("forward"), backend="fused")
if LOADED:
    compute()
child = os.fork()
if child == 0:
    os._exit(0 if torch.equal(compute(), x) else 3)
for _ in range(600):
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        raise SystemExit(os.waitstatus_to_exitcode(status))
    time.sleep(0.1)
os.kill(child, signal.SIGKILL)
raise SystemExit("the child hangs")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.parametrize("loaded", [True, False])
def test_a_forked_child_computes_with_several_threads(run_cli, loaded):
    """OpenMP's threads, which the parent has used, are not there."""
    run_cli(["-c", FORK.replace("LOADED", str(loaded))], fresh=True).ok()


def test_nan_of_one_sentence_stays_out_of_the_gradients_of_others():
    x, upstream = inputs(length=4)
    x[0][0, 0, 1, 0] = float("nan")
    hidden = torch.zeros(2, 4, dtype=torch.bool)
    hidden[1, 0] = True
    leaves = [t.clone().requires_grad_() for t in x]
    bias = torch.zeros(4, 4, requires_grad=True)
    out = mtsa(
        *leaves, masks=MASKS, padding_mask=hidden, sigma_t="logsigmoid", distance_bias=bias,
        backend="fused",
    )  # fmt: skip
    out.backward(upstream)
    assert leaves[0].grad[0].isnan().any()
    assert not any(t.grad[1].isnan().any() for t in leaves)


@pytest.mark.parametrize(("part", "seen"), [(0, 37), (1, 38), (3, 38)])
def test_nan_that_went_in_is_not_computed_again_in_double(part, seen, monkeypatch):
    """It would take a hundred times as long, for the same NaN."""
    x, _ = inputs(length=64)
    clean = mtsa(*x, masks=MASKS, backend="fused")
    x[part][0, 0, 37, 3] = float("nan")
    exact, run = [], native.native.run

    def spy(folder, task, tensors, *, backward):
        run(folder, task, tensors, backward=backward)
        exact.append(tensors["exact"].clone())

    monkeypatch.setattr(native.native, "run", spy)
    got = mtsa(*x, masks=MASKS, backend="fused")
    assert exact[0][0, 0, seen:].sum() == 0
    assert got[0, 0, seen].isnan().any()
    torch.testing.assert_close(got[0, 0, :37], clean[0, 0, :37])


def test_memory_with_the_negative_bit_is_read_as_torch_reads_it():
    x = torch.conj(torch.randn(1, 4, 8, 1, dtype=torch.complex64)).imag
    assert x.is_neg()
    for bias in (None, torch._neg_view(torch.randn(4, 8))):
        got, expected = (
            mtsa(x, x, x, x, masks=MASKS, distance_bias=bias, backend=b)
            for b in ("fused", "reference")
        )
        torch.testing.assert_close(got, expected)


def test_the_operators_keep_the_rules_of_torch_library():
    x, _ = inputs(7, batch=3)
    hidden = padding_mask("left", 3, 7)
    ends = [-7, 1, -7, -3], [-1, 7, 7, 3]
    for bias in (None, torch.randn(4, 7, requires_grad=True)):
        arguments = (*(t.requires_grad_() for t in x), bias, hidden, None, *ends, "identity", 0.0)
        torch.library.opcheck(torch.ops.selfattn.mtsa_native_forward.default, arguments)


@pytest.mark.parametrize("place", range(1, 5))
def test_memory_of_another_device_is_not_read(place):
    given = [*inputs()[0], torch.zeros(2, 33, dtype=torch.bool)]
    given[place] = given[place].to("meta")
    with pytest.raises(UserError, match=r"(k|v|s|padding) is on meta; it must be on the CPU"):
        mtsa(*given[:4], masks=MASKS, padding_mask=given[4], backend="fused")


def test_float64_is_refused_and_auto_takes_the_next_backend():
    x = [t.double() for t in inputs(5)[0]]
    with pytest.raises(UserError, match="backend 'fused' cannot be used: .*float64"):
        mtsa(*x, masks=MASKS, backend="fused")
    assert torch.equal(mtsa(*x, masks=MASKS), mtsa(*x, masks=MASKS, backend="eager"))
