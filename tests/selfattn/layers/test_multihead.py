"""Multi-head attention and what its switches add, against the equations written out."""

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from benchmarks.testing import LargestTensor, assert_close, noisy, padding_mask, run_with_grads
from selfattn.errors import UserError
from selfattn.layers import build_attention
from selfattn.masks import head_masks
from selfattn.ops import dot_product as module
from selfattn.ops.dot_product import dot_product, strictly_directed

HEADS, WIDTH = 4, 24
SWITCHES = [
    {},
    {"masks": "forward"},
    {"masks": "backward"},
    {"masks": "forward_backward"},
    {"masks": "forward_backward", "include_self": True},
    {"window": 2},
    {"masks": "forward_backward", "window": (1, 3, 2, 70)},
    {"distance": "linear"},
    {"masks": "forward_backward", "distance": "log", "window": 5},
    {"positions": "relative", "relative_clip": 3},
    {"positions": "relative", "masks": "forward_backward", "distance": "log"},
    {"positions": "rotary"},
    {"positions": "rotary", "masks": "forward_backward"},
    {"positions": "alibi"},
    {"positions": "alibi", "masks": "forward_backward"},
]
# Where a sentence of padding alone sees itself.
UNMASKED = [{}, {"positions": "rotary"}]


def made(**switches):
    torch.manual_seed(0)
    return noisy(build_attention("multihead", WIDTH, HEADS, **switches).double(), 0.1)


def tokens(length, batch=2):
    generator = torch.Generator().manual_seed(length)
    return torch.randn(batch, length, WIDTH, generator=generator, dtype=torch.float64)


def sees(config, head, length):
    """Which keys the queries of a head see, in the words of the paper: ``(T, T)``."""
    ahead = torch.arange(length) - torch.arange(length)[:, None]  # key - query
    direction = config.masks
    if direction == "forward_backward":
        direction = "forward" if head < HEADS // 2 else "backward"
    seen = {"forward": ahead < 0, "backward": ahead > 0, "none": ahead == ahead}[direction]
    if config.include_self:
        seen = seen | (ahead == 0)
    if config.window is not None:
        window = config.window[head] if isinstance(config.window, tuple) else config.window
        seen = seen & (ahead.abs() <= window)
    return seen


def equation(layer, x, padding):
    """Vaswani et al. 2017, eq. 1, head by head, with the weights of what is hidden set to 0."""
    length, width = x.shape[1], WIDTH // HEADS
    x = x if padding is None else x.masked_fill(padding[..., None], 0.0)
    config = layer.config
    ahead = torch.arange(length) - torch.arange(length)[:, None]
    far = ahead.abs().double()
    cost = {"none": 0 * far, "linear": far, "log": torch.log(1 + far)}[config.distance]
    if config.positions == "relative":  # Shaw et al. 2018, eq. 3 and 4: (T, T, D)
        row = ahead.clamp(-config.relative_clip, config.relative_clip) + config.relative_clip
        a_k, a_v = layer.relative.keys[row], layer.relative.values[row]
    contexts = []
    for head in range(HEADS):
        part = slice(head * width, (head + 1) * width)
        q, k, v = (m(x)[..., part] for m in (layer.q_proj, layer.k_proj, layer.v_proj))
        if config.positions == "rotary":
            q, k = turned(q), turned(k)
        score = torch.einsum("bid,bjd->bij", q, k) / math.sqrt(width)
        if config.positions == "relative":
            score = score + torch.einsum("bid,ijd->bij", q, a_k) / math.sqrt(width)
        if config.positions == "alibi":
            count = HEADS // 2 if config.masks == "forward_backward" else HEADS
            score = score - 2 ** (-8 * (head % count + 1) / count) * far
        if config.distance != "none":
            score = score - layer.distance.log_slope[head].exp() * cost
        seen = sees(config, head, length).expand_as(score)
        if padding is not None:
            seen = seen & ~padding[:, None]
        weight = torch.where(seen, score.exp(), 0.0)
        total = weight.sum(-1, keepdim=True)
        weight = weight / torch.where(total > 0, total, 1.0)
        context = weight @ v
        if config.positions == "relative":
            context = context + torch.einsum("bij,ijd->bid", weight, a_v)
        contexts.append(context)
    return layer.out_proj(torch.cat(contexts, -1))


