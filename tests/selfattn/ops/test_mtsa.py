"""The MTSA operator against the paper's equation in float64, and against golden values."""

from functools import partial

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from benchmarks.testing import PADDINGS, LargestTensor, assert_close, padding_mask, run_with_grads
from selfattn.errors import UserError
from selfattn.masks import PositionalMask
from selfattn.ops import mtsa
from selfattn.ops.mtsa import eager, native, tiling
from selfattn.ops.mtsa.equation import equation

FORWARD, BACKWARD, NONE = (PositionalMask(d) for d in ("forward", "backward", "none"))
# Groups that are not contiguous, both self switches, windows shorter and longer than a block.
MASKS = [
    FORWARD,
    BACKWARD,
    NONE,
    FORWARD,
    PositionalMask("forward", include_self=True),
    PositionalMask("backward", window=3),
    PositionalMask(window=70),
]


def inputs(length, *, heads=7, width=8, key_width=6, scale=1.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(42)

    def draw(features):
        shape = (3, heads, length, features)
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    q, k, v, s, upstream = (draw(n) for n in (key_width, key_width, width, width, width))
    return [q, k, v, s * scale], upstream


REASON = native.refusal(torch.float32)
FUSED = pytest.param("fused", marks=pytest.mark.skipif(REASON is not None, reason=str(REASON)))


@pytest.fixture(params=["eager", FUSED])
def fast(request):
    """The name of each fast backend."""
    return request.param


def precisions(*ratios):
    """``fast``, ``dtype`` and ``ratio``: each backend in the dtypes that it does not refuse."""
    return pytest.mark.parametrize(
        ("fast", "dtype", "ratio"),
        [
            ("eager", *ratios[0]),
            *(pair for dtype, ratio in ratios[1:] for pair in both(dtype, ratio)),
        ],
    )


def both(dtype, ratio):
    return ("eager", dtype, ratio), pytest.param("fused", dtype, ratio, marks=FUSED.marks)


def compare(fast, dtype, ratio, length, padding, sigma_t, scale=1.0, masks=MASKS, **options):
    """A fast backend in ``dtype`` against the reference in float64 on the same rounded numbers."""
    x, upstream = inputs(length, scale=scale, dtype=dtype, heads=len(masks))
    hidden = padding_mask(padding, 3, length)
    options |= {"masks": masks, "padding_mask": hidden, "sigma_t": sigma_t}
    expected = run_with_grads(
        lambda *t: mtsa(*t, backend="reference", **options), [t.double() for t in x], upstream
    )
    got = run_with_grads(lambda *t: mtsa(*t, backend=fast, **options), x, upstream)
    for name, a, b in zip(("out", "dq", "dk", "dv", "ds"), expected, got, strict=True):
        assert b.dtype == dtype
        assert_close(name, a, b, ratio)


@pytest.mark.parametrize(
    ("mask", "sigma_t", "expected"),
    [
        (FORWARD, "identity", [[0, 0], [1, 2], [2.462117, 2.537883]]),
        (FORWARD, "logsigmoid", [[0, 0], [1, 2], [2.462117, 2.537883]]),
        (BACKWARD, "identity", [[4.103185, 5.103185], [5, 6], [0, 0]]),
        (BACKWARD, "logsigmoid", [[3.896528, 4.896528], [5, 6], [0, 0]]),
        (NONE, "identity", [[3.325253, 2.893758], [3.475570, 3.501994], [3.663770, 3.398525]]),
        (NONE, "logsigmoid", [[3.277349, 2.962628], [3.352862, 3.217365], [3.344029, 3.105059]]),
    ],
)
def test_golden_values(fast, mask, sigma_t, expected):
    q = torch.tensor([[1.0, 0], [0, 1], [1, 1]])[None, None]
    v = torch.tensor([[1.0, 2], [3, 4], [5, 6]])[None, None]
    s = torch.tensor([[0, 1], [1, 0], [0.5, -0.5]])[None, None]
    for backend in ("reference", fast):
        out = mtsa(q, q, v, s, masks=[mask], sigma_t=sigma_t, backend=backend)
        torch.testing.assert_close(out[0, 0], torch.tensor(expected), atol=1e-6, rtol=0)


def test_golden_values_of_the_translation_form(fast):
    q = torch.tensor([[1.0, 0], [0, 1], [1, 1]])[None, None]
    v = torch.tensor([[1.0, 2], [3, 4], [5, 6]])[None, None]
    s = torch.tensor([[0, 1], [1, 0], [0.5, -0.5]])[None, None]
    scaled = torch.nn.functional.logsigmoid(s / 2**0.5)
    expected = [[3.123408, 3.612828], [3.453452, 4.132419], [3.585689, 4.166346]]
    for backend in ("reference", fast):
        out = mtsa(q, q, v, scaled, masks=NONE, backend=backend)
        torch.testing.assert_close(out[0, 0], torch.tensor(expected), atol=1e-6, rtol=0)


@pytest.mark.parametrize("sigma_t", ["identity", "logsigmoid"])
@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("length", [1, 2, 63, 100])
@precisions((torch.float64, 1e-12), (torch.float32, 5e-6))
def test_outputs_and_gradients_equal_the_equation(fast, dtype, ratio, length, padding, sigma_t):
    compare(fast, dtype, ratio, length, padding, sigma_t)


def test_several_blocks_and_several_chunks(monkeypatch):
    monkeypatch.setattr(tiling, "PART_BYTES", 100_000)
    assert len(tiling.tiles(FORWARD, 150)) == 3
    many, few = (
        len(list(tiling.parts(MASKS, 3, 150, torch.device(name)))) for name in ("cpu", "cuda")
    )
    assert many > 3 * len(MASKS) / 2 and few <= len(MASKS)  # on a GPU each costs its launches
    compare("eager", torch.float64, 1e-12, 150, "left", "identity")


@pytest.mark.parametrize("sigma_t", ["identity", "logsigmoid"])
@pytest.mark.parametrize("padding", ["none", "left"])
def test_gradcheck(padding, sigma_t):
    masks = [FORWARD, PositionalMask("backward", include_self=True), PositionalMask(window=1)]
    x, _ = inputs(4, heads=3, width=2, key_width=1)
    hidden = padding_mask(padding, 3, 4)
    torch.autograd.gradcheck(
        lambda *t: mtsa(*t, masks=masks, padding_mask=hidden, sigma_t=sigma_t, backend="eager"),
        [t.requires_grad_() for t in x],
    )


# Score deviation -> error allowed in float32; float64 of the same numbers is the truth.
@precisions(
    (torch.float64, 1e-11), (torch.float32, 5e-6), (torch.bfloat16, 8e-3), (torch.float16, 1e-3)
)
@pytest.mark.parametrize("scale", [1, 10, 30, 100])
@pytest.mark.parametrize("padding", ["none", "right"])
def test_large_scores_stay_right_under_directions(fast, dtype, ratio, scale, padding):
    for sigma_t in ("identity", "logsigmoid"):
        compare(fast, dtype, ratio, 70, padding, sigma_t, scale, masks=[FORWARD, BACKWARD, NONE])


def test_the_maximum_of_an_invisible_key_does_not_silence_the_visible_ones(fast):
    s = torch.tensor([0.0, 0, 0, 120]).view(1, 1, 4, 1)
    q, v = torch.zeros(1, 1, 4, 1), torch.arange(1.0, 5).view(1, 1, 4, 1)
    out = mtsa(q, q, v, s, masks=FORWARD, backend=fast)
    torch.testing.assert_close(out.flatten(), torch.tensor([0, 1, 1.5, 2]))


@pytest.mark.parametrize("scale", [60.0, 2000.0])
def test_the_exact_form_is_reached_and_right(monkeypatch, scale):
    calls, right = [], eager.exact_forward
    monkeypatch.setattr(eager, "exact_forward", lambda *a: calls.append(a) or right(*a))
    compare("eager", torch.float32, 5e-6, 20, "left", "identity", scale, masks=[FORWARD, BACKWARD])
    assert calls


@pytest.mark.parametrize("backend", ["reference", "eager"])  # "fused": test_mtsa_native.py
def test_one_score_for_all_features(backend):
    (*x, s), upstream = inputs(9)

    def run(wide, q, k, v, s):
        return mtsa(q, k, v, s.expand_as(v) if wide else s, masks=MASKS, backend=backend)

    one = [*x, s[..., :1]]
    results = [run_with_grads(partial(run, wide), one, upstream) for wide in (False, True)]
    assert_close("results", *results, 1e-13)


def test_no_rescue_for_ordinary_scores(monkeypatch):
    monkeypatch.setattr(eager, "exact_forward", lambda *_: pytest.fail("rescued"))
    compare("eager", torch.float32, 5e-6, 63, "left", "identity")


@pytest.mark.parametrize("backend", ["reference", "eager", "fused"])
def test_a_query_without_a_visible_key_gives_exactly_zero(backend):
    x, upstream = inputs(4, dtype=torch.float32)
    hidden = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]]).bool()
    for mask in (FORWARD, BACKWARD):
        out, *grads = run_with_grads(
            lambda *t, m=mask: mtsa(*t, masks=m, padding_mask=hidden, backend=backend), x, upstream
        )
        dead = mask.visible_keys(hidden) == 0
        assert dead.sum() >= 4 + 3 - 1  # the first sentence, and one or more in the others
        assert (out.transpose(1, 2)[dead] == 0).all()
        assert (out.transpose(1, 2)[~dead].abs().sum(-1) > 0).all()
        assert all(torch.isfinite(g).all() for g in grads)
        assert (grads[0].transpose(1, 2)[dead] == 0).all()


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_never_changes_a_real_token(fast, side):
    exact = {"eager": 1e-13, "fused": 5e-7}[fast]
    x, _ = inputs(10, dtype={"eager": torch.float64, "fused": torch.float32}[fast])
    plain = mtsa(*x, masks=MASKS, backend=fast)
    for garbage in (0.0, 1e6, float("nan"), float("inf")):
        extra = torch.full_like(x[0][:, :, :4, :1], garbage)
        parts = [[extra.expand(-1, -1, -1, t.shape[-1]), t] for t in x]
        parts[0][0] = parts[0][0].nan_to_num(1e6, 1e6)  # a padded query may see real keys
        padded = [torch.cat(p if side == "left" else p[::-1], 2) for p in parts]
        hidden = torch.zeros(3, 14, dtype=torch.bool)
        real = slice(4, 14) if side == "left" else slice(0, 10)
        hidden[:, :4] = side == "left"
        hidden[:, 10:] |= side == "right"
        out, *grads = run_with_grads(
            lambda *t, h=hidden, r=real: mtsa(*t, masks=MASKS, padding_mask=h, backend=fast)[
                :, :, r
            ],
            padded,
            torch.ones_like(plain),
        )
        assert_close(f"out, padding {garbage}", plain, out, exact)
        for name, grad in zip(("dk", "dv", "ds"), grads[1:], strict=True):
            real_grad = grad[:, :, real]
            assert torch.isfinite(real_grad).all(), name
            outside = torch.ones(14, dtype=torch.bool)
            outside[real] = False
            assert (grad[:, :, outside] == 0).all(), name


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_a_forbidden_position_has_no_influence_and_no_gradient(fast, mask):
    x, _ = inputs(8, heads=1, dtype=torch.float32)
    allowed = mask.allowed(8)
    for query in range(8):
        leaves = [t.clone().requires_grad_() for t in x]
        mtsa(*leaves, masks=mask, backend=fast)[:, :, query].sum().backward()
        for t in leaves[1:]:
            touched = t.grad.abs().sum((0, 1, 3)) > 0
            assert not (touched & ~allowed[query]).any()
        assert ((leaves[2].grad.abs().sum((0, 1, 3)) > 0) == allowed[query]).all()


