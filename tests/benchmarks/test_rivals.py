"""The rivals: published sizes, formulas, padding."""

import pytest
import torch

from benchmarks.rivals.algorithm1 import algorithm1
from benchmarks.rivals.convolution import HierarchicalCNN, MultiWindowCNN
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
    assert size(MultiWindowCNN(300)) == (3 + 4 + 5) * 300 * 200 + 3 * 200
    assert size(HierarchicalCNN(300)) == 3 * (5 * 300 * 600 + 600)


@pytest.mark.parametrize(
    ("module", "width"),
    [
        (BiRecurrent(12, "lstm"), 24),
        (BiRecurrent(12, "gru"), 24),
        (MultiWindowCNN(12), 24),
        (HierarchicalCNN(12), 12),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, int) else str(value),
)
def test_shapes(module, width):
    assert module(torch.randn(2, 5, 12)).shape == (2, 5, width)


def test_the_windows_of_a_cnn_see_what_they_should():
    """Window 4 sees one token before and two after; with 3 and 5, nothing beyond two."""
    # So many filters that some are above zero in each window.
    x = torch.randn(1, 9, 60, requires_grad=True)
    wide, even = MultiWindowCNN(60), MultiWindowCNN(60, windows=(4,), filters=50)
    for module, seen in ((wide, {2, 3, 4, 5, 6}), (even, {3, 4, 5, 6})):
        (gradient,) = torch.autograd.grad(module(x)[0, 4].sum(), x)
        assert set(gradient[0].abs().sum(1).nonzero().flatten().tolist()) == seen


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
