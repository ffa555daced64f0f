"""The MTSA layer: published sizes, and each preset against its formula written out."""

import pytest
import torch
import torch.nn.functional as F

from benchmarks.testing import assert_close, noisy
from selfattn.config import MTSAConfig
from selfattn.errors import UserError
from selfattn.layers import MTSA, BiBloSA, DiSA, FastDiSA, MultiHead, ReSA, build_attention
from selfattn.layers import mtsa as mtsa_layer
from selfattn.layers.linear import map_heads
from selfattn.masks import PositionalMask


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


def built(preset, width=12, heads=2, **switches):
    torch.manual_seed(1)
    layer = noisy(build_attention("mtsa", width, heads, preset=preset, **switches).double(), 0.2)
    return layer, torch.randn(2, 5, width, dtype=torch.float64)


def attend(q, k, v, s, direction, sigma=lambda r: r):
    """One head by equations 8 and 10-12, query by query; (T, D_i) and (T, D)."""
    visible = PositionalMask(direction).allowed(len(q))
    rows = []
    for j in range(len(q)):
        keys = visible[j].nonzero()[:, 0]
        if not len(keys):
            rows.append(torch.zeros_like(v[0]))
            continue
        score = sigma(k[keys] @ q[j] * q.shape[-1] ** -0.5)[:, None] + s[keys]
        rows.append((torch.softmax(score, 0) * v[keys]).sum(0))
    return torch.stack(rows)


def heads_of(t, count):
    return t.view(len(t), count, -1).unbind(1)


def test_preset_paper_is_equations_7_to_13():
    layer, x = built("paper")
    expected = []
    for row in x:
        q, k, v = (
            heads_of(row @ p.weight.T, 2) for p in (layer.q_proj, layer.k_proj, layer.v_proj)
        )
        first, last = layer.source2token.network[1], layer.source2token.network[4]
        outs = []
        for c, direction in enumerate(("forward", "backward")):
            hidden = torch.relu(k[c] @ first.weight[c] + first.bias[c])
            s = hidden @ last.weight[c] + last.bias[c]
            outs.append(attend(q[c], k[c], v[c], s, direction, F.logsigmoid))
        expected.append(torch.cat(outs, -1) @ layer.out_proj.weight.T)
    assert_close("paper", torch.stack(expected), layer(x), 1e-12)


def test_preset_nmt_scores_values_and_has_no_direction():
    layer, x = built("nmt")
    net = layer.source2token.network[1]
    expected = []
    for row in x:
        q, k, v = (
            heads_of(row @ p.weight.T, 2) for p in (layer.q_proj, layer.k_proj, layer.v_proj)
        )
        s = [F.logsigmoid((v[c] @ net.weight[c] + net.bias[c]) / 6**0.5) for c in range(2)]
        outs = [attend(q[c], k[c], v[c], s[c], "none") for c in range(2)]
        expected.append(torch.cat(outs, -1) @ layer.out_proj.weight.T)
    assert_close("nmt", torch.stack(expected), layer(x), 1e-12)


def test_preset_srl_scores_the_input_jointly():
    layer, x = built("srl")
    expected = []
    for row in x:
        q, k, v, s = (
            heads_of(row @ p.weight.T + p.bias, 2)
            for p in (layer.q_proj, layer.k_proj, layer.v_proj, layer.source2token.network[1])
        )
        outs = [attend(q[c], k[c], v[c], s[c], d) for c, d in enumerate(("forward", "backward"))]
        expected.append(torch.cat(outs, -1) @ layer.out_proj.weight.T + layer.out_proj.bias)
    assert_close("srl", torch.stack(expected), layer(x), 1e-12)


def test_preset_sentence_attends_over_activated_values_and_gates():
    layer, x = built("sentence")
    expected = []
    first, last = layer.source2token.network[1], layer.source2token.network[4]
    gate = layer.gate.linear
    for row in x:
        v = heads_of(torch.relu(row @ layer.v_proj.weight.T + layer.v_proj.bias), 2)
        outs = []
        for c, direction in enumerate(("forward", "backward")):
            q, k = v[c] @ layer.q_proj.weight[c], v[c] @ layer.k_proj.weight[c]
            s = torch.relu(v[c] @ first.weight[c] + first.bias[c]) @ last.weight[c] + last.bias[c]
            h = attend(q, k, v[c], s, direction, F.logsigmoid)
            g = torch.sigmoid(torch.cat([v[c], h], -1) @ gate.weight[c] + gate.bias[c])
            outs.append(g * v[c] + (1 - g) * h)
        expected.append(torch.cat(outs, -1))
    assert_close("sentence", torch.stack(expected), layer(x), 1e-12)


def test_values_start_as_one_matrix_or_as_one_for_each_head_where_heads_are_their_input():
    """Xavier's bound, the square root of 6 over inputs and outputs of what is drawn at once."""
    for preset, outputs in (("paper", 300), ("sentence", 150)):
        largest = build_attention("mtsa", 300, 2, preset=preset).v_proj.weight.abs().max().item()
        assert largest == pytest.approx((6 / (300 + outputs)) ** 0.5, rel=1e-3)


