"""The DiSA operator against the papers' equations in float64, and against golden values."""

from functools import partial

import pytest
import torch

from benchmarks.testing import PADDINGS, LargestTensor, assert_close, padding_mask, run_with_grads
from selfattn.errors import UserError
from selfattn.masks import PositionalMask
from selfattn.ops.disa import disa, native, tiling
from selfattn.ops.disa.equation import equation

FORWARD, BACKWARD, NONE = (PositionalMask(d) for d in ("forward", "backward", "none"))
# Equal neighbours, both self switches, windows shorter and longer than a block of queries.
MASKS = (
    FORWARD,
    FORWARD,
    BACKWARD,
    NONE,
    PositionalMask("forward", include_self=True),
    PositionalMask("backward", window=3),
    PositionalMask(window=70),
)
BATCH, FEATURES = 3, 2 * len(MASKS)


def inputs(length, *, features=FEATURES, scale=1.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(42)
    shape = (BATCH, length, features)
    x, a, b, upstream = (
        torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for _ in range(4)
    )
    return [x, a * scale, b * scale], upstream


REASON = native.refusal(torch.float32)
FUSED = pytest.param("fused", marks=pytest.mark.skipif(REASON is not None, reason=str(REASON)))


@pytest.fixture(params=["eager", FUSED])
def fast(request):
    """A backend that is not the reference."""
    return request.param


def precisions(exact=1e-12):
    """``fast``, ``dtype`` and ``ratio``: each backend in the dtypes that it does not refuse."""
    return pytest.mark.parametrize(
        ("fast", "dtype", "ratio"),
        [
            ("eager", torch.float64, exact),
            ("eager", torch.float32, 5e-6),
            pytest.param("fused", torch.float32, 5e-6, marks=FUSED.marks),
        ],
    )


def compare(fast, dtype, ratio, length, padding, scale=1.0, shift=0.0, masks=MASKS, **options):
    """A fast form in ``dtype`` against the reference in float64 on the same rounded numbers."""
    values, upstream = inputs(length, scale=scale, dtype=dtype)
    values[1] += shift
    values[2] -= shift
    options |= {"masks": masks, "padding_mask": padding_mask(padding, BATCH, length)}
    expected = run_with_grads(
        partial(disa, backend="reference", **options), [t.double() for t in values], upstream
    )
    got = run_with_grads(partial(disa, backend=fast, **options), values, upstream)
    for name, want, found in zip(("out", "dx", "da", "db"), expected, got, strict=True):
        assert found.dtype == dtype
        assert_close(name, want, found, ratio)


@pytest.fixture
def small_tiles(monkeypatch):
    """Tiles that hold some of the sentences and some of the keys even for small inputs."""
    monkeypatch.setattr(tiling, "TILE_ELEMENTS", 256)


def test_a_gpu_is_not_kept_waiting_for_small_tiles():
    """Each of them is ten launches or more."""
    spans, counts = tiling.spans(None, None, 64, 64), []
    for device in map(torch.device, ("cpu", "cuda")):
        blocks = tiling.blocks(PositionalMask("forward"), *spans, 256, device)
        counts.append(sum(len(list(block.runs(256, device))) for block in blocks))
    assert counts[1] == 4 < counts[0]


@pytest.mark.parametrize("backend", ["reference", "eager", "fused"])
def test_golden_values(backend):
    """W1 = W2 = identity without bias, c = 5: computed by hand from eq. 9."""
    x = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]]])
    forward = torch.tensor([[[0.0, 0.0], [1.0, 0.0], [0.686865, 0.728471]]])
    backward = torch.tensor([[[1.690644, 0.756027], [2.0, -1.0], [0.0, 0.0]]])
    for mask, expected in ((FORWARD, forward), (BACKWARD, backward)):
        out = disa(x, x, x, masks=mask, backend=backend)
        torch.testing.assert_close(out, expected, rtol=1e-5, atol=1e-6)
    both = disa(*[torch.cat([x, x], -1)] * 3, masks=(FORWARD, BACKWARD), backend=backend)
    torch.testing.assert_close(both, torch.cat([forward, backward], -1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("length", [1, 2, 17, 70, 130])
@precisions()
def test_fast_is_the_reference(fast, length, padding, dtype, ratio):
    compare(fast, dtype, ratio, length, padding)


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("length", [2, 17, 40])
def test_tiles_that_split_sentences_and_keys(small_tiles, length, padding):
    compare("eager", torch.float64, 1e-12, length, padding)


@pytest.mark.parametrize("scale", [10.0, 30.0, 100.0, 1000.0])
@precisions()
def test_large_scores(fast, scale, dtype, ratio):
    """Beyond a deviation of about 30, 2a/c no longer fits into an exponential of its own."""
    compare(fast, dtype, ratio, 33, "left", scale)


@pytest.mark.parametrize("c", [0.01, 0.5, 10.0])
@precisions(exact=2e-12)
def test_other_bounds_of_the_score(fast, c, dtype, ratio):
    compare(fast, dtype, ratio, 33, "right", c, c=c)
    compare(fast, dtype, ratio, 33, "right", c=c)


@pytest.mark.parametrize("c", [11.0, 100.0, 300.0])  # "fused" refuses them
@pytest.mark.parametrize(("dtype", "ratio"), [(torch.float64, 2e-12), (torch.float32, 5e-6)])
def test_bounds_that_float32_sums_do_not_hold(c, dtype, ratio):
    compare("eager", dtype, ratio, 33, "right", c, c=c)
    compare("eager", dtype, ratio, 33, "right", c=c)


@pytest.mark.parametrize("scale", [100.0, 148.0, 152.0, 1e3, 1e4])
@precisions()
def test_cancelling_projections(fast, scale, dtype, ratio):
    """Keys near +s and queries near -s: the sum is small where both exponents are large."""
    compare(fast, dtype, ratio, 20, "left", shift=scale)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 10.0])
