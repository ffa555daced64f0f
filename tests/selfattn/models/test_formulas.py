"""Baselines against their equations, token after token in plain code."""

import math

import pytest
import torch

from benchmarks.testing import assert_close, noisy
from selfattn.models import build_context

WIDTH, HIDDEN, LENGTH = 6, 6, 5


def built(name, **switches):
    torch.manual_seed(0)
    return noisy(
        build_context(name, switches.pop("embed_dim", WIDTH), HIDDEN, **switches).double(), 0.3
    )


def sentence(length=LENGTH, width=WIDTH):
    return torch.randn(
        length, width, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )


def read(x, step, states):
    """Run a cell over a sentence; the first of the states is what it gives."""
    outputs = []
    for token in x:
        states = step(token, *states)
        outputs.append(states[0])
    return torch.stack(outputs)


def both(x, step, count=1):
    zeros = [torch.zeros(HIDDEN, dtype=torch.float64)] * count
    forward = read(x, lambda *t: step(0, *t), zeros)
    backward = read(x.flip(0), lambda *t: step(1, *t), zeros).flip(0)
    return torch.cat([forward, backward], 1)


def check(context, x, expected):
    """Whole, and padded on both sides."""
    assert_close("sentence", expected, context(x[None])[0], 1e-12)
    padded = torch.cat([x.flip(0), x, x.flip(0)])[None]
    hidden = torch.ones(1, 3 * len(x), dtype=torch.bool)
    hidden[:, len(x) : 2 * len(x)] = False
    y = context(padded, hidden)
    if not context.pools:
        assert (y[hidden] == 0).all()
        y = y[:, len(x) : 2 * len(x)]
    assert_close("padded", expected, y[0], 1e-12)


def test_lstm():
    context = built("lstm")
    parts = list(context.directions)

    def step(direction, x, h, c):
        part = parts[direction]
        i, f, g, o = (part.weight_x @ x + part.weight_h @ h + part.bias).split(HIDDEN)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    x = sentence()
    check(context, x, both(x, step, 2))


def test_gru():
    context = built("gru")

    def step(d, x, h):
        gates, candidate = (x @ context.weight_x[d] + context.bias[d]).split([2 * HIDDEN, HIDDEN])
        r, u = torch.sigmoid(gates + h @ context.weight_gates[d]).split(HIDDEN)
        c = torch.tanh(candidate + (r * h) @ context.weight_candidate[d])
        return (u * h + (1 - u) * c,)

    x = sentence()
    check(context, x, both(x, step))


@pytest.mark.parametrize("width", [WIDTH, 4])
def test_sru(width):
    context = built("sru", embed_dim=width)
    assert (context.map is None) == (width == HIDDEN)

    def step(d, x, h, c):
        z, f, r = (x @ context.weight[d]).split(HIDDEN)
        b_f, b_r = context.bias[d].split(HIDDEN)
        f, r = torch.sigmoid(f + b_f), torch.sigmoid(r + b_r)
        c = f * c + (1 - f) * z
        return r * torch.tanh(c) + (1 - r) * x, c

    x = sentence(width=width)
    mapped = x if context.map is None else torch.relu(context.map[1](x))
    check(context, x, both(mapped, step, 2))


@pytest.mark.parametrize("length", [1, 2, 4, 9])
def test_multi_cnn(length):
    context = built("multi_cnn", windows=(2, 5), filters=7)
    x = sentence(length)
    found = []
    for conv, window in zip(context.convs, (2, 5), strict=True):
        weight, bias = conv.conv.weight, conv.conv.bias  # (7, d, window)
        filled = torch.cat([x, torch.zeros(max(0, window - length), WIDTH, dtype=x.dtype)])
        values = [
            torch.relu(torch.einsum("odw,wd->o", weight, filled[start : start + window]) + bias)
            for start in range(len(filled) - window + 1)
        ]
        found.append(torch.stack(values).amax(0))
    check(context, x, torch.cat(found))


def same(conv, x, before, after):
    """A convolution that keeps the length."""
    zeros = torch.zeros(9, x.shape[1], dtype=x.dtype)
    filled = torch.cat([zeros[:before], x, zeros[:after]])
    windows = filled.unfold(0, before + after + 1, 1)  # (n, d, window)
    return torch.einsum("odw,ndw->no", conv.conv.weight, windows) + conv.conv.bias


def test_multi_cnn_per_token():
    """Window 4 sees one token before and two after."""
    context = built("multi_cnn", windows=(3, 4), filters=7, per_token=True)
    x = sentence()
    three, four = context.convs
    expected = torch.cat([same(three, x, 1, 1), same(four, x, 1, 2)], 1)
    check(context, x, torch.relu(expected))


def test_hierarchical_cnn():
    context = built("hrchy_cnn")
    x = y = sentence()
    for depth, conv in enumerate(context.convs):
        value, gate = torch.relu(same(conv, y, 2, 2)).chunk(2, 1)
        z = value * torch.sigmoid(gate)
        y = y + z if depth else z
    check(context, x, y)


@pytest.mark.parametrize("width", [6, 5])
@pytest.mark.parametrize("masks", ["none", "forward_backward"])
def test_multihead(width, masks):
    context = built("multihead", embed_dim=width, heads=2, head_dim=3, masks=masks)
    x = sentence(width=width)
    seen = x.clone()
    for position in range(LENGTH):
        for f in range(width):
            angle = position / 10000 ** (2 * (f - f % 2) / width)
            seen[position, f] += math.cos(angle) if f % 2 else math.sin(angle)
    q, k, v = ((seen @ context.qkv.weight.T).chunk(3, 1)[i].chunk(2, 1) for i in range(3))
    scores = [a @ b.T / math.sqrt(3) for a, b in zip(q, k, strict=True)]
    if masks != "none":  # one head sees what is before a token, one what is behind it
        after = torch.ones(LENGTH, LENGTH).triu().bool()
        scores = [
            t.masked_fill(m, -math.inf) for t, m in zip(scores, (after, after.T), strict=True)
        ]
    heads = [torch.softmax(t, 1).nan_to_num(0.0) @ c for t, c in zip(scores, v, strict=True)]
    assert_close(
        "sentence", torch.cat(heads, 1), context(x[None])[0], 1e-6
    )  # a sinusoid in float32
    check(context, x, context(x[None])[0].detach())


def test_vanilla():
    context = built("vanilla")
    x = sentence()
    first, last = context.scores[0][1], context.scores[1][1]
    scores = torch.relu(x @ first.weight.T + first.bias) @ last.weight[0]
    check(context, x, torch.softmax(scores, 0) @ x)


def test_no_context():
    context = built("none")
    x = sentence()
    check(context, x, torch.relu(x @ context.map[1].weight.T + context.map[1].bias))
    assert torch.equal(built("none", input_map=False)(x[None])[0], x)
