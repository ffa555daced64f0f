"""The Triton kernels of MTSA against the paper's equation in float64.

On a CPU they run in Triton's interpreter; ``--device cuda`` runs the same tests on a GPU.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import partial

import pytest
import torch

from benchmarks.testing import assert_close, error_ratio, padding_mask, run_with_grads
from selfattn.masks import PositionalMask
from selfattn.ops.common.dropout import keep_probability
from selfattn.ops.common.fused import draw_seed, dropout_factors
from selfattn.ops.common.triton_tools import jit, round_tf32, tl
from selfattn.ops.mtsa.equation import mtsa_slow
from selfattn.ops.mtsa.fused import configs, launch, mtsa_fused

pytestmark = [
    pytest.mark.skipif(
        importlib.util.find_spec("triton") is None, reason="Triton is not installed"
    ),
    # 0 / 0 in flagged rows, before the exact kernel overwrites them: numpy tells, a GPU does not
    pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning"),
]

FORWARD, BACKWARD, NONE = (PositionalMask(d) for d in ("forward", "backward", "none"))
# Both directions, both self switches, windows shorter and longer than a tile of the tests.
MASKS = [
    FORWARD,
    BACKWARD,
    NONE,
    PositionalMask("forward", include_self=True, window=20),
    PositionalMask(window=3),
]
NAMES = ("out", "dq", "dk", "dv", "ds")
BATCH = 2


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch, device):
    """Tiles so small that short inputs have several, each kernel with a different shape."""
    if device.type == "cpu":
        sizes = [(32, 16), (16, 32), (32, 16), (16, 16)]
        tiles = configs.Tiles(*(configs.Tile(*size, 4, 1) for size in sizes))
        monkeypatch.setattr(configs, "choose", lambda *_: tiles)
        monkeypatch.setattr(configs, "FLAG_ROWS", 32)


def inputs(device, length, *, heads, dtype=torch.float32, key_width=16, width=16, scale=1.0):
    """q, k, v, s as views of (B, T, H * D) memory, and a gradient of the output."""
    generator = torch.Generator().manual_seed(42)

    def draw(features, size=1.0):
        shape = (BATCH, length, heads, features)
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64) * size
        return drawn.to(device, dtype).transpose(1, 2)

    x = [draw(key_width), draw(key_width), draw(width), draw(width, scale)]
    return x, draw(width)


def both(x, upstream, masks, hidden, sigma_t):
    """Output and gradients: of the equation in float64 on the same numbers, and of the kernels."""
    if hidden is not None:
        hidden = hidden.to(x[0].device)
    options = (masks, hidden, sigma_t, 0.0)
    expected = run_with_grads(lambda *t: mtsa_slow(*t, *options), [t.double() for t in x], upstream)
    return expected, run_with_grads(lambda *t: mtsa_fused(*t, *options), x, upstream)


def compare(x, upstream, masks, hidden, sigma_t="identity", bound=5e-6):
    expected, got = both(x, upstream, masks, hidden, sigma_t)
    for name, want, found in zip(NAMES, expected, got, strict=True):
        assert found.dtype == x[0].dtype
        assert_close(name, want, found, bound)


@pytest.mark.parametrize("sigma_t", ["identity", "logsigmoid"])
@pytest.mark.parametrize("padding", ["none", "left", "right", "all"])
def test_kernels_are_the_equation(device, padding, sigma_t):
    x, upstream = inputs(device, 17, heads=3)
    masks = [FORWARD, PositionalMask("backward", window=3), NONE]
    compare(x, upstream, masks, padding_mask(padding, BATCH, 17), sigma_t)


@pytest.mark.parametrize("padding", ["none", "all"])
@pytest.mark.parametrize("length", [1, 2])
def test_short_sentences(device, length, padding):
    x, upstream = inputs(device, length, heads=3)
    compare(x, upstream, [FORWARD, BACKWARD, NONE], padding_mask(padding, BATCH, length))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_torchs_default_dtype_changes_nothing(device, dtype):
    x, upstream = inputs(device, 9, heads=2)
    options = {"masks": [FORWARD, NONE], "padding_mask": None, "sigma_t": "identity"}
    run = partial(mtsa_fused, dropout_p=0.0, **options)
    expected = run_with_grads(run, x, upstream)
    torch.set_default_dtype(dtype)
    try:
        got = run_with_grads(run, x, upstream)
        factors = dropout_factors(draw_seed(device), (1, 2, 3, 4), 0.3)
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(expected, got, strict=True))
    assert {t.dtype for t in factors} == {torch.float32}


def test_several_tiles(device):
    """Without padding: test_flags_are_set_where_weights_would_be_lost."""
    x, upstream = inputs(device, 40, heads=len(MASKS))
    compare(x, upstream, MASKS, padding_mask("left", BATCH, 40))


@pytest.mark.parametrize(("key_width", "width"), [(25, 16), (16, 38), (8, 3)])
def test_head_widths(device, key_width, width):
    x, upstream = inputs(device, 17, heads=2, key_width=key_width, width=width)
    compare(x, upstream, [FORWARD, NONE], padding_mask("left", BATCH, 17))


def test_padding_with_holes(device):
    x, upstream = inputs(device, 40, heads=2)
    hidden = torch.zeros(BATCH, 40, dtype=torch.bool)
    hidden[0, 5:12] = hidden[1, ::3] = True
    compare(x, upstream, [BACKWARD, NONE], hidden)


def test_nothing_leaks_from_padding(device):
    x, upstream = inputs(device, 17, heads=2)
    hidden = padding_mask("right", BATCH, 17).to(device)
    clean, dirty = ([t.clone() for t in x] for _ in range(2))
    for t, value in zip(dirty[1:], (float("nan"), float("inf"), 1e38), strict=True):
        t.transpose(1, 2)[hidden] = value  # q not: a padded query has an output of its own
    options = ([BACKWARD, NONE], hidden, "identity", 0.0)
    for name, want, found in zip(
        NAMES,
        run_with_grads(lambda *t: mtsa_fused(*t, *options), clean, upstream),
        run_with_grads(lambda *t: mtsa_fused(*t, *options), dirty, upstream),
        strict=True,
    ):
        assert torch.equal(want, found), name


def test_queries_that_see_nothing(device):
    """Their outputs and gradients are exactly 0: first, last, and rows of padding alone."""
    x, upstream = inputs(device, 17, heads=2)
    hidden = padding_mask("all", BATCH, 17)
    _, got = both(x, upstream, [FORWARD, BACKWARD], hidden, "identity")
    out, dq = got[:2]
    for t in (out, dq):
        assert not t[:, 0, 0].any()
        assert not t[:, 1, -1].any()
        assert not t[-1].any()
        assert t[0, 0, 1:].any()
    for t in got[2:]:
        assert not t[-1].any()
        assert not t.transpose(1, 2)[hidden.to(device)].any()


@pytest.mark.parametrize("which", range(4), ids="qkvs")
def test_a_nan_is_not_hidden(which, device):
    """Of a real token, wherever it goes in the equation; the other sentence stays clean."""
    x, upstream = inputs(device, 20, heads=2)
    x[which][0, :, 5] = torch.nan
    _, got = both(x, upstream, [FORWARD, BACKWARD], None, "identity")
    lost = got[0][0].isnan().any(-1)  # (heads, queries)
    seen = [slice(5, 6)] * 2 if which == 0 else [slice(6, None), slice(0, 5)]
    for head, rows in enumerate(seen):
        assert lost[head, rows].all()
    for name, found in zip(NAMES, got, strict=True):
        assert not found[1].isnan().any(), name
        assert name == "dv" or name == "out" or found[0].isnan().any(), name


@jit
def rounded(x_ptr, y_ptr):
    at = tl.arange(0, 4)
    tl.store(y_ptr + at, round_tf32(tl.load(x_ptr + at)))


def test_the_nan_of_a_gpu_survives_rounding_to_tf32(device):
    """0x7fffffff, where numpy's is 0x7fc00000."""
    bits = torch.tensor([0x7FFFFFFF, 0x7FC00000, 0x3F800FFF, 0x3F801000], dtype=torch.int32)
    x = bits.view(torch.float32).to(device)
    y = torch.empty_like(x)
    rounded[(1,)](x, y)
    assert y[:2].isnan().all()
    assert y[2:].cpu().view(torch.int32).tolist() == [0x3F800000, 0x3F802000]