def test_half_precision_is_rounded_once(fast, dtype, scale):
    """No more than twice the error of the exact formula rounded to the dtype at the end."""
    values, upstream = inputs(70, scale=scale, dtype=dtype)
    hidden = padding_mask("left", BATCH, 70)
    options = {"masks": MASKS, "padding_mask": hidden}
    exact = run_with_grads(
        partial(disa, backend="reference", **options), [t.double() for t in values], upstream
    )
    got = run_with_grads(partial(disa, backend=fast, **options), values, upstream)
    for name, want, found in zip(("out", "dx", "da", "db"), exact, got, strict=True):
        rounding = (want.to(dtype).double() - want).norm() / want.norm()
        assert found.dtype == dtype
        assert (found.double() - want).norm() / want.norm() <= 2 * rounding, name


def test_gradients_are_those_of_the_output():
    values, _ = inputs(5, features=4)
    hidden = padding_mask("all", BATCH, 5)
    leaves = [t.requires_grad_() for t in values]
    function = partial(disa, masks=(FORWARD, BACKWARD), padding_mask=hidden)
    assert torch.autograd.gradcheck(function, leaves)


@pytest.mark.parametrize("backend", ["reference", "eager", "fused"])
@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), 1e30])
@pytest.mark.parametrize("padding", ["left", "right", "all"])
def test_garbage_in_padding_does_not_leak(backend, garbage, padding):
    values, upstream = inputs(17, dtype=torch.float32)
    hidden = padding_mask(padding, BATCH, 17)
    run = partial(disa, masks=MASKS, padding_mask=hidden, backend=backend)
    clean = run_with_grads(run, values, upstream)
    dirty = [t.masked_fill(hidden[..., None], garbage) for t in values]
    got = run_with_grads(run, dirty, upstream)
    for name, want, found in zip(("out", "dx", "da", "db"), clean, got, strict=True):
        assert torch.equal(want, found), name
        assert (found[hidden] == 0).all(), name


@pytest.mark.parametrize("backend", ["reference", "eager", "fused"])
def test_a_hole_of_padding_is_like_a_shorter_sentence(backend):
    (x, a, b), _ = inputs(12, dtype=torch.float32)
    hidden = torch.zeros(BATCH, 12, dtype=torch.bool)
    hidden[:, 4:7] = True
    out = disa(x, a, b, masks=FORWARD, padding_mask=hidden, backend=backend)
    keep = ~hidden[0]
    short = disa(x[:, keep], a[:, keep], b[:, keep], masks=FORWARD, backend=backend)
    torch.testing.assert_close(out[:, keep], short)
    assert (out[:, 4:7] == 0).all()


@pytest.mark.parametrize("backend", ["reference", "eager", "fused"])
def test_queries_without_keys_are_zero(backend):
    values, upstream = inputs(3, dtype=torch.float32)
    for mask, query in ((FORWARD, 0), (BACKWARD, 2)):
        run = partial(disa, masks=mask, backend=backend)
        out, _, _, gb = run_with_grads(run, values, upstream)
        assert (out[:, query] == 0).all()
        assert (gb[:, query] == 0).all()


@pytest.mark.parametrize("backend", ["reference", "eager", "fused"])
def test_hidden_keys_get_no_gradient(backend):
    """The gradient of one query reaches only what it sees."""
    values, _ = inputs(40, dtype=torch.float32)
    for mask in (FORWARD, BACKWARD, PositionalMask(window=2)):
        upstream = torch.zeros(BATCH, 40, values[0].shape[-1], dtype=torch.float64)
        upstream[:, 20] = 1.0
        _, gx, ga, _ = run_with_grads(partial(disa, masks=mask, backend=backend), values, upstream)
        visible = mask.allowed(40)[20]
        assert (gx[:, visible] != 0).all()
        assert (gx[:, ~visible] == 0).all()
        assert (ga[:, ~visible] == 0).all()


