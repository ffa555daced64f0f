"""The rivals: published sizes, formulas, padding."""

import pytest
import torch

from benchmarks.rivals.algorithm1 import algorithm1
from benchmarks.rivals.dot_product import Directed, Explicit
from benchmarks.rivals.recurrent import BiRecurrent
from selfattn.errors import UserError
from selfattn.masks import head_masks
from selfattn.ops import mtsa


def size(module):
    return sum(p.numel() for p in module.parameters())


def test_sizes_are_the_published_ones():
    # The published sentence encoders have 300 features; what is left of their totals without the
    # head (1,442,403) and the embedding. PyTorch's recurrent nets have a second bias a gate.
    assert size(BiRecurrent(300, "lstm")) == 2_884_803 - 1_442_403 + 2 * 4 * 300
    assert size(BiRecurrent(300, "gru")) == 2_524_203 - 1_442_403 + 2 * 3 * 300


@pytest.mark.parametrize(
    ("module", "width"),
    [
        (BiRecurrent(12, "lstm"), 24),
        (BiRecurrent(12, "gru"), 24),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else str(value),
)
def test_shapes(module, width):
    assert module(torch.randn(2, 5, 12)).shape == (2, 5, width)


def test_a_recurrent_net_refuses_padding_on_the_left():
    hidden = torch.tensor([[True, False, False]])
    with pytest.raises(UserError, match="hide the end"):
        BiRecurrent(4, "gru")(torch.randn(1, 3, 4), hidden)


@pytest.mark.parametrize("sigma_t", ["identity", "logsigmoid"])
def test_algorithm_1_is_mtsa_for_moderate_scores_only(sigma_t):
    torch.manual_seed(0)
    q, k, v, s = torch.randn(4, 2, 4, 7, 5, dtype=torch.float64).unbind()
    masks = head_masks("forward_backward", 4)
    hidden = torch.zeros(2, 7, dtype=torch.bool)
    hidden[1, 4:] = True
    common = {"masks": masks, "padding_mask": hidden, "sigma_t": sigma_t}
    truth = mtsa(q, k, v, s, **common, backend="reference")
    torch.testing.assert_close(algorithm1(q, k, v, s, **common), truth)
    # Published without a shift: the exponential of a large score overflows.
    assert not torch.isfinite(algorithm1(q, k, v, 800 * s, **common)).all()


def test_directed_attention_without_a_mask_tensor_is_the_masked_formula():
    q, k, v = torch.randn(3, 2, 4, 7, 5, dtype=torch.float64).unbind()
    truth = Explicit(head_masks("forward_backward", 4))(q, k, v, None)
    torch.testing.assert_close(Directed()(q, k, v, None), truth)
    assert truth[:, :2, 0].eq(0).all() and truth[:, 2:, -1].eq(0).all()  # they see no key