def plain(q, k, v, s, visible):
    """Algorithm 1 in the dtype of its inputs: what each operation of it rounds, it rounds once."""
    r = q @ k.mT * q.shape[-1] ** -0.5
    r = r.masked_fill(~visible, float("-inf"))
    p = (r - r.amax(-1, keepdim=True)).exp()
    e = (s - s.amax(-2, keepdim=True)).exp()
    return (p @ (v * e)) / (p @ e)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(device, dtype):
    """No more than twice the error of one rounding, or for gradients of the rounded formula."""
    masks = [PositionalMask("forward", include_self=True), NONE]
    x, upstream = inputs(device, 40, heads=2, dtype=dtype)
    expected, got = both(x, upstream, masks, None, "identity")
    visible = torch.stack([m.allowed(40, device) for m in masks])
    rounded = run_with_grads(partial(plain, visible=visible), x, upstream)
    rounded[0] = expected[0].to(dtype)
    for name, want, once, found in zip(NAMES, expected, rounded, got, strict=True):
        assert found.dtype == dtype
        assert_close(name, want, found, 2 * error_ratio(want, once))


@pytest.mark.parametrize(
    ("scale", "sigma_t"), [(10.0, "identity"), (30.0, "identity"), (30.0, "logsigmoid")]
)
def test_large_scores(device, scale, sigma_t):
    x, upstream = inputs(device, 40, heads=2, scale=scale)
    compare(x, upstream, [BACKWARD, NONE], padding_mask("left", BATCH, 40), sigma_t)


