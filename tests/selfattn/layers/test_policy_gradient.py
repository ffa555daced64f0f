"""Samplers learn by REINFORCE: exact gradients by enumeration, and a task with a known answer."""

import itertools

import pytest
import torch

from benchmarks.testing import assert_close, noisy, padding_mask
from selfattn.layers.iterative_sampling import IterativeSampling
from selfattn.layers.resa import ReSA, ReSAConfig
from selfattn.layers.rss import RSS
from selfattn.layers.selection import Selection

SAMPLERS = (RSS, IterativeSampling)
WIDTH, LENGTH = 3, 4


def built(kind):
    torch.manual_seed(4)
    sampler = noisy(kind(WIDTH, 5).double(), 0.5)
    return sampler, torch.randn(1, LENGTH, WIDTH, dtype=torch.float64)


def enumerate_selections(sampler, x):
    """Each selection of a sentence with its log probability: noise is 0 or 1 for each token."""
    count = x.shape[1]
    sure = torch.tensor(list(itertools.product([0.0, 1.0], repeat=count)), dtype=torch.float64)
    repeated = x.expand(len(sure), -1, -1)
    real = torch.ones(len(sure), count, dtype=torch.bool)
    selected, logits = sampler.choose(repeated, real, sure)
    return Selection.of(selected, logits, real)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_log_probabilities_are_a_distribution(kind):
    found = enumerate_selections(*built(kind))
    assert found.selected.unique(dim=0).shape == (2**LENGTH, LENGTH)
    assert found.log_probability.exp().sum().item() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("kind", SAMPLERS)
def test_samples_follow_the_probabilities(kind):
    sampler, x = built(kind)
    exact = enumerate_selections(sampler, x)
    generator = torch.Generator().manual_seed(1)
    drawn = sampler(x.expand(20_000, -1, -1), generator=generator).selected
    codes = 2 ** torch.arange(LENGTH)
    seen = torch.bincount((drawn * codes).sum(1), minlength=2**LENGTH) / len(drawn)
    for selected, log_p in zip(exact.selected, exact.log_probability, strict=True):
        assert abs(seen[(selected * codes).sum()] - log_p.exp()) < 0.015
    again = sampler(x.expand(20_000, -1, -1), generator=generator.manual_seed(1)).selected
    assert torch.equal(again, drawn)


@pytest.mark.parametrize("baseline", [0.0, -1.0])
@pytest.mark.parametrize("kind", SAMPLERS)
def test_the_gradient_is_unbiased(kind, baseline):
    """The mean of (R - b) d log p over samples is d E[R], a sum over all selections."""
    sampler, x = built(kind)
    parameters = list(sampler.parameters())
    found = enumerate_selections(sampler, x)
    reward = torch.randn(2**LENGTH, dtype=torch.float64)
    expected = torch.autograd.grad((found.log_probability.exp() * reward).sum(), parameters)
    codes = 2 ** torch.arange(LENGTH)
    by_code = torch.zeros_like(reward).index_copy(0, (found.selected * codes).sum(1), reward)
    generator = torch.Generator().manual_seed(1)
    drawn = sampler(x.expand(100_000, -1, -1), generator=generator)
    drawn_reward = by_code[(drawn.selected * codes).sum(1)]
    surrogate = ((drawn_reward - baseline) * drawn.log_probability).mean()
    got = torch.autograd.grad(surrogate, parameters)
    for want, gradient in zip(expected, got, strict=True):
        assert_close("gradient", want, gradient, 0.05)


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("side", ["left", "right", "all"])
def test_padding_is_never_selected_and_changes_nothing(kind, side):
    sampler, _ = built(kind)
    x = torch.randn(3, 8, WIDTH, dtype=torch.float64)
    hidden = padding_mask(side, 3, 8)
    x[hidden] = float("nan")
    for how in ("sample", "threshold"):
        found = sampler(x, hidden, how)
        assert not found.selected[hidden].any()
        assert all(torch.isfinite(t).all() for t in found)
    for row in range(3):
        real = ~hidden[row]
        if real.any():
            alone = sampler(x[row : row + 1, real], None, "threshold")
            assert_close("p", alone.probability[0], found.probability[row, real], 1e-12)
            assert torch.equal(alone.selected[0], found.selected[row, real])
    found.log_probability.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in sampler.parameters())


def test_a_policy_learns_which_tokens_matter():
    """Selecting a token costs; only those with a mark are worth it."""
    torch.manual_seed(2)
    layer = ReSA(ReSAConfig(sampler_hidden=16), 8, 2)
    layer.select_all = False
    optimizer = torch.optim.Adam(layer.policy_parameters(), 0.02)

    def batch(size):
        x = torch.randn(size, 6, 8)
        marked = torch.rand(size, 6) < 0.4
        x[..., 0] = torch.where(marked, 2.0, -2.0)
        return x, marked

    for _ in range(150):
        x, marked = batch(64)
        layer(x)
        heads, dependents = layer.take_choice()
        right = (heads.selected == marked).float() + (dependents.selected != marked).float()
        reward = right.sum(1)
        advantage = reward - reward.mean()
        log_p = heads.log_probability + dependents.log_probability
        optimizer.zero_grad()
        (-(advantage * log_p).mean()).backward()
        optimizer.step()
    x, marked = batch(200)
    layer.eval()(x)
    heads, dependents = layer.take_choice()
    assert (heads.selected == marked).float().mean() > 0.97
    assert (dependents.selected != marked).float().mean() > 0.97