def turned(x):
    """RoFormer, eq. 14 and 15, by complex numbers: ``(B, T, D)``."""
    length, width = x.shape[1:]
    theta = torch.tensor([10_000.0 ** (-2 * i / width) for i in range(width // 2)], dtype=x.dtype)
    angle = torch.outer(torch.arange(length).double(), theta)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:2], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).reshape(x.shape)


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
@pytest.mark.parametrize("kind", ["none", "left", "right"])
@pytest.mark.parametrize("length", [1, 2, 63, 100])
def test_output_and_gradients_are_the_equation_s(switches, kind, length):
    layer = made(**switches)
    x, padding = tokens(length), padding_mask(kind, 2, length)
    upstream = torch.randn_like(x)
    results = []
    for form in (equation, lambda layer, *inputs: layer(*inputs)):
        layer.zero_grad()
        leaf = x.clone().requires_grad_()
        y = form(layer, leaf, padding)
        y.backward(upstream)
        results.append([y, leaf.grad, *(p.grad for p in layer.parameters())])
    assert_close("results", *results, 1e-12)


@pytest.mark.parametrize("switches", [s for s in SWITCHES if s not in UNMASKED], ids=str)
def test_a_query_without_a_key_gives_exactly_0(switches):
    """Sentences of padding alone, and the ends of a direction; no NaN comes back."""
    layer = made(**switches)
    layer.out_proj = torch.nn.Identity()
    x, padding = tokens(7, 3).requires_grad_(), padding_mask("all", 3, 7)
    y = layer(x, padding)
    for head in range(HEADS):
        alone = ~(sees(layer.config, head, 7) & ~padding[:, None]).any(-1)
        assert alone[-1].all()
        part = y[..., head * 6 : head * 6 + 6]
        assert (part[alone] == 0).all() and (part[~alone] != 0).all()
    y.square().sum().backward()
    assert x.grad.isfinite().all() and (x.grad[-1] == 0).all()


def test_what_has_parameters():
    sizes = {
        str(switches): sum(p.numel() for p in made(**switches).parameters())
        for switches in SWITCHES
        if "distance" not in switches and switches.get("positions") != "relative"
    }
    assert set(sizes.values()) == {4 * WIDTH * (WIDTH + 1)}
    relative = made(positions="relative")
    assert sum(p.numel() for p in relative.relative.parameters()) == 2 * 33 * WIDTH // HEADS
    plain, directed = made(), made(masks="forward_backward")
    directed.load_state_dict(plain.state_dict())


def qkv(length, dtype=torch.float64, batch=3):
    generator = torch.Generator().manual_seed(length)
    shape = (3, batch, HEADS, length, 6)
    return list(torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype))


@pytest.mark.parametrize("layout", ["forward", "backward", "forward_backward"])
@pytest.mark.parametrize("kind", ["none", "left", "right", "all"])
@pytest.mark.parametrize("length", [1, 2, 63, 100])
def test_causal_attention_is_the_same_operator(layout, kind, length):
    """What a GPU computes, here on a CPU; MTSA's operator is what a CPU takes."""
    masks, padding = head_masks(layout, HEADS), padding_mask(kind, 3, length)
    inputs = qkv(length)
    inputs[1][:, :, -1] *= 50  # a large score may be padding's
    upstream = torch.randn_like(inputs[0])
    usual = run_with_grads(
        lambda *t: dot_product(*t, masks=masks, padding_mask=padding), inputs, upstream
    )
    causal = run_with_grads(lambda *t: strictly_directed(*t, masks, padding), inputs, upstream)
    assert_close("results", usual, causal, 1e-12)
    assert ((usual[0] == 0) == (causal[0] == 0)).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("refused", [None, "no Triton"])
@pytest.mark.parametrize("dropout_p", [0.0, 0.1])
def test_a_gpu_takes_causal_attention_where_mtsas_kernel_is_no_faster(
    monkeypatch, dtype, refused, dropout_p
):
    taken = []
    for name in ("mtsa", "strictly_directed"):
        monkeypatch.setattr(module, name, lambda *_, name=name, **__: taken.append(name))
    monkeypatch.setattr(module.dispatch, "refusal", lambda *_: refused)
    monkeypatch.setattr(module.dispatch, "unfit", lambda _: {})  # the tensor is no real one
    with FakeTensorMode():
        q = torch.empty(2, HEADS, 5, 8, dtype=dtype, device="cuda")
        masks = head_masks("forward_backward", HEADS)
        dot_product(q, q, q, masks=masks, dropout_p=dropout_p)
    fast = dtype == torch.bfloat16 and refused is None and not dropout_p
    assert taken == ["mtsa" if fast else "strictly_directed"]