def test_published_parameter_counts():
    """Of translation and roles; those of sentences are in models/test_parameter_counts.py."""
    multihead = size(build_attention("multihead", 512, 8, bias=False))
    # 6 layers of 8 heads with 64 x 64 + 64 each: 61.38M -> 61.58M
    assert 6 * (size(build_attention("mtsa", 512, 8, preset="nmt")) - multihead) == 199_680
    # 10 layers with one joint map 200 -> 200
    srl = size(build_attention("mtsa", 200, 8, preset="srl"))
    assert 10 * (srl - size(build_attention("multihead", 200, 8))) == 402_000


@pytest.mark.parametrize("dropout", [0.0, 0.3])
@pytest.mark.parametrize("preset", ["sentence", "paper"])
def test_many_tokens_have_one_projection_for_queries_and_keys(monkeypatch, preset, dropout):
    """The shorter way gives what equation 7 gives, with all gradients."""
    name = "mtsa" if preset == "sentence" else "fast_disa"
    torch.manual_seed(1)
    layer = build_attention(name, 12, 2, preset=preset, dense_dropout=dropout).double()
    x = torch.randn(2, 6, 12, dtype=torch.float64, requires_grad=True)  # 12 tokens, 6 features
    hidden = torch.tensor([[0, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 1]]).bool()

    def results():
        torch.manual_seed(2)
        y = layer(x, hidden)
        return [y, *torch.autograd.grad(y.square().sum(), [x, *layer.parameters()])]

    calls = []
    monkeypatch.setattr(
        mtsa_layer, "map_heads", lambda *a: calls.append(a) or map_heads(*a), raising=True
    )
    short = results()
    assert len(calls) == 1
    layer(x[:, :5])  # too few tokens
    assert len(calls) == 1
    monkeypatch.setattr(mtsa_layer, "_is_longer", lambda *_: False)
    for ours, theirs in zip(short, results(), strict=True):
        assert_close("both ways", theirs, ours, 1e-12)


@pytest.mark.parametrize("s2t_input", ["key", "value"])
def test_a_sentence_is_the_same_alone_where_keys_are_made_of_values(s2t_input):
    layer, x = built("paper", qk_input="value", s2t_input=s2t_input)
    for row, alone in zip(layer(x.repeat(3, 1, 1)), x.repeat(3, 1, 1), strict=True):
        assert_close("alone", layer(alone[None])[0], row, 1e-12)


def test_without_scores_each_token_keeps_its_value():
    """Table 3 without all: 1.8m, which has no gate either."""
    layer, x = built("sentence", scores="none", distance="log")
    assert {name.split(".")[0] for name, _ in layer.named_parameters()} == {"v_proj"}
    assert_close("value", torch.relu(layer.v_proj(x)), layer(x), 1e-12)
    with pytest.raises(UserError, match="scores 'none' leaves no attention to look at"):
        layer.inspect(x)


@pytest.mark.parametrize("scores", ["token2token", "source2token"])
@pytest.mark.parametrize("preset", ["paper", "srl"])
def test_each_score_alone(preset, scores):
    """What is left away is 0 before sigma_t; the key stays where source2token is made of it."""
    layer, x = built(preset, scores=scores)
    pairs, keys = scores == "token2token", scores == "token2token" or preset == "paper"
    assert (layer.q_proj is not None, layer.k_proj is not None) == (pairs, keys)
    assert (layer.source2token is None) == pairs
    v, k, q = (
        t and t(x).unflatten(-1, (2, -1)).transpose(1, 2)
        for t in (layer.v_proj, layer.k_proj, layer.q_proj)
    )
    zero = torch.zeros_like(v)
    s = zero if pairs else layer.source2token({"paper": k, "srl": x}[preset])
    q, k = (q, k) if pairs else (zero, zero)
    sigma = F.logsigmoid if preset == "paper" else lambda r: r
    directions = ("forward", "backward")
    contexts = [
        torch.cat([attend(q[b, c], k[b, c], v[b, c], s[b, c], d, sigma)
                   for c, d in enumerate(directions)], -1)
        for b in range(2)
    ]  # fmt: skip
    assert_close(scores, layer.out_proj(torch.stack(contexts)), layer(x), 1e-12)


@pytest.mark.parametrize("preset", ["paper", "nmt", "srl", "sentence"])
def test_strict_directions_leak_nothing(preset):
    layer, x = built(preset, masks="forward")
    x.requires_grad_()
    layer(x)[:, 2].sum().backward()
    assert (x.grad[:, 3:] == 0).all()
    assert (x.grad[:, :2].abs().sum(-1) > 0).all()


