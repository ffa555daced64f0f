"""DiSA with selected queries and keys (ReSAN's heads and dependents), in every backend."""

from functools import partial

import pytest
import torch

from benchmarks.testing import PADDINGS, assert_close, padding_mask, run_with_grads
from selfattn.errors import UserError
from selfattn.masks import PositionalMask
from selfattn.ops.disa import _RUN, disa, native, tiling
from selfattn.ops.disa.eager import disa_eager
from selfattn.ops.disa.equation import equation
from selfattn.ops.disa.fused import disa_fused

BATCH, FEATURES = 3, 12
NAMES = ("out", "dx", "da", "db")
MASKS = (
    PositionalMask("forward"),
    PositionalMask("backward"),
    PositionalMask("backward", window=5),
    PositionalMask("forward", include_self=True),
)


def inputs(length, dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    shape = (BATCH, length, FEATURES)
    x, a, b, upstream = (
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for _ in range(4)
    )
    return [x, a, b], upstream


def selection(share, length, seed=5):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(BATCH, length, generator=generator) < share


def kernel(x, a, b, *, masks, padding_mask, queries, keys):
    """The Triton kernels, in Triton's interpreter without a GPU."""
    hidden = torch.zeros_like(queries) if padding_mask is None else padding_mask
    return disa_fused(x, a, b, masks, hidden | ~queries, 5.0, 0.0, hidden | ~keys)


BACKENDS = ("eager", "native", "triton")


@pytest.fixture(params=BACKENDS)
def fast(request, device):
    """(function, dtype, tolerance, device) of a backend that is not the reference."""
    if request.param == "eager":
        return partial(disa, backend="eager"), torch.float64, 1e-12, "cpu"
    if request.param == "native":
        reason = native.refusal(torch.float32)
        if reason is not None:
            pytest.skip(reason)
        return partial(disa, backend="fused"), torch.float32, 5e-6, "cpu"
    pytest.importorskip("triton")
    return kernel, torch.float32, 5e-6, device


# Triton's kernels see padding and what is not selected as one mask, and are slow on a CPU.
@pytest.mark.parametrize(
    ("fast", "padding"),
    [(b, p) for b in BACKENDS for p in PADDINGS if b != "triton" or p in ("none", "all")],
    indirect=["fast"],
)
@pytest.mark.parametrize("shares", [(0.4, 0.4), (0.0, 0.5), (0.5, 0.0), (1.0, 0.3), (0.0, 0.0)])
def test_a_backend_is_the_reference(fast, shares, padding):
    function, dtype, ratio, device = fast
    length = 19 if function is kernel else 37
    values, upstream = inputs(length, dtype)
    queries, keys = selection(shares[0], length), selection(shares[1], length, 6)
    options = {"masks": MASKS, "padding_mask": padding_mask(padding, BATCH, length)}
    options |= {"queries": queries, "keys": keys}
    expected = run_with_grads(
        partial(disa, backend="reference", **options), [t.double() for t in values], upstream
    )
    moved = {n: t.to(device) if torch.is_tensor(t) else t for n, t in options.items()}
    got = run_with_grads(
        partial(function, **moved), [t.to(device) for t in values], upstream.to(device)
    )
    for name, want, found in zip(NAMES, expected, got, strict=True):
        assert_close(name, want, found.cpu(), ratio)


def test_the_reference_is_a_softmax_over_selected_keys_that_are_visible():
    values, _ = inputs(9)
    queries, keys = selection(0.6, 9), selection(0.6, 9, 6)
    mask = PositionalMask("forward", window=4)
    out = disa(*values, masks=mask, queries=queries, keys=keys, backend="reference")
    x, a, b = values
    for row in range(BATCH):
        for j in range(9):
            seen = [i for i in range(max(0, j - 4), j) if keys[row, i]]
            if not queries[row, j] or not seen:
                assert (out[row, j] == 0).all()
                continue
            score = 5 * torch.tanh((a[row, seen] + b[row, j]) / 5)
            expected = (torch.softmax(score, 0) * x[row, seen]).sum(0)
            torch.testing.assert_close(out[row, j], expected)


def test_what_is_not_selected_may_hold_anything(fast):
    function, dtype, _, device = fast
    values, upstream = inputs(12, dtype)
    queries, keys = selection(0.5, 12).to(device), selection(0.5, 12, 6).to(device)
    x, a, b = (t.to(device) for t in values)
    broken = [x, a.clone(), b.clone()]
    x[~keys], broken[1][~keys], broken[2][~queries] = (float("nan"),) * 3
    run = partial(function, masks=MASKS, padding_mask=None, queries=queries, keys=keys)
    expected = run_with_grads(run, [x, a, b], upstream.to(device))
    got = run_with_grads(run, broken, upstream.to(device))
    for name, want, found in zip(NAMES, expected, got, strict=True):
        assert torch.isfinite(found).all(), name
        assert torch.equal(want, found), name


def test_dropout_meets_the_pairs_that_are_left(monkeypatch):
    values, upstream = inputs(21)
    padding = padding_mask("left", BATCH, 21)
    queries, keys = selection(0.5, 21), selection(0.5, 21, 6)
    hidden, unseen = ~queries | padding, ~keys | padding
    monkeypatch.setattr(tiling, "TILE_ELEMENTS", 256)
    options = {"masks": MASKS, "padding_mask": padding, "dropout_p": 0.4, "backend": "eager"}
    torch.manual_seed(8)
    run = partial(disa, queries=queries, keys=keys, **options)
    got = run_with_grads(run, values, upstream)
    torch.manual_seed(8)
    seed = int(torch.randint(1 << 62, ()))
    factors = tiling.dropout_factors(values[0], MASKS, hidden, 0.4, seed, unseen)
    expected = run_with_grads(
        lambda *t: equation(*t, None, hidden, unseen, MASKS, 5.0, factors), values, upstream
    )
    assert_close("results", expected, got, 1e-12)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("shares", [(0.2, 0.2), (0.0, 0.5), (0.0, 0.0), (1.0, 0.3)])
def test_backends_that_walk_over_positions_get_short_sequences(monkeypatch, shares, padding):
    values, upstream = inputs(40)
    hidden = padding_mask(padding, BATCH, 40)
    queries, keys = selection(shares[0], 40), selection(shares[1], 40, 6)
    seen = []

    def run(x, *rest):
        seen.append(x.shape[1])
        return disa_eager(x, *rest)

    monkeypatch.setitem(_RUN, "eager", run)
    options = {"masks": MASKS[:2], "padding_mask": hidden, "queries": queries, "keys": keys}
    expected, got = (
        run_with_grads(partial(disa, backend=name, **options), values, upstream)
        for name in ("reference", "eager")
    )
    assert_close("results", expected, got, 1e-12)
    needed = queries | keys if hidden is None else (queries | keys) & ~hidden
    assert seen == [max(1, needed.sum(1).max())]


def test_a_selection_of_another_shape_is_refused():
    values, _ = inputs(4)
    with pytest.raises(UserError, match=r"keys has shape \(3, 5\); it must be \(B, T\) = \(3, 4\)"):
        disa(*values, masks=MASKS, keys=torch.ones(3, 5, dtype=torch.bool))
