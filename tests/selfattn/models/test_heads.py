"""Heads against their formulas, written out for one example."""

import pytest
import torch
import torch.nn.functional as F

from benchmarks.testing import assert_close
from selfattn.errors import UserError
from selfattn.models import ClassHead, PairHead, RelatednessHead, SelectionHead


def random(module):
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return module.double()


def vectors(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("highway", [False, True])
def test_a_pair(highway):
    head = random(PairHead(4, 3, 6, "elu", highway=highway))
    s1, s2 = vectors(2, 5, 4)
    p = dict(head.named_parameters())
    h = torch.cat([s1, s2, s1 - s2, s1 * s2], 1)
    h = F.elu(h @ p["dense.1.weight"].T + p["dense.1.bias"])
    if highway:
        t = F.elu(h @ p["highway.transform.1.weight"].T + p["highway.transform.1.bias"])
        g = torch.sigmoid(h @ p["highway.gate.1.weight"].T + p["highway.gate.1.bias"])
        h = g * t + (1 - g) * h
    expected = h @ p["logits.1.weight"].T + p["logits.1.bias"]
    assert_close("logits", expected, head(s1, s2), 1e-12)


def test_relatedness_and_its_score():
    head = random(RelatednessHead(4, 5, 6))
    s1, s2 = vectors(2, 3, 4)
    p = dict(head.named_parameters())
    both = torch.cat([s1 * s2, (s1 - s2).abs()], 1)
    weight = torch.cat([p["product.weight"], p["difference.weight"]], 1)
    h = torch.relu(both @ weight.T + p["difference.bias"])
    expected = h @ p["logits.1.weight"].T + p["logits.1.bias"]
    assert_close("logits", expected, head(s1, s2), 1e-12)
    assert torch.equal(head(s1, s2), head(s2, s1))
    certain = torch.tensor([[-99.0, -99.0, 0.0, 0.0, -99.0], [0.0, 0.0, 0.0, 0.0, 99.0]])
    assert head.score(certain).tolist() == [3.5, 5.0]


def test_a_class_has_no_bias():
    head = random(ClassHead(4, 3, 6))
    s = vectors(5, 4)
    p = dict(head.named_parameters())
    h = torch.relu(s @ p["dense.1.weight"].T + p["dense.1.bias"])
    assert_close("logits", h @ p["logits.1.weight"].T, head(s), 1e-12)
    assert set(p) == {"dense.1.weight", "dense.1.bias", "logits.1.weight"}


@pytest.mark.parametrize("activation", ["relu", "elu"])
def test_selection(activation):
    options = {"context": "none", "activation": activation}
    head = random(SelectionHead(3, 4, 5, **options))
    q, u = vectors(2, 3), vectors(2, 6, 4)
    hidden = torch.zeros(2, 6, dtype=torch.bool)
    hidden[0, 4:] = True
    y = head(q, u, hidden)
    act = getattr(F, activation)
    p = dict(head.named_parameters())

    def linear(x, name):
        return x @ p[f"{name}.weight"].T + p[f"{name}.bias"]

    for row, column in ((0, 3), (1, 5)):
        a = act(linear(u[row, column], "candidate.1"))
        b = act(linear(q[row], "question.1"))
        context = act(linear(torch.cat([a, b, a - b, a * b]), "context.map.1"))
        expected = linear(act(linear(context, "dense.1")), "logits.1")
        assert_close("logit", expected, y[row, column][None], 1e-12)
    assert (y[0, 4:] == float("-inf")).all() and torch.isfinite(y[1]).all()
    assert torch.isfinite(torch.softmax(y, 1)).all()


@pytest.mark.parametrize("context", ["mtsa", "biblosa", "lstm", "multihead"])
def test_candidates_that_are_padding_change_nothing(context):
    torch.manual_seed(0)
    head = SelectionHead(3, 4, 8, context=context).double()
    q, u = vectors(2, 3), vectors(2, 6, 4)
    hidden = torch.zeros(2, 6, dtype=torch.bool)
    hidden[0, 3:] = True
    assert_close("alone", head(q[:1], u[:1, :3]), head(q, u, hidden)[:1, :3], 1e-12)
    assert_close("mate", head(q[1:], u[1:]), head(q, u, hidden)[1:], 1e-12)
    u[0, 3:] = float("nan")
    head(q, u, hidden)[~hidden].sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in head.parameters())


def test_a_context_that_pools_cannot_select():
    with pytest.raises(UserError, match="context 'vanilla' gives one vector for all candidates"):
        SelectionHead(3, 4, 8, context="vanilla")