def test_saturated_sigmoids_have_a_slope(device):
    """1 - p for p near 1: scores of pairs are near 12, where 1 - p is 6e-6."""
    x, upstream = inputs(device, 40, heads=2)
    x[0], x[1] = 3.5 + 0.01 * x[0], 3.5 + 0.01 * x[1]
    compare(x, upstream, [FORWARD, NONE], None, "logsigmoid", 5e-5)


def test_sigmoids_that_underflow(device):
    """The fast kernels subtract no maximum from a log-sigmoid: the exact ones redo its tiles."""
    x, upstream = inputs(device, 40, heads=2)
    x[0], x[1] = 8 * x[0].abs(), -8 * x[1].abs()  # scores of pairs from -100 to -250
    assert flags(x, [FORWARD, NONE], "logsigmoid").all()
    assert not flags(x, [FORWARD, NONE]).any()
    compare(x, upstream, [FORWARD, NONE], padding_mask("right", BATCH, 40), "logsigmoid", 5e-5)


@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float32, 5e-5), (torch.bfloat16, 1e-1), (torch.float16, 1e-2)]
)
def test_huge_scores_stay_finite_and_ordered(device, dtype, bound):
    for scale in (30.0, 100.0):
        x, upstream = inputs(device, 17, heads=2, scale=scale, dtype=dtype)
        expected, got = both(x, upstream, [FORWARD, NONE], None, "identity")
        assert_close("results", expected, got, bound)
        assert error_ratio(expected[0], got[0]) <= 2 * max(
            error_ratio(expected[0], expected[0].to(dtype)), 1e-6
        )


def flags(x, masks, sigma_t="identity"):
    """Which query tiles the forward kernel hands to the exact one, for each sentence and head."""
    return launch.Triton(tuple(masks), sigma_t, 0.0, True).forward((*x, None, None, None)).flags


def test_flags_are_set_where_weights_would_be_lost(device):
    x, upstream = inputs(device, 40, heads=2)
    assert not flags(x, [FORWARD, NONE]).any()
    x[3][0, 0, -2] = 120.0  # a key that outweighs all others by e^120, and one query sees it
    found = flags(x, [FORWARD, NONE]).view(BATCH, 2, -1)
    assert found[0, 0].all()
    assert found.sum() == found[0, 0].sum()
    compare(x, upstream, [FORWARD, NONE], None)


