"""DiSA: the layer against its formula written out, golden values, sizes."""

import pytest
import torch

from benchmarks.testing import assert_close
from selfattn.config import DiSAConfig
from selfattn.errors import UserError
from selfattn.layers import MaskedSelfAttention, build_attention
from selfattn.layers.base import zero_padding
from selfattn.masks import PositionalMask

WIDTH, LENGTH = 8, 6
PADDING = torch.tensor([[0] * 6, [1] * 2 + [0] * 4, [0] * 3 + [1] * 3, [1] * 6]).bool()


def built(preset="code", **switches):
    torch.manual_seed(1)
    layer = build_attention("disa", WIDTH, 4, preset=preset, **switches).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_(std=0.6)
    x = torch.randn(4, LENGTH, WIDTH, dtype=torch.float64, requires_grad=True)
    return layer, x


def visible(position, key, head, layer):
    """Whether a query sees a key, counted out."""
    config, offset = layer.config, key - position
    window = config.window[head] if isinstance(config.window, tuple) else config.window
    forward = config.masks == "forward" or head < layer.num_heads // 2
    sees = config.masks == "none" or (offset < 0 if forward else offset > 0)
    sees = sees or (offset == 0 and (config.include_self or config.masks == "none"))
    return sees and (window is None or abs(offset) <= window)


def written_out(layer, x, padding):
    """Query by query, over the keys that it sees; c tanh per feature (BB eq. 9 and 10)."""
    width, bound = layer.attention.k_proj.weight.shape[-1], layer.config.c
    rows = []
    for sentence, hidden in zip(zero_padding(x, padding), padding, strict=True):
        heads = []
        for c in range(layer.num_heads):
            part = slice(c * width, c * width + width)
            h = sentence[:, part]
            if layer.input_map is not None:
                h = sentence @ layer.input_map.weight[part].T + layer.input_map.bias[part]
            h = layer.activation(h)
            w1, w2 = layer.attention.k_proj.weight[c], layer.attention.q_proj.weight[c]
            b1 = layer.attention.q_proj.bias[c]
            contexts = []
            for j in range(LENGTH):
                keys = [i for i in range(LENGTH) if visible(j, i, c, layer) and not hidden[i]]
                if hidden[j] or not keys:
                    contexts.append(torch.zeros_like(h[0]))
                    continue
                score = bound * torch.tanh((h[keys] @ w1 + h[j] @ w2 + b1) / bound)
                contexts.append((torch.softmax(score, 0) * h[keys]).sum(0))
            s = torch.stack(contexts)
            if layer.gate is not None:
                keep, take = layer.gate.linear.weight[c].split(width)
                bias = layer.gate.linear.bias[c]
                if layer.gate.more_biases is not None:
                    bias = bias + layer.gate.more_biases[:, c, 0].sum(0)
                g = torch.sigmoid(h @ keep + s @ take + bias)
                s = g * h + (1 - g) * s
            heads.append(s)
        y = torch.cat(heads, -1)
        if layer.out_proj is not None:
            y = y @ layer.out_proj.weight.T
        rows.append(y * ~hidden[:, None] if layer.config.zero_padding else y)
    return torch.stack(rows)


@pytest.mark.parametrize(
    "switches",
    [
        {"preset": "paper"},
        {"preset": "code"},
        {"input_map": False, "activation": "none", "fusion_gate": False},
        {"heads": 0, "window": (1, 2, 3, 4), "include_self": True},
        {"masks": "none", "heads": 1, "c": 2.0},
        {"masks": "forward", "head_dim": 3, "output_projection": True},
    ],
    ids=lambda switches: ",".join(f"{k}={v}" for k, v in switches.items()),
)
def test_outputs_and_gradients_of_the_written_out_formula(switches):
    layer, x = built(**switches)
    slow, fast = written_out(layer, x, PADDING), layer(x, PADDING)
    assert_close("output", slow, fast, 1e-13)
    upstream = torch.randn_like(slow)
    inputs = [x, *layer.parameters()]
    expected = torch.autograd.grad((slow * upstream).sum(), inputs)
    got = torch.autograd.grad((fast * upstream).sum(), inputs)
    assert_close("results", expected, got, 1e-12)


@pytest.mark.parametrize(
    ("direction", "expected"),
    [
        ("forward", [[0, 0], [1, 0], [0.686865, 0.728471]]),
        ("backward", [[1.690644, 0.756027], [2, -1], [0, 0]]),
    ],
)
def test_golden_values_of_the_core(direction, expected):
    core = {"input_map": False, "fusion_gate": False, "heads": 1, "masks": direction}
    layer = build_attention("disa", 2, 1, preset="paper", **core).double()
    for projection in (layer.attention.k_proj, layer.attention.q_proj):
        projection.weight.data[0] = torch.eye(2)
    x = torch.tensor([[[1, 0], [0, 1], [2, -1]]]).double()
    assert (layer(x)[0] - torch.tensor(expected)).abs().max() < 1e-6