@pytest.mark.parametrize("padding", ["none", "left", "all"])
@pytest.mark.parametrize("length", [2, 17, 40])
def test_dropout_is_what_its_factors_say(small_tiles, length, padding):
    values, upstream = inputs(length)
    hidden = padding_mask(padding, BATCH, length)
    run = partial(disa, masks=MASKS, padding_mask=hidden, dropout_p=0.4, backend="eager")
    torch.manual_seed(7)
    got = run_with_grads(run, values, upstream)
    torch.manual_seed(7)
    seed = int(torch.randint(1 << 62, ()))
    factors = tiling.dropout_factors(values[0], MASKS, hidden, 0.4, seed)
    expected = run_with_grads(
        lambda *t: equation(*t, None, hidden, None, MASKS, 5.0, factors), values, upstream
    )
    assert_close("results", expected, got, 1e-12)


@pytest.mark.parametrize("backend", ["reference", "eager"])
def test_dropout_keeps_the_mean_and_follows_the_seed(backend):
    (x, a, b), _ = inputs(30)
    torch.manual_seed(0)
    seed = int(torch.randint(1 << 62, ()))
    pairs, scales = tiling.dropout_factors(x, (NONE,), None, 0.36, seed)
    assert set(pairs.unique().tolist()) == {0.0, 1.25}
    assert abs((pairs > 0).double().mean() - 0.8) < 0.03
    assert abs((scales > 0).double().mean() - 0.8) < 0.05

    def draw(value):
        torch.manual_seed(value)
        return disa(x, a, b, masks=NONE, dropout_p=0.36, backend=backend)

    assert torch.equal(draw(1), draw(1))
    assert not torch.equal(draw(1), draw(2))
    plain = disa(x, a, b, masks=NONE)
    mean = torch.stack([draw(i) for i in range(400)]).mean(0)
    assert (mean - plain).abs().max() < 0.15


@pytest.mark.parametrize("backend", ["reference", "eager", FUSED])
def test_every_head_has_dropout_of_its_own(backend):
    """One key: all features of a head are 0 where its pair of query and key is dropped."""
    x = torch.ones(200, 1, 2 * 32)
    torch.manual_seed(0)
    out = disa(x, x, x, masks=(NONE, NONE), dropout_p=0.5, backend=backend)
    first, second = (out.view(200, 2, 32) == 0).all(-1).unbind(1)
    assert first.any() and second.any() and not torch.equal(first, second)


def test_memory_grows_linearly(monkeypatch):
    """No tensor with a query and a key axis is larger than a tile."""
    monkeypatch.setattr(tiling, "TILE_ELEMENTS", 1 << 12)
    largest = {}
    for length in (256, 512):
        values = [torch.randn(2, length, 32).requires_grad_() for _ in range(3)]
        with LargestTensor() as seen:
            disa(*values, masks=(FORWARD, BACKWARD), backend="eager").sum().backward()
        largest[length] = seen.size
    assert largest[512] <= 2.1 * largest[256]
    assert largest[512] < 512 * 512 * 4  # not even one n x n matrix of float32


def test_strided_inputs():
    """Views into one projection of everything, as a layer makes them."""
    values, upstream = inputs(20)
    whole = torch.stack(values, 2).flatten(2)
    assert not whole.chunk(3, -1)[0].is_contiguous()
    expected = run_with_grads(partial(disa, masks=MASKS), values, upstream)
    got = run_with_grads(lambda t: disa(*t.chunk(3, -1), masks=MASKS), [whole], upstream)
    assert torch.equal(expected[0], got[0])
    assert torch.equal(torch.cat(expected[1:], -1), got[1])


def test_autocast_takes_the_widest_dtype():
    """A layer's projections are half precision there, its values may be float32."""
    (x, a, b), _ = inputs(9, dtype=torch.float32)
    a, b = a.bfloat16(), b.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        out = disa(x, a, b, masks=MASKS)
    assert out.dtype == torch.float32
    assert torch.equal(out, disa(x, a.float(), b.float(), masks=MASKS))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": torch.zeros(3, 5, 14).double()}, "one shape"),
        ({"x": torch.zeros(4, 14).double()}, "one shape"),
        ({"b": torch.zeros(3, 4, 14)}, "dtypes"),
        ({"masks": [NONE] * 4}, "4 masks for 14 features"),
        ({"masks": []}, "masks is empty; give one"),
        ({"masks": "none"}, "masks holds 'n'; it must hold PositionalMask alone"),
        ({"padding_mask": torch.zeros(3, 5).bool()}, r"must be \(B, T\)"),
        ({"c": 0.0}, "c 0.0 is not allowed"),
        ({"c": 301}, "c 301 is not allowed"),
        ({"c": "5"}, "c '5' is not allowed"),
        ({"dropout_p": None}, "dropout_p None is not allowed"),
        ({"c": float("nan")}, "c nan is not allowed"),
        ({"dropout_p": 1.0}, "dropout_p 1.0"),
        ({"backend": "magic"}, "backend 'magic' is unknown"),
    ],
)
def test_bad_arguments_are_refused(change, message):
    values, _ = inputs(4)
    good = {**dict(zip("xab", values, strict=True)), "masks": MASKS}
    with pytest.raises(UserError, match=message):
        disa(**{**good, **change})