def test_flagged_and_ordinary_tiles_add_up(device):
    """Keys get gradients from both kinds of queries."""
    length = 300 if device.type == "cuda" else 40  # whose tiles are larger
    x, upstream = inputs(device, length, heads=2)
    x[3][:, :, length // 2] = 120.0  # not all queries of its own tile see it
    found = flags(x, [FORWARD, BACKWARD])
    assert 0 < found.sum() < found.numel()
    compare(x, upstream, [FORWARD, BACKWARD], padding_mask("right", BATCH, length))


def test_scores_of_any_size_leave_numbers(device):
    """What a query sees lies far below other keys; at 3e38, float64 loses the scores of pairs."""
    for huge in (1e11, 3e38):
        x, upstream = inputs(device, 40, heads=2)
        x[3][:, :, :5] = -huge
        expected, got = both(x, upstream, [FORWARD, NONE], None, "identity")
        assert huge > 1e11 or error_ratio(expected[0], got[0]) < 1e-5
        assert all(found.isfinite().all() for found in got)


def equation(q, k, v, s, visible, pairs, features, sigma_t):
    """Equation 11 with dropout on the numerator alone."""
    r = q @ k.mT * q.shape[-1] ** -0.5
    r = torch.nn.functional.logsigmoid(r) if sigma_t == "logsigmoid" else r
    score = (r[..., None] + s[:, :, None]).masked_fill(~visible[..., None], float("-inf"))
    p = score.softmax(-2) * pairs[..., None] * features[:, :, None]
    return (p * v[:, :, None]).sum(-2)


@pytest.mark.parametrize("sigma_t", ["identity", "logsigmoid"])
def test_dropout_is_the_factors_of_its_seed(sigma_t, device, monkeypatch):
    masks = [PositionalMask("forward", include_self=True), NONE]
    x, upstream = inputs(device, 40, heads=2, width=25)
    x[3][1] *= 40.0  # this sentence is handed to the exact kernels
    found = flags(x, masks).view(BATCH, -1)
    assert not found[0].any() and found[1].any()
    seed = torch.tensor([1234567890123456789], device=device)
    monkeypatch.setattr(sys.modules[mtsa_fused.__module__], "draw_seed", lambda _: seed)
    pairs, features = dropout_factors(seed, tuple(x[2].shape), 0.3)
    visible = torch.stack([m.allowed(40, device) for m in masks])
    expected = run_with_grads(
        lambda *t: equation(*t, visible, pairs.double(), features.double(), sigma_t),
        [t.double() for t in x],
        upstream,
    )
    got = run_with_grads(lambda *t: mtsa_fused(*t, masks, None, sigma_t, 0.3), x, upstream)
    for name, want, found in zip(NAMES, expected, got, strict=True):
        for sentence in range(BATCH):
            assert_close(f"{name} of {sentence}", want[sentence], found[sentence], 5e-6)


def test_dropout_factors(device):
    seed = torch.tensor([7], device=device)
    keep = keep_probability(0.3)
    for factor in dropout_factors(seed, (2, 2, 12, 16), 0.3):
        kept = factor > 0
        torch.testing.assert_close(factor[kept], torch.full_like(factor[kept], 1 / keep))
        assert (
            abs(kept.float().mean().item() - keep) < 4 * (keep * (1 - keep) / kept.numel()) ** 0.5
        )
        assert not torch.equal(kept[0, 0], kept[0, 1])
        assert not torch.equal(kept[0, 0], kept[1, 0])
    again = dropout_factors(seed, (2, 2, 12, 16), 0.3)
    other = dropout_factors(seed + (1 << 40), (2, 2, 12, 16), 0.3)
    assert torch.equal(again[0], dropout_factors(seed, (2, 2, 12, 16), 0.3)[0])
    assert not torch.equal(again[0], other[0])


def test_the_seed_follows_torchs_generator(device):
    torch.manual_seed(3)
    first = draw_seed(device)
    assert not torch.equal(first, draw_seed(device))
    torch.manual_seed(3)
    assert torch.equal(first, draw_seed(device))
