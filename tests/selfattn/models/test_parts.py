"""Contexts and heads: dropout before every linear map, first values, switches of their parts."""

import pytest
import torch
from torch import nn

from benchmarks.testing import noisy
from selfattn.errors import UserError
from selfattn.masks import padding_from_lengths
from selfattn.models import CONTEXTS, SelectionHead, SentenceEncoder, build_context, multihead
from selfattn.models.class_head import ClassHead
from selfattn.models.pair_head import Highway, PairHead
from selfattn.models.relatedness_head import RelatednessHead
from tests.selfattn.layers.test_dropout_places import check_dropout


def check(module, *sizes):
    """Its dropout, on random numbers of these sizes, with biases that are not 0."""
    module = noisy(module.double())
    check_dropout(module, *(torch.randn(size, dtype=torch.float64) for size in sizes))


def test_dropout_of_heads():
    pair = (3, 4), (3, 4)
    check(PairHead(4, 3, 6, dropout=0.5, highway=True), *pair)
    check(RelatednessHead(4, dropout=0.5), *pair)
    check(ClassHead(4, 3, dropout=0.5), (3, 4))
    check(Highway(4, dropout=0.5), (3, 4))
    check(SelectionHead(3, 4, 8, context="none", dropout=0.5), (2, 3), (2, 5, 4))


@pytest.mark.parametrize("name", sorted(set(CONTEXTS) - {"multihead", "resa", "sru"}))
def test_dropout_of_contexts(name):
    check(build_context(name, 12, 6, dropout=0.5), (2, 5, 12))


def test_dropout_of_multihead_is_on_its_input_and_on_its_weights(monkeypatch):
    given, seen, operator = [], [], multihead.dot_product

    def dot_product(*args, dropout_p, **more):
        given.append(dropout_p)
        return operator(*args, dropout_p=dropout_p, **more)

    monkeypatch.setattr(multihead, "dot_product", dot_product)
    context = build_context("multihead", 12, 12, dropout=0.5)
    context.qkv.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0] == 0))
    x = torch.randn(2, 50, 12)
    context(x)
    context.eval()(x)
    assert given == [0.5, 0.0]
    assert 0.4 < seen[0].float().mean() < 0.6 and not seen[1].any()


def test_the_activation_is_that_of_every_map():
    config = build_context("mtsa", 12, 6, activation="tanh").layer.config
    assert config.value_activation == config.s2t_activation == "tanh"
    config = build_context("resa", 12, 6, activation="tanh").layer.config
    assert config.sampler_activation == "tanh"
    pool = SentenceEncoder(12, hidden_size=6, activation="tanh").pool
    assert isinstance(pool.scores.network[2], nn.Tanh)


def test_first_values_of_an_lstm_and_of_multihead():
    for direction in build_context("lstm", 4, 3).directions:
        assert direction.bias.tolist() == [0] * 3 + [1] * 3 + [0] * 6  # i, f, g and o
    torch.manual_seed(0)
    for part in build_context("multihead", 60, 60, heads=2).qkv.weight.chunk(6):
        assert abs(part.abs().max() - (6 / 120) ** 0.5) < 1e-3  # a matrix for each head


def test_what_is_no_whole_number_is_refused():
    with pytest.raises(UserError, match="filters 1.5 is not allowed; it must be a whole number"):
        build_context("multi_cnn", 4, 4, filters=1.5)
    with pytest.raises(UserError, match="lengths .*dtype torch.bool"):
        padding_from_lengths(torch.tensor([True]))
