"""The Triton kernels of DiSA: in Triton's interpreter against float64, and compiled ahead."""

import re
from functools import partial

import pytest
import torch

from benchmarks.testing import assert_close, padding_mask, run_with_grads
from selfattn.masks import PositionalMask
from selfattn.ops.common.fused import draw_seed
from selfattn.ops.common.operators import offsets
from selfattn.ops.disa.equation import disa_slow, equation
from selfattn.ops.disa.fused import disa_fused, launch

pytest.importorskip("triton", reason="Triton is not installed")

FORWARD, BACKWARD, NONE = (PositionalMask(d) for d in ("forward", "backward", "none"))
DIRECTIONS = (FORWARD, BACKWARD)
MIXED = (
    PositionalMask("forward", include_self=True),
    PositionalMask("backward", window=3),
    PositionalMask("backward", window=3),
    PositionalMask(window=2),
)
NAMES = ("out", "dx", "da", "db")


def inputs(length, *, features=8, scale=1.0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(42)
    x, a, b, upstream = (
        torch.randn(2, length, features, generator=generator).to(dtype) for _ in range(4)
    )
    return [x, a * scale, b * scale], upstream


@pytest.fixture
def fused(device):
    """The kernels, on the device that was asked for, as a function of tensors on the CPU."""

    def make(masks, hidden=None, c=5.0, dropout_p=0.0):
        hidden = None if hidden is None else hidden.to(device)
        return lambda *t: disa_fused(*(i.to(device) for i in t), masks, hidden, c, dropout_p).cpu()

    return make


def exact(values, upstream, masks, hidden=None, c=5.0, dropout_p=0.0):
    """Output and gradients of the reference in float64."""
    options = {"masks": masks, "padding_mask": hidden, "c": c, "dropout_p": dropout_p}
    values = [t.double() for t in values]
    return run_with_grads(partial(disa_slow, **options), values, upstream)


def compare(fused, values, upstream, *options, ratio=5e-6):
    """The kernels against the reference in float64 on the same numbers."""
    expected = exact(values, upstream, *options)
    got = run_with_grads(fused(*options), values, upstream)
    assert_close("results", expected, got, ratio)


@pytest.mark.parametrize("padding", ["none", "left", "right", "all"])
@pytest.mark.parametrize("length", [1, 2, 17])
@pytest.mark.parametrize("masks", [DIRECTIONS, (NONE,), MIXED], ids=["both", "none", "mixed"])
def test_kernels_are_the_reference(fused, masks, length, padding):
    values, upstream = inputs(length)
    compare(fused, values, upstream, masks, padding_mask(padding, 2, length))


def test_tokens_beyond_one_tile(fused):
    values, upstream = inputs(launch.TILES[False].tokens + 8)
    hidden = padding_mask("left", 2, values[0].shape[1])
    compare(fused, values, upstream, (FORWARD, PositionalMask(window=6)), hidden)


def test_features_beyond_one_tile(fused):
    """Neither the groups nor the whole are a multiple of a tile's features."""
    values, upstream = inputs(5, features=2 * (launch.TILES[False].features + 3))
    compare(fused, values, upstream, DIRECTIONS, padding_mask("right", 2, 5))


@pytest.mark.parametrize("scale", [10.0, 30.0, 100.0, 1000.0])
def test_large_scores(fused, scale):
    values, upstream = inputs(9, scale=scale)
    compare(fused, values, upstream, DIRECTIONS, padding_mask("left", 2, 9))


@pytest.mark.parametrize("scale", [100.0, 140.0, 220.0, 300.0])
def test_cancelling_projections(fused, scale):
    """Keys near +s and queries near -s: clamped factors alone would lose their product."""
    values, upstream = inputs(9)
    values[1] += scale
    values[2] -= scale
    compare(fused, values, upstream, DIRECTIONS, None)


@pytest.mark.parametrize("c", [0.5, 10.0])
def test_other_bounds_of_the_score(fused, c):
    values, upstream = inputs(9, scale=c)
    compare(fused, values, upstream, DIRECTIONS, None, c)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_half_precision_is_rounded_once(fused, dtype, scale):
    """No more than twice the error of the exact formula rounded to the dtype at the end."""
    values, upstream = inputs(12, scale=scale, dtype=dtype)
    options = DIRECTIONS, padding_mask("left", 2, 12)
    expected = exact(values, upstream, *options)
    got = run_with_grads(fused(*options), values, upstream)
    for name, want, found in zip(NAMES, expected, got, strict=True):
        rounding = (want.to(dtype).double() - want).norm()
        assert found.dtype == dtype
        assert (found.double() - want).norm() <= 2 * rounding, name


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), 1e30])
@pytest.mark.parametrize("padding", ["left", "all"])
def test_garbage_in_padding_does_not_leak(fused, garbage, padding):
    values, upstream = inputs(9)
    hidden = padding_mask(padding, 2, 9)
    run = fused(DIRECTIONS, hidden)
    clean = run_with_grads(run, values, upstream)
    dirty = [t.masked_fill(hidden[..., None], garbage) for t in values]
    for name, want, found in zip(NAMES, clean, run_with_grads(run, dirty, upstream), strict=True):
        assert torch.equal(want, found), name
        assert (found[hidden] == 0).all(), name


