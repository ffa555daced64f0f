"""What layers show of themselves is what they compute."""

import pytest
import torch

import selfattn.layers.mtsa
from benchmarks.testing import assert_close, noisy
from selfattn.config import CONFIGS
from selfattn.layers import ATTENTIONS, SelfAttention, build_attention
from selfattn.layers.base import join_heads, split_heads

FORMS = [
    (name, preset) for name in ATTENTIONS for preset in (list(CONFIGS[name].presets) or [None])
]
SHOWING = [form for form in FORMS if ATTENTIONS[form[0]].inspect is not SelfAttention.inspect]
MTSA_FORMS = [preset for name, preset in FORMS if name == "mtsa"]
WIDTH, HEADS, LENGTH = 24, 4, 7
PADDING = torch.tensor([[0] * 7, [1] * 2 + [0] * 5, [0] * 4 + [1] * 3]).bool()


def make(name, preset, **switches):
    torch.manual_seed(0)
    return noisy(build_attention(name, WIDTH, HEADS, preset=preset, **switches).double(), 0.3)


@pytest.fixture
def x():
    return torch.randn(3, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1)).double()


@pytest.mark.parametrize("name", ["mtsa", "disa"])
def test_shares_of_many_features_add_up_in_bfloat16(name):
    layer = build_attention(name, 16, 2, head_dim=600, include_self=True).bfloat16()
    weights = layer.inspect(torch.randn(1, 6, 16).bfloat16()).token2token
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, 6), atol=0.02, rtol=0)


@pytest.mark.parametrize(("name", "preset"), SHOWING, ids=lambda part: str(part))
def test_weights_are_shares_and_padding_gets_none(name, preset, x):
    layer = make(name, preset, attention_dropout=0.5).train()
    seen = layer.inspect(x.requires_grad_(), PADDING)
    assert layer.training and all(module.training for module in layer.modules())
    assert len(seen.masks) == layer.num_heads
    for field in (seen.token2token, seen.source2token, seen.gate):
        if field is not None:
            assert not field.requires_grad and field.shape[:3] == (3, field.shape[1], LENGTH)
            assert ((field >= 0) & (field <= 1 + 1e-12)).all()
    for field, hidden in (
        (seen.token2token, PADDING[:, None, None]),
        (seen.source2token, PADDING[:, None]),
    ):
        if field is None:
            continue
        hidden = hidden.expand_as(field)
        assert (field[hidden] == 0).all(), "padding has weight"
        total = field.sum(-1)
        assert torch.minimum(total.abs(), (total - 1).abs()).max() < 1e-12, "neither 0 nor 1"
        assert (total > 0.5).any(-1).all(), "a sentence whose tokens see nothing"


@pytest.mark.parametrize(("name", "preset"), SHOWING, ids=lambda part: str(part))
@pytest.mark.parametrize(("row", "real"), [(1, slice(2, 7)), (2, slice(0, 4))])
def test_a_sentence_shows_the_same_without_its_batch(name, preset, x, row, real):
    layer = make(name, preset)
    together, alone = layer.inspect(x, PADDING), layer.inspect(x[row : row + 1, real])
    assert together.masks == alone.masks
    for field in ("token2token", "source2token", "gate", "heads", "dependents", "blocks"):
        batch, single = getattr(together, field), getattr(alone, field)
        if single is not None:
            part = batch[row, ..., real, real] if field == "token2token" else batch[row, ..., real]
            assert_close(field, single[0].double(), part.double(), 1e-12)


def test_a_selection_is_that_of_the_input_also_without_a_gate(x):
    layer = make("resa", "paper", fusion_gate=False).eval()
    layer.select_all = False
    with torch.no_grad():
        layer(x.flip(1))  # another batch, whose selection waits
        seen = layer.inspect(x, PADDING)
        layer(x, PADDING)
    heads = layer.take_choice().heads.selected
    assert torch.equal(seen.heads, heads) and seen.gate is None
    assert not seen.token2token[~heads[:, None].expand(-1, HEADS // 2, -1)].any()


@pytest.mark.parametrize(
    "switches",
    [
        {},
        {"masks": "forward_backward", "distance": "linear"},
        {"masks": "backward", "window": 2},
        {"positions": "rotary"},
        {"positions": "alibi"},
        {"positions": "relative", "masks": "forward"},
    ],
    ids=str,
)
@pytest.mark.parametrize("padding", [None, PADDING], ids=["whole", "padded"])
def test_multihead_weights_times_values_are_the_output(padding, switches, x):
    layer = make("multihead", None, **switches)
    if layer.relative is not None:  # eq. 3 without what it adds to the values
        torch.nn.init.zeros_(layer.relative.values)
    weights = layer.inspect(x, padding).token2token
    y = layer.out_proj(join_heads(weights @ split_heads(layer.v_proj(x), HEADS)))
    assert_close("output", layer(x, padding), y, 1e-12)


@pytest.mark.parametrize(
    ("preset", "switches"),
    [
        *((preset, {}) for preset in MTSA_FORMS),
        ("paper", {"distance": "linear", "window": 3}),
        ("paper", {"scores": "token2token"}),
        ("sentence", {"scores": "source2token"}),
    ],
    ids=lambda part: part if isinstance(part, str) else "-".join(map(str, part.values())),
)
@pytest.mark.parametrize("padding", [None, PADDING], ids=["whole", "padded"])
def test_mtsa_weights_are_what_the_operator_gives_one_hot_values(
    preset, switches, padding, x, monkeypatch
):
    """With the values 1 at key j and 0 elsewhere, a query's context is its weight for j."""
    called = []
    operator = selfattn.layers.mtsa.mtsa

    def spy(q, k, v, s, **options):
        called.append((q, k, v, s, options))
        return operator(q, k, v, s, **options)

    monkeypatch.setattr(selfattn.layers.mtsa, "mtsa", spy)
    layer = make("mtsa", preset, **switches).eval()
    layer(x, padding)
    q, k, v, s, options = called[0]
    seen = layer.inspect(x, padding)
    for key in range(LENGTH):
        hot = torch.zeros_like(v)
        hot[:, :, key] = 1
        context = operator(q, k, hot, s, **options).mean(-1)
        assert_close(f"key {key}", context, seen.token2token[..., key], 1e-12)


def test_mtsa_source2token_and_gate_by_their_equations(x):
    layer = make("mtsa", "sentence").eval()
    seen = layer.inspect(x)
    v = split_heads(torch.relu(layer.v_proj(x)), HEADS)
    s = layer.source2token(v)
    assert_close("source2token", torch.softmax(s, 2).mean(-1), seen.source2token, 1e-12)
    context = layer._attend(*layer._project(x, None), None)
    gate = torch.sigmoid(layer.gate.linear(torch.cat([v, context], -1)))
    assert_close("output", split_heads(layer(x), HEADS), gate * v + (1 - gate) * context, 1e-12)
    assert_close("gate", gate.mean(-1), seen.gate, 1e-12)
    assert seen.masks == ("forward", "forward", "backward", "backward")
    assert (seen.token2token[:, :2, 0] == 0).all(), "the first query sees nothing forward"
