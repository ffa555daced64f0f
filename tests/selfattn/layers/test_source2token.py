"""Source2token pooling and the fusion gate against their formulas."""

import pytest
import torch
import torch.nn.functional as F

from benchmarks.testing import assert_close
from selfattn.errors import UserError
from selfattn.layers import FusionGate, Source2Token, Source2TokenScores


def randomised(module):
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.5)
    return module.double()


def tokens(*shape):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=generator, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("heads", [1, 2])
def test_pooling_is_equation_8_sentence_by_sentence(layers, heads):
    pool = randomised(
        Source2Token(6, heads=heads, layers=layers, hidden=5 if layers == 2 else None)
    )
    maps = [m for m in pool.scores.network if hasattr(m, "weight")]
    x = tokens(3, 7, 6)
    padding = torch.tensor([[0] * 7, [1] * 3 + [0] * 4, [0] * 2 + [1] * 5]).bool()
    expected = []
    for row, hidden in zip(x, padding, strict=True):
        parts = []
        for head, real in enumerate(row[~hidden].chunk(heads, -1)):
            y = real
            for step, linear in enumerate(maps):
                y = F.elu(y) if step else y
                y = y @ linear.weight[head] + linear.bias[head]
            parts.append((torch.softmax(y, 0) * real).sum(0))
        expected.append(torch.cat(parts))
    upstream = torch.randn(3, 6, dtype=torch.float64)
    inputs = [x, *pool.parameters()]
    slow = torch.autograd.grad((torch.stack(expected) * upstream).sum(), inputs, retain_graph=True)
    fast = torch.autograd.grad((pool(x, padding) * upstream).sum(), inputs)
    assert_close("pooled", torch.stack(expected), pool(x, padding), 1e-13)
    for name, one, other in zip(["x", *dict(pool.named_parameters())], slow, fast, strict=True):
        assert_close(name, one, other, 1e-12)
    weights = pool.weights(x, padding)
    assert_close("sums of the weights", torch.ones(3, 6), weights.sum(1), 1e-12)
    assert (weights[padding] == 0).all()


def test_a_sentence_of_padding_alone_is_zero_forward_and_backward():
    pool = randomised(Source2Token(4))
    x = tokens(2, 3, 4)
    y = pool(x, torch.tensor([[1, 1, 1], [0, 0, 0]]).bool())
    assert (y[0] == 0).all()
    y.sum().backward()
    assert (x.grad[0] == 0).all() and torch.isfinite(x.grad).all()
    assert_close("the other sentence", pool(x[1:])[0], y[1], 1e-13)


def test_nan_at_padding_reaches_nothing():
    pool = Source2Token(8)
    x = torch.randn(2, 5, 8)
    hidden = torch.tensor([[0, 0, 0, 1, 1], [0] * 5]).bool()
    for call in (pool, pool.weights):
        expected = call(x, hidden)
        found = call(x.masked_fill(hidden[..., None], torch.nan), hidden)
        torch.testing.assert_close(found, expected)
        grads = torch.autograd.grad((found * found).sum(), list(pool.parameters()))
        assert all(grad.isfinite().all() for grad in grads)


def test_dropout_touches_the_scores_but_not_what_is_summed():
    pool = Source2Token(4, dropout=0.5).train()
    constant = torch.ones(2, 5, 4)
    assert not torch.equal(pool.weights(constant), torch.full((2, 5, 4), 0.2))
    assert_close("pooled", torch.ones(2, 4), pool(constant), 1e-6)


def test_wrong_sizes_are_refused():
    with pytest.raises(UserError, match="layers 3 is not allowed; it must be 1 or 2"):
        Source2Token(4, layers=3)
    with pytest.raises(UserError, match="heads 3 does not divide inputs 4"):
        Source2Token(4, heads=3)
    with pytest.raises(UserError, match="inputs 0 is not allowed"):
        Source2Token(0)
    with pytest.raises(UserError, match="hidden 0 is not allowed"):
        Source2Token(4, hidden=0)
    with pytest.raises(UserError, match=r"dropout 1\.5 is not allowed; it must be in \[0, 1\)"):
        Source2Token(4, dropout=1.5)
    with pytest.raises(UserError, match="layers 0 is not allowed; it must be 1 or 2"):
        Source2TokenScores(2, 4, 4, layers=0)
    with pytest.raises(UserError, match="sharing 'all' is unknown; allowed are per_head, shared"):
        Source2TokenScores(2, 4, 4, sharing="all")


@pytest.mark.parametrize("biases", [1, 3])
def test_the_gate_sums_its_biases(biases):
    gate = randomised(FusionGate(2, 3, biases=biases, maps=2))
    v, s = tokens(2, 2, 4, 3), tokens(2, 2, 4, 3).neg()
    more = 0 if biases == 1 else gate.more_biases.sum(0)
    keep, take = gate.linear.weight.split(3, 1)  # BB eq. 15: a matrix for each of the two
    g = torch.sigmoid(v @ keep + s @ take + gate.linear.bias[:, None] + more)
    assert_close("fused", g * v + (1 - g) * s, gate(v, s), 1e-13)
    assert sum(p.numel() for p in gate.parameters()) == 2 * (2 * 3 * 3 + biases * 3)


def test_a_gate_of_wrong_numbers_is_refused():
    for name, value in (
        ("num_heads", 2.0),
        ("width", 0),
        ("dropout", 1.5),
        ("biases", 0),
        ("maps", 3),
    ):
        with pytest.raises(UserError, match=f"{name} {value} is not allowed"):
            FusionGate(**{"num_heads": 2, "width": 3, name: value})


@pytest.mark.parametrize(
    "numbers", [{"num_heads": 0}, {"inputs": "a"}, {"outputs": 0}, {"hidden": 1.5}]
)
def test_scores_of_wrong_numbers_are_refused(numbers):
    ((name, value),) = numbers.items()
    with pytest.raises(UserError, match=f"{name} {value!r} is not allowed"):
        Source2TokenScores(**{"num_heads": 2, "inputs": 3, "outputs": 4} | numbers)


def test_two_maps_are_each_drawn_as_their_own():
    torch.manual_seed(0)
    one, two = (FusionGate(1, 200, maps=maps).linear.weight.abs().max() for maps in (1, 2))
    assert abs(one - (6 / 600) ** 0.5) < 1e-3 and abs(two - (6 / 400) ** 0.5) < 1e-3


def test_inputs_of_another_shape_are_refused():
    pool = Source2Token(8)
    for x in (torch.randn(2, 8), torch.randn(2, 3, 4)):
        for call in (pool, pool.weights):
            with pytest.raises(UserError, match=r"; it must be \(B, T, 8\)"):
                call(x)