def test_queries_without_keys_are_zero(fused):
    values, upstream = inputs(3)
    for mask, query in ((FORWARD, 0), (BACKWARD, 2)):
        run = fused((mask,))
        out, _, _, gb = run_with_grads(run, values, upstream)
        assert (out[:, query] == 0).all()
        assert (gb[:, query] == 0).all()


def test_strided_inputs(fused):
    """Views into one projection of everything, as a layer makes them, are read in place."""
    values, upstream = inputs(9)
    whole = torch.cat(values, -1)
    run = fused(DIRECTIONS)
    expected = run_with_grads(run, values, upstream)
    got = run_with_grads(lambda t: run(*t.chunk(3, -1)), [whole], upstream)
    assert torch.equal(expected[0], got[0])
    assert torch.equal(torch.cat(expected[1:], -1), got[1])


FAR_APART = """
import sys, torch
from selfattn.masks import PositionalMask
from selfattn.ops.disa.fused import disa_fused
near = [torch.randn(1, 3, 8, dtype=torch.bfloat16, device=sys.argv[1]) for _ in range(3)]
room = near[0].new_empty((1 << 31) + 8)
far = room.as_strided((1, 3, 8), (0, 1 << 30, 1)).copy_(near[0])
for inputs in ((far, *near[1:]), (near[0], far, near[2]), (*near[:2], far)):
    packed = (t.contiguous() for t in inputs)
    run = lambda *t: disa_fused(*t, (PositionalMask(),), None, 5.0, 0.0)
    assert torch.equal(run(*inputs), run(*packed))
"""


def test_tokens_more_than_2_to_the_31_elements_apart(run_cli, device):
    """As where sentences are the second dimension; in a process, since 32 bits lead anywhere."""
    interpreted = "0" if device.type == "cuda" else "1"
    run_cli(["-c", FAR_APART, device.type], TRITON_INTERPRET=interpreted).ok()


def test_any_layout_of_gradients(fused):
    """As where the next layer has the sentences in its second dimension, or takes a sum."""
    values, upstream = inputs(9)
    run = fused(DIRECTIONS)
    turned = upstream.transpose(0, 1).contiguous().transpose(0, 1)
    for layout in (turned, torch.ones(()).expand_as(upstream)):
        expected = run_with_grads(run, values, layout.contiguous())
        got = run_with_grads(run, values, layout)
        assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))


