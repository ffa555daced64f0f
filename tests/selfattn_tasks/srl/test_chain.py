"""The likelihood of label sequences against a sum over all of them."""

import itertools

import pytest
import torch

from selfattn_tasks.srl.chain import log_likelihood
from selfattn_tasks.srl.decode import Constraints, bio_constraints
from tests.selfattn_tasks.srl.test_decode import LABELS, allowed

UNKNOWN = -100


def by_enumeration(scores, gold, how):
    """log P(gold), summed over what an unknown label may be; None if no sequence agrees."""
    total, agreeing = [], []
    for path in itertools.product(range(len(LABELS)), repeat=len(gold)):
        if allowed(tuple(LABELS[i] for i in path), how):
            score = sum(row[i] for row, i in zip(scores, path, strict=True))
            total.append(score)
            if all(g in (i, UNKNOWN) for g, i in zip(gold, path, strict=True)):
                agreeing.append(score)
    if not agreeing:
        return None
    return torch.stack(agreeing).logsumexp(0) - torch.stack(total).logsumexp(0)


@pytest.mark.parametrize("how", ["tan", "he", "strict"])
def test_likelihoods_and_gradients_are_those_of_an_enumeration(how):
    """All lengths up to 4 in one batch, with unknown labels, and sequences that break the rules.

    Times 1,000, what must come before an I-A0 is out of reach of exp(), seen from other labels.
    """
    torch.manual_seed(0)
    lengths = torch.tensor([1, 2, 3, 4] * 6)
    gold = torch.randint(len(LABELS), (24, 4)).masked_fill(torch.rand(24, 4) < 0.3, UNKNOWN)
    padding = torch.arange(4) >= lengths[:, None]
    gold = gold.masked_fill(padding, UNKNOWN)
    scores = torch.randn(24, 4, len(LABELS), dtype=torch.float64)
    scores[:, 1:, LABELS.index("I-A0")] += 3
    scores[:12], scores[12:] = 3 * scores[:12], 1000 * scores[12:]
    scores.requires_grad_()
    found, fits = log_likelihood(scores, gold, padding, bio_constraints(LABELS, how))
    (gradient,) = torch.autograd.grad(found.sum(), scores)
    assert gradient.isfinite().all() and not gradient[padding].any()
    assert 0 < int(fits.sum()) < len(fits)
    for row, length in enumerate(lengths.tolist()):
        own = scores[row, :length].detach().requires_grad_()
        expected = by_enumeration(own, gold[row, :length].tolist(), how)
        assert bool(fits[row]) is (expected is not None)
        if expected is None:
            assert found[row] == 0 and not gradient[row].any()
            continue
        torch.testing.assert_close(found[row], expected, rtol=1e-10, atol=1e-12)
        (wanted,) = torch.autograd.grad(expected, own, allow_unused=True)
        torch.testing.assert_close(gradient[row, :length], wanted, rtol=1e-9, atol=1e-12)


def test_batch_mates_and_extreme_scores_change_nothing():
    """Alone or beside a long sentence, and where float32 has no room for the probabilities."""
    strict = bio_constraints(LABELS, "strict")
    scores = (100 * torch.randn(1, 3, len(LABELS))).requires_grad_()
    gold, alone = torch.tensor([[1, 2, 0]]), torch.zeros(1, 3, dtype=torch.bool)
    found = log_likelihood(scores, gold, alone, strict)[0]
    (gradient,) = torch.autograd.grad(found.sum(), scores)
    more = torch.cat([scores, torch.zeros(1, 50, len(LABELS))], 1)
    more = torch.cat([more, torch.randn(1, 53, len(LABELS))])
    longer = torch.cat([gold, torch.full((1, 50), UNKNOWN)], 1)
    longer = torch.cat([longer, torch.zeros(1, 53, dtype=torch.long)])
    padding = torch.arange(53) >= torch.tensor([[3], [53]])
    both = log_likelihood(more, longer, padding, strict)[0]
    torch.testing.assert_close(both[:1], found, rtol=1e-12, atol=1e-12)
    (same,) = torch.autograd.grad(both[0], scores)
    torch.testing.assert_close(same, gradient)
    assert gradient.isfinite().all()


def test_without_any_allowed_sequence():
    """Nothing may open a sentence, or nothing may follow: no likelihood, no NaN."""
    yes, no = torch.ones(2, dtype=torch.bool), torch.zeros(2, dtype=torch.bool)
    for start, after, expected in ((no, yes, [False, False]), (yes, no, [True, False])):
        constraints = Constraints(start, after.expand(2, 2))
        scores = torch.randn(2, 2, 2, requires_grad=True)
        gold = torch.tensor([[0, UNKNOWN], [0, 1]])
        padding = torch.tensor([[False, True], [False, False]])
        found, fits = log_likelihood(scores, gold, padding, constraints)
        assert fits.tolist() == expected
        (gradient,) = torch.autograd.grad(found.sum(), scores)
        assert gradient.isfinite().all() and not gradient[~fits].any()
