"""Bi-BloSA: each preset against its equations, and where blocks begin."""

import math

import pytest
import torch
import torch.nn.functional as F

from benchmarks.testing import assert_close, noisy
from selfattn.config import BiBloSAConfig
from selfattn.errors import UserError
from selfattn.layers import build_attention
from selfattn.masks import PositionalMask


def built(preset=None, width=8, **switches):
    torch.manual_seed(1)
    return noisy(build_attention("biblosa", width, 2, preset=preset, **switches).double(), 0.3)


def tokens(batch, length, width=8):
    generator = torch.Generator().manual_seed(2)
    return torch.randn(batch, length, width, generator=generator, dtype=torch.float64)


def attend(part, x, mask, c):
    """Equations 9 and 10 for one sequence ``(n, D)``, query by query."""
    w1, w2, b = part.k_proj.weight[0], part.q_proj.weight[0], part.q_proj.bias[0]
    rows = []
    for j, seen in enumerate(mask.allowed(len(x))):
        keys = x[seen]
        if not len(keys):
            rows.append(torch.zeros_like(x[0]))
            continue
        score = c * torch.tanh((keys @ w1 + x[j] @ w2 + b) / c)
        rows.append((torch.softmax(score, 0) * keys).sum(0))
    return torch.stack(rows)


def pooled(part, h, act):
    """Equation 8 for one block, or its form with one linear map."""
    maps = [m for m in part.scores.network if hasattr(m, "weight")]
    score = h @ maps[0].weight[0] + maps[0].bias[0]
    if len(maps) == 2:
        score = act(score) @ maps[1].weight[0] + maps[1].bias[0]
    return (torch.softmax(score, 0) * h).sum(0)


def gated(part, kept, other):
    g = torch.cat([kept, other], -1) @ part.linear.weight[0] + part.linear.bias[0]
    if part.more_biases is not None:
        g = g + part.more_biases.sum(0)[0]
    g = torch.sigmoid(g)
    return g * kept + (1 - g) * other


def mblosa(head, x, config, r, act):
    """Equations 11-18 for one sentence ``(n, D)``, block by block."""
    mask = head.mask
    window = mask.window and math.ceil(mask.window / r)
    far = PositionalMask(mask.direction, mask.include_self, window)
    hs = [attend(head.within, block, mask, config.c) for block in x.split(r)]  # 11
    parts = [x] if config.contexts == "global" else [x, torch.cat(hs)]
    if config.contexts != "local":
        e = block_vectors(head, hs, config, far, act)
        copies = [row.expand(len(h), -1) for row, h in zip(e, hs, strict=True)]
        parts.append(torch.cat(copies))
    y = head.fusion(torch.cat(parts, -1))
    f, g = act(y[:, : x.shape[1]]), torch.sigmoid(y[:, x.shape[1] :])  # 16, 17
    return g * f + (1 - g) * x  # 18


def block_vectors(head, hs, config, far, act):
    """E of each block ``(m, D)``, equations 12-15."""
    v = torch.stack([pooled(head.source2token, h, act) for h in hs])  # 12
    if config.between == "disa":
        v = act(F.linear(v, head.between.input_map.weight, head.between.input_map.bias))
        return gated(head.between.gate, v, attend(head.between.attention, v, far, config.c))
    return gated(head.block_gate, attend(head.between, v, far, config.c), v)  # 13-15


def by_equations(layer, x):
    """The whole layer on one sentence ``(n, C)`` without padding."""
    act = {"relu": F.relu, "elu": F.elu}[layer.config.activation]
    outs = [
        mblosa(head, act(project(x)), layer.config, layer.block_length, act)
        for project, head in zip(layer.input_maps, layer.heads, strict=True)
    ]
    return torch.cat(outs, -1)


# Blocks that divide the sentences below, that do not, of one token, longer than any sentence.
@pytest.mark.parametrize("r", [1, 3, 4, 20])
@pytest.mark.parametrize(
    "switches",
    [
        {"preset": "paper"},
        {"preset": "code"},
        {"include_self": True, "c": 2.0},
        {"window": (1, 4)},
        {"masks": "none", "s2t_layers": 1},
        {"contexts": "local"},
        {"contexts": "global", "preset": "code"},
    ],
    ids=str,
)
def test_a_padded_batch_is_its_sentences_by_equations_9_to_18(r, switches):
    layer = built(block_length=r, **switches)
    x = tokens(5, 12).requires_grad_()
    hidden = torch.zeros(5, 12, dtype=torch.bool)
    hidden[1, :4] = hidden[2, 7:] = hidden[3, :11] = hidden[4, :2] = hidden[4, 9:] = True
    expected = [by_equations(layer, x[row][~hidden[row]]) for row in range(5)]
    got = layer(x, hidden)
    for row, sentence in enumerate(expected):
        assert_close(f"row {row}", sentence, got[row][~hidden[row]], 1e-12)
    wanted = [x, *layer.parameters()]
    upstream = tokens(5, 12)
    total = sum((s * upstream[row][~hidden[row]]).sum() for row, s in enumerate(expected))
    reference = torch.autograd.grad(total, wanted, materialize_grads=True)
    real = (upstream * got).masked_fill(hidden[..., None], 0.0).sum()
    found = torch.autograd.grad(real, wanted, materialize_grads=True)
    names = ["x", *(name for name, _ in layer.named_parameters())]
    for name, ours, theirs in zip(names, found, reference, strict=True):
        assert_close(name, theirs, ours, 1e-11)
    assert_close("no mask", torch.stack([by_equations(layer, s) for s in x]), layer(x), 1e-12)