@pytest.mark.parametrize("scale", [1.0, 40.0])  # 40: the rescue sees the same factors
@pytest.mark.parametrize("padding", ["none", "left"])
@pytest.mark.parametrize("pairs_only", [False, True])
def test_dropout_is_what_its_factors_say(padding, scale, pairs_only):
    x, upstream = inputs(66, scale=scale)
    x[3] = x[3][..., :1] if pairs_only else x[3]
    hidden = padding_mask(padding, 3, 66)
    run = partial(mtsa, masks=MASKS, padding_mask=hidden, dropout_p=0.4, backend="eager")
    torch.manual_seed(7)
    got = run_with_grads(run, x, upstream)
    torch.manual_seed(7)
    seed = int(torch.randint(1 << 62, ()))
    factors = tiling.dropout_factors(x[0], x[2], MASKS, 0.4, seed, pairs_only)
    expected = run_with_grads(
        lambda *t: equation(*t, None, hidden, MASKS, "identity", factors), x, upstream
    )
    assert_close("results", expected, got, 1e-11)


@pytest.mark.parametrize("fast", ["reference", "eager", FUSED])
def test_dropout_keeps_the_mean_and_only_touches_the_numerator(fast):
    x, _ = inputs(12, heads=1, dtype=torch.float32)
    plain = mtsa(*x, masks=NONE)
    torch.manual_seed(3)
    dropped = torch.stack([mtsa(*x, masks=NONE, dropout_p=0.19, backend=fast) for _ in range(1500)])
    assert not torch.equal(dropped[0], dropped[1])
    assert_close("mean", plain, dropped.mean(0), 0.07)
    # Were the denominator dropped as well, a constant value would come back unchanged.
    ones = mtsa(x[0], x[1], torch.ones_like(x[2]), x[3], masks=NONE, dropout_p=0.5, backend=fast)
    assert ones.std() > 0.1