def test_the_paper_s_gate_has_one_bias_and_the_code_s_three():
    """The code's size is a published one, see models/test_parameter_counts.py."""
    code, paper = (
        build_attention("disa", 300, 1, preset=preset, head_dim=300) for preset in ("code", "paper")
    )
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in (code, paper)]
    assert sizes == [2 * 451_500, 2 * 451_500 - 2 * 2 * 300]
    assert code.output_dim == paper.output_dim == 600


def test_every_matrix_starts_as_glorot_uniform_of_its_own_size():
    torch.manual_seed(0)
    layer = build_attention("disa", 200, 2, head_dim=100)
    matrices = {
        "input map": (layer.input_map.weight.chunk(2), 300),
        "keys": (layer.attention.k_proj.weight, 200),
        "queries": (layer.attention.q_proj.weight, 200),
        "gate": (layer.gate.linear.weight.reshape(4, 100, 100), 200),
    }
    for name, (parts, sizes) in matrices.items():
        for part in parts:
            assert abs(part.abs().max() - (6 / sizes) ** 0.5) < 1e-3, name
    assert all((p == 0).all() for name, p in layer.named_parameters() if "bias" in name)


def test_inspection_shows_the_weights_and_the_gate_of_the_layer():
    layer, x = built(head_dim=1, attention_dropout=0.4)  # one feature: no average over features
    seen = layer.train().inspect(x, PADDING)
    assert seen.masks == ("forward", "backward")
    h = layer.activation(layer.input_map(x))
    s = (seen.token2token @ h.mT[..., None])[..., 0].mT
    y = seen.gate.mT * h + (1 - seen.gate.mT) * s
    assert_close("output", layer.eval()(x, PADDING)[~PADDING], y[~PADDING], 1e-12)


def test_heads_of_the_encoder_are_taken_on_request():
    assert build_attention("disa", 12, 4).num_heads == 2
    assert build_attention("disa", 12, 4, heads=0).num_heads == 4
    with pytest.raises(UserError, match="number of heads is 3; it must be even"):
        build_attention("disa", 12, 3, heads=0)


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"heads": -1}, "heads -1 is not allowed; it must be at least 0"),
        ({"heads": 3}, "number of heads is 3; it must be even"),
        ({"heads": 2, "window": (1, 2, 3)}, "window lists 3 values for 2 heads"),
        ({"head_dim": 0}, "head_dim 0 is not allowed"),
        ({"gate_biases": 2}, "gate_biases 2 is not allowed; it must be 1 or 3"),
        ({"input_map": False, "activation": "elu"}, "activation 'elu' needs input_map"),
        ({"c": 0.0}, r"c 0.0 is not allowed; it must be in \[0.01, 300.0\]"),
        ({"input_map": False, "head_dim": 5}, "head_dim 5 needs input_map"),
        ({"heads": 5, "masks": "none"}, "num_heads 5 does not divide embed_dim 8"),
    ],
)
def test_mistakes_end_in_one_sentence(switches, message):
    with pytest.raises(UserError, match=message):
        build_attention(DiSAConfig(**switches), 8, 2)


def test_the_bare_attention_takes_one_mask_and_refuses_its_name():
    layer = MaskedSelfAttention(PositionalMask("forward"), 8)
    assert len(layer.masks) == 1
    with pytest.raises(UserError, match=r"x has shape \(2, 5, 9\); it must be \(B, T, 8\)"):
        layer(torch.randn(2, 5, 9))
    hidden = torch.tensor([[0, 0, 0, 1, 1], [0] * 5]).bool()
    layer(torch.randn(2, 5, 8).masked_fill(hidden[..., None], torch.nan), hidden).sum().backward()
    assert all(p.grad.isfinite().all() for p in layer.parameters())
    with pytest.raises(UserError, match="masks holds 'f'; it must hold PositionalMask alone"):
        MaskedSelfAttention("forward", 8)
    for name, value in (("attention_dropout", 1.5), ("dropout", -1), ("backend", "x")):
        with pytest.raises(UserError, match=f"{name} '?{value}'? is "):
            MaskedSelfAttention(PositionalMask(), 8, **{name: value})


@pytest.mark.parametrize("name", ["queries", "keys"])
@pytest.mark.parametrize("length", [LENGTH - 1, LENGTH + 1])
def test_a_selection_of_another_length_is_refused(name, length):
    layer, x = built()
    selected = torch.ones(len(x), length, dtype=torch.bool)
    with pytest.raises(UserError, match=rf"{name} has shape \(\d, {length}\)"):
        layer.attention(x, **{name: selected})


def test_weights_do_not_depend_on_what_is_in_padding():
    layer = MaskedSelfAttention([PositionalMask()], 8)
    x, padding = torch.randn(1, 4, 8), torch.tensor([[False, False, False, True]])
    expected = layer.weights(x, padding)
    x[0, 3] = torch.nan
    assert torch.equal(layer.weights(x, padding), expected)
    with pytest.raises(UserError, match=r"x has shape \(1, 4, 7\); it must be \(B, T, 8\)"):
        layer.weights(x[..., :7])