@pytest.mark.parametrize(
    ("dtype", "bound"), [(torch.float32, 5e-7), (torch.bfloat16, 5e-3), (torch.float16, 7e-4)]
)
@pytest.mark.parametrize("form", ["operator", "causal"])
def test_lower_precision(dtype, bound, form):
    """Bounds: about twice what was measured, gradients included."""
    masks, padding = head_masks("forward_backward", HEADS), padding_mask("left", 3, 63)
    inputs = qkv(63, dtype)
    upstream = torch.randn(inputs[0].shape, dtype=torch.float64).to(dtype)
    run = {
        "operator": lambda *t: dot_product(*t, masks=masks, padding_mask=padding),
        "causal": lambda *t: strictly_directed(*t, masks, padding),
    }
    found = run_with_grads(run[form], inputs, upstream)
    exact = run_with_grads(run["operator"], [t.double() for t in inputs], upstream.double())
    for name, want, got in zip(("output", *"qkv"), exact, found, strict=True):
        assert got.dtype == dtype
        assert_close(name, want, got, bound)


@pytest.mark.parametrize("switches", SWITCHES, ids=str)
def test_dropout_drops_weights_and_keeps_their_mean(switches):
    """Weights alone, without renormalisation, as fairseq's: the mean over draws is the output."""
    layer = build_attention("multihead", WIDTH, HEADS, **switches, attention_dropout=0.4).double()
    x = tokens(5, 1)
    padding = torch.tensor([[True] + [False] * 4])
    torch.manual_seed(3)
    many = layer.train()(x.expand(6000, -1, -1), padding.expand(6000, -1))
    assert_close("mean", layer.eval()(x, padding)[0], many.mean(0), 0.05)
    if layer.relative is not None:
        return
    hidden = dot_product(
        *qkv(5, batch=1), masks=layer.masks, padding_mask=padding, dropout_p=0.999,
        distance_bias=layer.distance and layer.distance(x),
    )  # fmt: skip
    assert hidden.isfinite().all() and (hidden == 0).float().mean() > 0.9


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize(
    "switches",
    [{}, {"masks": "forward_backward"}, {"window": 16}, {"masks": "forward", "distance": "linear"}],
    ids=str,
)
def test_memory_is_linear_in_the_length(switches, dropout):
    layer = build_attention("multihead", WIDTH, HEADS, **switches, attention_dropout=dropout)
    x = torch.randn(1, 2048, WIDTH)
    padding = torch.arange(2048)[None] > 2000
    with LargestTensor() as seen:
        layer(x.requires_grad_(), padding).sum().backward()
    assert seen.size < 2048 * 2048  # bytes: a quarter of one head's scores


@pytest.mark.parametrize(
    ("sizes", "switches", "message"),
    [
        ((20, 4), {"positions": "rotary"}, r"a head has 5 \(embed_dim 20 / num_heads 4\); it must"),
        (
            (20, 4),
            {"positions": "alibi", "distance": "log"},
            "distance 'log' and positions 'alibi' both penal",
        ),
        ((20, 4), {"positions": "sines"}, "positions 'sines' is not allowed"),
        ((20, 4), {"positions": "relative", "relative_clip": 0}, "relative_clip 0 is not allowed"),
        ((20, 4), {"relative_clip": 8}, "relative_clip 8 needs positions 'relative'"),
        ((15, 3), {"masks": "forward_backward"}, "the number of heads is 3; it must be even"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(sizes, switches, message):
    with pytest.raises(UserError, match=message):
        build_attention("multihead", *sizes, **switches)


@pytest.mark.parametrize("positions", ["relative", "rotary", "alibi"])
def test_positions_tell_the_order_of_words(positions):
    """Without them the tokens of a sentence are a set."""
    x, order = tokens(6), torch.tensor([3, 0, 5, 1, 4, 2])
    plain, layer = made(), made(positions=positions)
    assert_close("a set", plain(x)[:, order], plain(x[:, order]), 1e-12)
    assert (layer(x)[:, order] - layer(x[:, order])).abs().max() > 1e-3