def test_no_tensor_of_size_n_n_d_and_memory_linear_in_n(monkeypatch):
    """The largest tensor that the fast path makes, forward and backward, at two lengths."""

    monkeypatch.setattr(tiling, "PART_BYTES", 1 << 16)
    largest = {}
    for length in (1024, 2048):
        x = [torch.randn(1, 2, length, 16).requires_grad_() for _ in range(4)]
        with LargestTensor() as seen:
            mtsa(*x, masks=[FORWARD, BACKWARD], backend="eager").sum().backward()
        largest[length] = seen.size
    assert largest[2048] <= 2.1 * largest[1024]
    assert largest[2048] < 2048 * 2048 * 4 / 10  # not even one n x n matrix of float32


def test_fakes_take_the_operators_of_pytorch_and_leave_nothing_behind():
    """Blocks depend on numbers that a fake does not have, and keep masks for the next call."""
    x = [torch.zeros(1, 2, 9, 4, dtype=torch.float64) for _ in range(4)]
    masks = [FORWARD, BACKWARD]
    with FakeTensorMode() as mode:
        fakes = [mode.from_tensor(t) for t in x]
        assert mtsa(*fakes, masks=masks).shape == (1, 2, 9, 4)
        with pytest.raises(UserError, match="'eager' cannot be used: its blocks depend on numbers"):
            mtsa(*fakes, masks=masks, backend="eager")
    assert mtsa(*x, masks=iter(masks), backend="eager").shape == (1, 2, 9, 4)
    assert make_fx(lambda *t: mtsa(*t, masks=masks))(*x)(*x).shape == (1, 2, 9, 4)