@pytest.mark.parametrize("padding", ["none", "left"])
def test_dropout_is_that_of_its_factors(device, fused, padding):
    """The reference under the kernels' factors, read from the device, is what the kernels give."""
    values, upstream = inputs(9)
    hidden = padding_mask(padding, 2, 9)
    run = fused(MIXED, hidden, dropout_p=0.4)
    torch.manual_seed(3)
    got = run_with_grads(run, values, upstream)
    torch.manual_seed(3)
    again = run_with_grads(run, values, upstream)
    assert all(torch.equal(a, b) for a, b in zip(got, again, strict=True))

    torch.manual_seed(3)
    drawn = launch.dropout_factors(values[0].to(device), MIXED, 0.4, draw_seed(device))
    pairs, scales = (t.cpu() for t in drawn)
    keep = 0.6**0.5
    for factor in (pairs, scales):
        assert ((factor == 0) | (factor - 1 / keep).abs().lt(1e-6)).all()
        assert abs((factor > 0).float().mean() - keep) < 0.15
    factors = pairs.double(), scales.double()
    expected = run_with_grads(
        lambda *t: equation(*t, None, hidden, None, MIXED, 5.0, factors),
        [t.double() for t in values],
        upstream,
    )
    assert_close("results", expected, got, 5e-6)


def test_operators_keep_the_rules_of_torch(device):
    """Schema, fake implementation and autograd registration, by torch's own check."""
    values, _ = inputs(5, dtype=torch.float16)
    leaves = [t.to(device).requires_grad_() for t in values]
    hidden = padding_mask("left", 2, 5).to(device)
    left, right = offsets(DIRECTIONS)
    seed = torch.tensor([7], device=device)
    arguments = (*leaves, None, hidden, None, seed, left, right, 5.0, 0.1, True)
    torch.library.opcheck(torch.ops.selfattn.disa_fused_forward.default, arguments)


def test_fake_tensors_and_compiled_graphs(fused):
    values, upstream = inputs(5)
    run = fused(DIRECTIONS)
    expected = run_with_grads(run, values, upstream)
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    got = run_with_grads(compiled, values, upstream)
    assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))


def test_nothing_is_saved_without_gradients(device):
    values = [t.to(device) for t in inputs(5)[0]]
    call = launch.Triton(DIRECTIONS, 5.0, 0.0, False)
    done = call.forward((*values, None, None, None, None))
    assert [t.numel() for t in done[1:]] == [0, 0, 0, 0]
    plain = disa_fused(*values, DIRECTIONS, None, 5.0, 0.0)
    assert torch.equal(done[0], plain)


def test_checkpointing_computes_the_same(device):
    from torch.utils.checkpoint import checkpoint

    values, upstream = inputs(9)
    values, upstream = [t.to(device) for t in values], upstream.to(device)

    def run(*t):  # on its device: a checkpoint keeps the generators of what it is given
        return disa_fused(*t, DIRECTIONS, None, 5.0, 0.3)

    runs = []
    for function in (run, lambda *t: checkpoint(run, *t, use_reentrant=False)):
        torch.manual_seed(5)
        runs.append(run_with_grads(function, values, upstream))
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


def test_kernels_compile_ahead_without_spills(run_cli):
    """In a process of its own: here the interpreter is on."""
    done = run_cli(["-m", "benchmarks.triton_disa", "--capability", "90"]).ok()
    rows = re.findall(
        r"^(forward|key) +(\S+) +(yes|no) +(\d+) +(\d+) +\d+ +\d+$", done.stdout, re.M
    )
    assert len(rows) == 12
    assert all(int(registers) <= 255 and spilled == "0" for *_, registers, spilled in rows)


@pytest.mark.parametrize("which", range(3), ids="xab")
def test_a_nan_is_not_hidden(fused, which):
    """Of a real token; the other sentence stays clean."""
    values, upstream = inputs(9)
    values[which][0, 4, :4] = torch.nan  # features of the forward mask
    expected = exact(values, upstream, DIRECTIONS)
    got = run_with_grads(fused(DIRECTIONS), values, upstream)
    lost = got[0][0].isnan()  # (tokens, features)
    assert lost[4 if which == 2 else slice(5, None), :4].all() and not lost[:, 4:].any()
    for name, want, found in zip(NAMES, expected, got, strict=True):
        assert found[0].isnan().any() == want[0].isnan().any(), name
        assert not found[1].isnan().any(), name