@pytest.mark.parametrize("preset", ["paper", "code"])
def test_a_forward_token_depends_on_later_ones_of_its_block_and_no_later_block(preset):
    layer = built(preset, block_length=3, masks="forward")
    x = tokens(1, 9).requires_grad_()
    (grad,) = torch.autograd.grad(layer(x)[0, 4].sum(), x)  # in the middle of the second block
    assert (grad[0].abs().sum(-1) > 0).tolist() == [True] * 6 + [False] * 3


@pytest.mark.parametrize("preset", ["paper", "code"])
def test_blocks_of_padding_alone_are_never_keys(preset):
    """The authors' code lets a backward direction see them."""
    layer = built(preset, block_length=3)
    x = tokens(2, 8)
    padded = F.pad(x, (0, 0, 0, 9), value=7.0).requires_grad_()
    hidden = torch.zeros(2, 17, dtype=torch.bool)
    hidden[:, 8:] = True
    y = layer(padded, hidden)[:, :8]
    assert_close("real tokens", layer(x), y, 1e-13)
    y.square().sum().backward()
    assert (padded.grad[:, 8:] == 0).all()


@pytest.mark.parametrize("preset", ["paper", "code"])
@pytest.mark.parametrize(("direction", "late", "early"), [("forward", 3, 0), ("backward", 0, 3)])
def test_blocks_reach_each_other_in_one_direction(preset, direction, late, early):
    layer = built(preset, block_length=3, masks=direction)
    x = tokens(2, 8).requires_grad_()
    (seen,) = torch.autograd.grad(layer(x)[:, late].sum(), x)
    assert seen[:, early].abs().max() > 0
    (unseen,) = torch.autograd.grad(layer(x)[:, early].sum(), x)
    assert (unseen[:, late] == 0).all()


def test_padding_inside_of_a_sentence_is_no_key():
    layer = built(block_length=3)
    hidden = torch.tensor([[0, 0, 1, 1, 1, 1, 0, 0, 1, 0]]).bool()
    x = tokens(1, 10)
    other = x.masked_fill(hidden[..., None], 5.0)
    assert_close("real tokens", layer(x, hidden)[~hidden], layer(other, hidden)[~hidden], 1e-15)


def test_without_any_context_tokens_stay_as_they_are():
    layer = built(contexts="none", head_dim=5)
    assert layer.output_dim == 8 and not list(layer.parameters())
    x = tokens(2, 5)
    assert torch.equal(layer(x), x)
    shape = {1: torch.export.Dim("T", max=64)}
    program = torch.export.export(layer, (x,), dynamic_shapes=(shape,))
    assert torch.equal(program.module()(tokens(2, 7)), tokens(2, 7))
    with pytest.raises(UserError, match="contexts 'none' leaves no attention to look at"):
        layer.inspect(x)


def test_the_default_block_is_fixed_and_batches_do_not_change_it():
    layer = built()
    assert layer.block_length == built("code").block_length == 4
    assert [len(row.unique()) for row in layer.inspect(tokens(1, 200)).blocks] == [50]


def test_inspection_shows_blocks_from_the_first_real_token():
    layer = built(block_length=3)
    hidden = torch.tensor([[1, 1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1]]).bool()
    seen = layer.inspect(tokens(2, 7), hidden)
    assert seen.blocks.tolist() == [[-1, -1, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 1, -1]]
    same = seen.blocks[:, None, :, None] == seen.blocks[:, None, None, :]
    assert (seen.token2token[~same.expand(2, 2, 7, 7)] == 0).all()
    forward, backward = seen.token2token[0]
    assert forward[5].sum() == backward[6].sum() == 0  # first and last of their block
    assert forward[6, 5] == backward[5, 6] == 1  # one visible key
    assert seen.masks == ("forward", "backward")


@pytest.mark.parametrize(
    ("switches", "message"),
    [
        ({"block_length": -1}, "block_length -1 is not allowed"),
        ({"s2t_layers": 3}, "s2t_layers 3 is not allowed"),
        ({"between": "mean"}, "between 'mean' is not allowed"),
        ({"gate_biases": 3}, "no switch 'gate_biases'"),
    ],
)
def test_mistakes_are_refused(switches, message):
    with pytest.raises(UserError, match=message):
        BiBloSAConfig.make(**switches)
