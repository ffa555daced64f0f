"""SRL training by hand: batches, losses, counts and schedule."""

import math
from types import SimpleNamespace

import pytest
import torch
from fairseq.optim import FairseqOptimizer

from plugin.criterions.bio_tagging import smoothed_loss
from plugin.data.propositions import Example, PropositionDataset
from plugin.lr_schedulers.piecewise import PiecewiseConfig, PiecewiseSchedule
from plugin.tasks.srl_counts import count
from selfattn.errors import UserError
from selfattn_tasks.srl import Proposition, Sentence, Span
from selfattn_tasks.srl.tagger.state import TaggerState
from selfattn_tasks.words.vocabulary import Vocabulary


@pytest.mark.parametrize("shuffle", [False, True])
def test_propositions_of_a_sentence_side_by_side(shuffle):
    """Shortest first in any case; sentences of one length alternate in the file."""
    words = [(1, 2, 3), (1, 2), (3, 4), (1, 2), (3, 4), (1, 2)]
    examples = [Example(each, 0, [0] * len(each)) for each in words]
    usual, together = (PropositionDataset(examples, shuffle, kind) for kind in (False, True))
    assert usual.ordered_indices()[-1] == 0
    for _ in range(5):
        found = together.ordered_indices().tolist()
        assert sorted(found) == list(range(6)) and found[-1] == 0
        assert {frozenset(found[:3]), frozenset(found[2:5])} & {frozenset({1, 3, 5})}
    if not shuffle:
        assert usual.ordered_indices().tolist() == [1, 2, 3, 4, 5, 0]
        assert found == [1, 3, 5, 2, 4, 0]


@pytest.mark.parametrize(("decoder", "counts"), [("argmax", (0, 2, 1)), ("published", (1, 0, 0))])
def test_validation_counts_what_its_decoder_gives(decoder, counts):
    """B-A0 I-A1 is one argument by the published rule and two otherwise."""
    labels = ("O", "B-A0", "I-A1", "B-V")
    state = TaggerState(Vocabulary(("tea",), labels))
    scores = torch.eye(4)[[1, 2, 3]][None]
    gold = Proposition(2, "go", (Span("A0", 0, 1), Span("V", 2, 2)))
    padding = torch.zeros(1, 3, dtype=torch.bool)
    net_input = {"padding_mask": padding, "indicator": torch.tensor([[0, 0, 1]])}
    sample = {"net_input": net_input, "gold": [Sentence(("a", "b", "c"), (gold,))]}
    found = count(scores, sample, state, decoder)
    assert tuple(found[f"_srl_{name}"] for name in ("correct", "excess", "missed")) == counts


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_loss_as_published(smoothing):
    """Cross-entropy against the smoothed distribution, less its entropy: 0 where they agree."""
    gold = torch.tensor([2, 0])
    target = torch.full((2, 5), smoothing / 4, dtype=torch.float64)
    target[torch.arange(2), gold] = 1 - smoothing
    logits = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    log_probs = logits.log_softmax(-1)
    entropy = -sum(p * math.log(p) for p in target[0].tolist() if p)
    expected = -(target * log_probs).sum(1) - entropy
    torch.testing.assert_close(smoothed_loss(log_probs, gold, smoothing), expected)
    if smoothing:
        best = smoothed_loss(target.log(), gold, smoothing)
        torch.testing.assert_close(best, torch.zeros(2, dtype=torch.float64), atol=1e-12, rtol=0)


def test_published_schedule():
    """1.0, half of it from update 400,000 on, a quarter from 500,000 on."""

    class Optimiser(FairseqOptimizer):
        rate = 0.0

        def __init__(self) -> None: ...

        def set_lr(self, rate: float) -> None:
            self.rate = rate

    default = PiecewiseConfig()
    flags = {name: getattr(default, name) for name in ("lr_boundaries", "lr_factor")}
    schedule = PiecewiseSchedule(SimpleNamespace(lr=[1.0], **flags), Optimiser())
    assert schedule.optimizer.rate == 1.0
    updates = (0, 399_999, 400_000, 499_999, 500_000, 600_000)
    assert [schedule.step_update(n) for n in updates] == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]
    assert schedule.optimizer.rate == 0.25
    with pytest.raises(UserError, match=r"--lr 1\.0,0\.5 is not allowed with --lr-scheduler"):
        PiecewiseSchedule(SimpleNamespace(lr=[1.0, 0.5], **flags), Optimiser())