@pytest.mark.parametrize(
    "switches",
    [
        {"include_self": True},
        {"window": 1},
        {"window": (1, 3)},
        {"masks": "none"},
        {"sigma_t": "identity"},
        {"sigma_s": "scaled_logsigmoid"},
        {"s2t_input": "value"},
        {"s2t_input": "input", "s2t_sharing": "joint"},
        {"s2t_layers": 1},
        {"s2t_sharing": "shared"},
        {"s2t_sharing": "joint"},
        {"s2t_hidden": 3},
        {"s2t_activation": "elu"},
        {"qk_input": "value"},
        {"qk_bias": True},
        {"value_activation": "tanh"},
        {"key_dim": 3},
        {"fusion_gate": True},
        {"output_activation": "relu"},
        {"output_projection": False},
        {"qkv_init_gain": 0.5},
        {"scores": "token2token"},
        {"scores": "source2token"},
    ],
    ids=lambda s: "-".join(map(str, s)),
)
def test_every_switch_changes_the_layer(switches):
    layer, x = built("paper")
    other, _ = built("paper", **switches)
    if "qkv_init_gain" not in switches:  # else the weights are all that differs
        own = other.state_dict()
        shared = {
            n: w for n, w in layer.state_dict().items() if n in own and own[n].shape == w.shape
        }
        other.load_state_dict(own | shared)
    y = other(x)
    assert y.shape == x.shape
    assert (y - layer(x)).abs().max() > 1e-6


def test_zero_padding_and_dense_dropout():
    layer, x = built("paper", zero_padding=True)
    hidden = torch.tensor([[1, 0, 0, 0, 0], [0, 0, 0, 1, 1]]).bool()
    assert (layer(x, hidden)[hidden] == 0).all()
    layer, x = built("paper", dense_dropout=0.5)
    assert not torch.equal(layer(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))


def test_the_initial_source2token_bias_is_the_last_one():
    layer = build_attention("mtsa", 12, 2, s2t_bias_init=5.0)
    first, last = layer.source2token.network[1], layer.source2token.network[4]
    assert (first.bias == 0).all()
    assert (last.bias == 5).all()


def test_backends_agree():
    layer, x = built("paper", backend="reference")
    fast = MTSA(layer.config.with_switches(backend="eager"), 12, 2).double()
    fast.load_state_dict(layer.state_dict())
    assert_close("backends", layer(x), fast(x), 1e-12)


def test_a_compiled_layer_gives_the_same():
    layer, x = built("paper")
    compiled = torch.compile(layer, backend="eager")  # all of Dynamo, without a C++ compiler
    for t in (x.clone().requires_grad_(), 50 * x):
        assert torch.equal(layer(t), compiled(t))
    compiled(x).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name_or_config": "mtsaa"}, "'mtsaa' is unknown; allowed are multihead, mtsa"),
        ({"preset": "papr"}, "preset 'papr' is unknown for 'mtsa'; allowed: paper, nmt"),
        ({"name_or_config": "multihead", "preset": "nmt"}, "it has no presets"),
        ({"name_or_config": "multihead", "sigma_s": "identity"}, "has no switch 'sigma_s'"),
        ({"depth": 3}, "has no switch 'depth'; its switches are .*s2t_layers"),
        ({"num_heads": 3}, "must be even"),
        ({"num_heads": 5, "masks": "none"}, "num_heads 5 does not divide embed_dim 12"),
        ({"num_heads": 0}, "num_heads 0"),
        ({"embed_dim": 0}, "embed_dim 0"),
        ({"backend": "fussed"}, "backend 'fussed' is not allowed .* allowed are auto"),
        ({"masks": "left"}, "masks 'left' is not allowed"),
        ({"window": 0}, "window 0"),
        ({"window": (1, 2, 3)}, "3 values for 2 heads"),
        ({"sigma_t": "relu"}, "sigma_t 'relu' is not allowed"),
        ({"s2t_layers": 3}, "s2t_layers 3 is not allowed"),
        ({"s2t_input": "input"}, "s2t_sharing must be 'joint'"),
        ({"s2t_hidden": 0}, "s2t_hidden 0"),
        ({"s2t_hidden": 5, "s2t_layers": 1}, "s2t_hidden 5 needs s2t_layers 2"),
        ({"attention_dropout": 1.0}, "attention_dropout 1.0"),
        ({"include_self": "yes"}, "include_self 'yes' is not allowed; it must be True or False"),
        ({"output_projection": False, "output_activation": "relu"}, "needs output_projection"),
        ({"qkv_init_gain": 0.0}, "qkv_init_gain 0.0"),
        ({"backend": "magic"}, "backend 'magic'"),
        ({"name_or_config": MTSAConfig(), "preset": "nmt"}, "cannot be combined"),
    ],
    ids=str,
)
def test_bad_requests_are_refused_in_one_sentence(arguments, message):
    defaults = {"name_or_config": "mtsa", "embed_dim": 12, "num_heads": 2}
    with pytest.raises(UserError, match=message) as error:
        build_attention(**{**defaults, **arguments})(torch.zeros(1, 2, 12))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("layer", [MTSA, FastDiSA, DiSA, BiBloSA, ReSA, MultiHead])
@pytest.mark.parametrize("wrong", ["paper", None])
def test_a_layer_takes_its_own_configuration(layer, wrong):
    with pytest.raises(UserError, match=f"config is {wrong!r}; it must be a configuration of"):
        layer(wrong, 12, 2)


def test_tracing_is_refused_instead_of_recording_one_length():
    layer, x = built("paper")
    with pytest.raises(UserError, match="^the operator 'mtsa' cannot be traced"):
        torch.jit.trace(layer, (x,))
