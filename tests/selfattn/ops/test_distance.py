"""The bias by distance: operators against the equation in float64, with the table's gradient."""

import pytest
import torch

from benchmarks.testing import PADDINGS, LargestTensor, assert_close, padding_mask, run_with_grads
from selfattn.errors import UserError
from selfattn.masks import PositionalMask
from selfattn.ops import disa, mtsa
from selfattn.ops.common import distance
from selfattn.ops.disa import tiling as disa_tiling
from selfattn.ops.disa.equation import equation as disa_equation
from selfattn.ops.mtsa import eager, native, tiling
from selfattn.ops.mtsa.equation import equation

FORWARD, BACKWARD, NONE = (PositionalMask(d) for d in ("forward", "backward", "none"))
MASKS = [
    FORWARD,
    BACKWARD,
    BACKWARD,
    NONE,
    PositionalMask("forward", include_self=True),
    PositionalMask("backward", window=3),
    PositionalMask(window=70),
]
NAMES = ("out", "dq", "dk", "dv", "ds", "dbias")


def inputs(length, heads=7, batch=3, width=8, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    widths = (width - 1, width - 1, width, width)
    shapes = [(batch, heads, length, d) for d in widths] + [(heads, length)]
    return [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes]


def attend(backend, masks, hidden, sigma_t, dropout_p=0.0):
    def run(q, k, v, s, bias):
        torch.manual_seed(9)
        return mtsa(
            q, k, v, s, masks=masks, padding_mask=hidden, sigma_t=sigma_t, dropout_p=dropout_p,
            distance_bias=bias, backend=backend,
        )  # fmt: skip

    return run


def compare(x, masks, hidden, sigma_t, ratio, dropout_p=0.0, fast="eager"):
    """A fast form in the dtype of x against the equation in float64, output and all gradients."""
    upstream = torch.randn(x[2].shape, generator=torch.Generator().manual_seed(4))
    factors = None
    if dropout_p:
        torch.manual_seed(9)
        seed = int(torch.randint(1 << 62, ()))
        if fast == "fused":
            factors = native.dropout_factors(x[2], dropout_p, seed)
        else:
            factors = tiling.dropout_factors(x[0], x[2], masks, dropout_p, seed)
    expected = run_with_grads(
        lambda *t: equation(*t, hidden, masks, sigma_t, factors), [t.double() for t in x], upstream
    )
    got = run_with_grads(attend(fast, masks, hidden, sigma_t, dropout_p), x, upstream)
    for name, a, b in zip(NAMES, expected, got, strict=True):
        # Below the floor of a comparison: one key has the weight 1, whatever the bias.
        assert_close(name, a, b, 2e-5 if fast == "fused" and name == "dbias" else ratio)
    return expected


@pytest.fixture
def fused():
    """The kernel in C, or no test."""
    if native.refusal(torch.float32) is not None:
        pytest.skip("no C compiler")
    return "fused"


@pytest.fixture
def rescued(monkeypatch):
    """One entry for each tile that the fast path could not compute."""
    calls, right = [], eager.exact_forward
    monkeypatch.setattr(eager, "exact_forward", lambda *a: calls.append(a) or right(*a))
    return calls


def test_the_reference_is_equation_10_with_the_bias_beside_the_mask():
    q, k, v, s, bias = inputs(6, heads=1, batch=1)
    out = mtsa(q, k, v, s, masks=FORWARD, sigma_t="logsigmoid", distance_bias=bias,
               backend="reference")[0, 0]  # fmt: skip
    assert (out[0] == 0).all()
    for j in range(1, 6):
        r = torch.nn.functional.logsigmoid(k[0, 0, :j] @ q[0, 0, j] / 7**0.5)
        far = torch.stack([bias[0, j - i] for i in range(j)])
        p = torch.softmax((r + far)[:, None] + s[0, 0, :j], 0)
        assert_close(f"query {j}", (p * v[0, 0, :j]).sum(0), out[j], 1e-12)


@pytest.mark.parametrize("sigma_t", ["identity", "logsigmoid"])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("length", [1, 2, 63, 100])
def test_outputs_and_gradients_equal_the_equation(length, padding, sigma_t):
    hidden = padding_mask(padding, 3, length)
    compare(inputs(length), MASKS, hidden, sigma_t, 1e-12)
    compare(inputs(length, dtype=torch.float32), MASKS, hidden, sigma_t, 5e-6)


@pytest.mark.parametrize("sigma_t", ["identity", "logsigmoid"])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("length", [1, 2, 63, 150])
def test_the_kernel_equals_the_equation(length, padding, sigma_t, fused):
    x = inputs(length, dtype=torch.float32)
    compare(x, MASKS, padding_mask(padding, 3, length), sigma_t, 5e-6, fast=fused)


@pytest.mark.parametrize("sigma_t", ["identity", "logsigmoid"])
def test_dropout_of_the_kernel(sigma_t, fused):
    compare(inputs(40, dtype=torch.float32), MASKS, None, sigma_t, 5e-6, 0.3, fused)


@pytest.mark.parametrize("sigma_t", ["identity", "logsigmoid"])
def test_extremes_in_the_kernel(sigma_t, fused):
    """Steep slopes, a hole of padding, scores that underflow beside it."""
    *x, _ = inputs(400, heads=3, batch=2, width=2, dtype=torch.float32)
    bias = -5.0 * torch.arange(400.0).expand(3, -1)
    hidden = torch.zeros(2, 400, dtype=torch.bool)
    hidden[0, 100:390] = True
    x[3][1, :, 200:] += 300.0
    x[3][1, :, 190:200] -= 300.0
    compare([*x, bias], [FORWARD, BACKWARD, NONE], hidden, sigma_t, 2e-5, fast=fused)


@pytest.mark.parametrize("sigma_t", ["identity", "logsigmoid"])
def test_several_blocks_and_dropout(monkeypatch, sigma_t):
    monkeypatch.setattr(tiling, "PART_BYTES", 100_000)
    compare(inputs(150), MASKS, padding_mask("left", 3, 150), sigma_t, 1e-12, dropout_p=0.3)


def test_gradcheck():
    x = [t.requires_grad_() for t in inputs(3, heads=3, batch=2, width=2)]
    hidden = padding_mask("left", 2, 3)
    for sigma_t in ("identity", "logsigmoid"):
        run = attend("eager", [FORWARD, BACKWARD, PositionalMask(window=1)], hidden, sigma_t)
        torch.autograd.gradcheck(run, x)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("sigma_t", ["identity", "logsigmoid"])
def test_steep_slopes_over_a_thousand_tokens(dtype, sigma_t, rescued):
    """exp(-5 * 999) is far below every float: only neighbours count, and nobody counts nothing."""
    *x, _ = inputs(1000, heads=4, batch=1, width=2, dtype=dtype)
    bias = -5.0 * torch.arange(1000, dtype=dtype).expand(4, -1)
    masks = [FORWARD, BACKWARD, NONE, PositionalMask("forward", window=200)]
    out, *_ = compare([*x, bias], masks, None, sigma_t, 1e-11 if dtype == torch.float64 else 1e-5)
    v = x[2][0, 0].double()
    assert (out[0, 0, 500] - v[499]).abs().max() < 0.5  # the key before it, nearly alone
    assert not rescued  # a bias that falls with distance needs no second computation


@pytest.mark.parametrize("sigma_t", ["identity", "logsigmoid"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_nearest_keys_are_padding_or_weightless(dtype, sigma_t, rescued):
    """All visible weights underflow on the fast path: rescued, with the table's gradient."""
    *x, _ = inputs(400, heads=3, batch=2, width=2, dtype=dtype)
    bias = -5.0 * torch.arange(400, dtype=dtype).expand(3, -1)
    hidden = torch.zeros(2, 400, dtype=torch.bool)
    hidden[0, 100:390] = True  # a hole: the nearest real keys are 290 tokens away
    s = x[3]
    s[1, :, 200:] += 300.0
    s[1, :, 190:200] -= 300.0
    masks = [FORWARD, BACKWARD, NONE]
    compare([*x[:3], s, bias], masks, hidden, sigma_t, 1e-10 if dtype == torch.float64 else 2e-5)
    assert rescued


def test_zeros_change_nothing_and_half_precision_is_near():
    *x, bias = inputs(50, dtype=torch.float32)
    hidden = padding_mask("left", 3, 50)
    plain = mtsa(*x, masks=MASKS, padding_mask=hidden, sigma_t="logsigmoid", backend="eager")
    zeros = attend("eager", MASKS, hidden, "logsigmoid")(*x, torch.zeros_like(bias))
    assert_close("zeros", plain, zeros, 1e-6)
    low = attend("eager", MASKS, hidden, "identity")(*(t.bfloat16() for t in x), bias)
    assert low.dtype == torch.bfloat16
    assert_close("bfloat16", attend("eager", MASKS, hidden, "identity")(*x, bias), low, 0.02)


def test_no_square_tensor_exists():
    x = inputs(1024, heads=2, batch=1, dtype=torch.float32)
    with LargestTensor() as seen:
        run_with_grads(attend("eager", [FORWARD, NONE], None, "logsigmoid"), x, x[2])
    assert seen.size < 1024 * 1024 * 4


def test_the_sum_of_block_gradients_by_brute_force():
    table = distance.DistanceTable(torch.zeros(2, 9), torch.float64)
    expected = torch.zeros(2, 9, dtype=torch.float64)
    for start, stop, lo, hi in ((0, 4, 0, 9), (4, 9, 2, 3), (8, 9, 0, 9), (3, 5, 7, 9)):
        grad = torch.randn(2, stop - start, hi - lo, dtype=torch.float64)
        table.add_gradient(slice(0, 2), start, stop, lo, hi, grad)
        for j in range(start, stop):
            for i in range(lo, hi):
                expected[:, abs(i - j)] += grad[:, j - start, i - lo]
    assert_close("sums", expected, table.gradient(), 1e-12)


def test_what_does_not_fit_is_refused():
    *x, bias = inputs(5)
    with pytest.raises(UserError, match=r"distance_bias has shape \(7, 4\) .* = \(7, 5\)"):
        mtsa(*x, masks=MASKS, distance_bias=bias[:, :4])
    with pytest.raises(UserError, match="distance_bias is a list; it must be a tensor or None"):
        mtsa(*x, masks=MASKS, distance_bias=[0.0] * 5)
    with pytest.raises(UserError, match="'fused' cannot be used: it has no distance bias"):
        mtsa(*(t.float().to("meta") for t in x), masks=MASKS, distance_bias=bias, backend="fused")


def disa_inputs(length, groups=4, batch=3, width=3, dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    shapes = [(batch, length, groups * width)] * 3 + [(groups, length)]
    return [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes]


DISA_MASKS = [FORWARD, BACKWARD, BACKWARD, PositionalMask(window=9)]


def run_disa(backend, hidden, dropout_p=0.0, **selected):
    def run(x, a, b, bias):
        torch.manual_seed(9)
        return disa(
            x, a, b, masks=DISA_MASKS, padding_mask=hidden, dropout_p=dropout_p, c=3.0,
            distance_bias=bias, backend=backend, **selected,
        )  # fmt: skip

    return run


def compare_disa(x, hidden, ratio, **options):
    upstream = torch.randn(x[0].shape, generator=torch.Generator().manual_seed(4))
    reference = run_disa("reference", hidden, **options)
    if "dropout_p" in options:
        torch.manual_seed(9)
        drawn = (options["dropout_p"], int(torch.randint(1 << 62, ())))
        factors = disa_tiling.dropout_factors(x[0], DISA_MASKS, hidden, *drawn)

        def reference(*t):
            return disa_equation(*t, hidden, None, DISA_MASKS, 3.0, factors)

    expected = run_with_grads(reference, [t.double() for t in x], upstream)
    got = run_with_grads(run_disa("eager", hidden, **options), x, upstream)
    assert_close("results", expected, got, ratio)
    return expected


def test_disa_reference_is_equation_9_with_the_bias_outside_of_tanh():
    x, a, b, bias = disa_inputs(6, batch=1)
    out = run_disa("reference", None)(x, a, b, bias)[0]
    for j in range(1, 6):
        score = 3 * torch.tanh((a[0, :j] + b[0, j]) / 3)[:, :3]
        far = torch.stack([bias[0, j - i] for i in range(j)])[:, None]
        expected = (torch.softmax(score + far, 0) * x[0, :j, :3]).sum(0)
        assert_close(f"query {j}", expected, out[j, :3], 1e-12)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("length", [1, 2, 63])
def test_disa_equals_the_equation(length, padding):
    hidden = padding_mask(padding, 3, length)
    compare_disa(disa_inputs(length), hidden, 1e-12)
    compare_disa(disa_inputs(length, dtype=torch.float32), hidden, 5e-6)
    compare_disa(disa_inputs(length), hidden, 1e-12, dropout_p=0.3)


def test_disa_with_selected_tokens_at_their_own_distances():
    generator = torch.Generator().manual_seed(1)
    queries, keys = (torch.rand(3, 40, generator=generator) < 0.5 for _ in range(2))
    hidden = padding_mask("left", 3, 40)
    compare_disa(disa_inputs(40), hidden, 1e-12, queries=queries, keys=keys)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_disa_with_steep_slopes_and_a_hole_of_padding(dtype):
    x, a, b, _ = disa_inputs(700, batch=2, width=1, dtype=dtype)
    bias = -5.0 * torch.arange(700, dtype=dtype).expand(4, -1)
    hidden = torch.zeros(2, 700, dtype=torch.bool)
    hidden[0, 100:690] = True
    ratio = 1e-11 if dtype == torch.float64 else 1e-5
    out, *_ = compare_disa([x, a, b, bias], hidden, ratio)
    assert_close("the key before the hole", x[0, 99, 0].double(), out[0, 690, 0], 0.5)


def test_disa_refuses_what_does_not_fit():
    x, a, b, bias = (t.float() for t in disa_inputs(5))
    with pytest.raises(UserError, match=r"distance_bias has shape \(3, 5\) .* = \(4, 5\)"):
        disa(x, a, b, masks=DISA_MASKS, distance_bias=bias[:3])
    with pytest.raises(UserError, match="'fused' cannot be used: it has no distance bias"):
        disa(x, a, b, masks=DISA_MASKS, distance_bias=bias, backend="fused")
    assert disa(x, a, b, masks=DISA_MASKS, distance_bias=bias).shape == x.shape