def good():
    x, _ = inputs(4, heads=2)
    return {**dict(zip("qkvs", x, strict=True)), "masks": [NONE, NONE]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"k": torch.zeros(3, 2, 5, 6).double()}, "one shape"),
        ({"s": torch.zeros(3, 2, 4, 7).double()}, "one shape"),
        ({"q": torch.zeros(2, 4, 6), "k": torch.zeros(2, 4, 6)}, "one shape"),
        ({"v": torch.zeros(3, 2, 4, 8)}, "dtypes"),
        ({"masks": [NONE]}, "1 masks for 2 heads"),
        ({"masks": None}, "masks is missing"),
        (dict.fromkeys("qk", torch.zeros(3, 2, 4, 0).double()), "no feature"),
        ({"masks": ["none"] * 2}, "masks holds 'none'; it must hold PositionalMask alone"),
        ({"padding_mask": torch.zeros(3, 5).bool()}, r"must be \(B, T\)"),
        ({"sigma_t": "relu"}, "'relu' is unknown"),
        ({"dropout_p": 1.0}, "dropout_p 1.0"),
        ({"dropout_p": -0.1}, "dropout_p -0.1"),
        (
            {"backend": "magic"},
            "backend 'magic' is unknown; allowed are auto, fused, eager, reference",
        ),
    ],
)
def test_bad_arguments_are_refused(change, message):
    with pytest.raises(UserError, match=message):
        mtsa(**{**good(), **change})
