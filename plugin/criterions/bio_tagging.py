"""``--criterion bio_tagging``: label-smoothed cross-entropy over BIO labels."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.criterions import register_criterion
from torch import Tensor

from selfattn.errors import check_rate
from selfattn_tasks.srl.tagger.network import sentences_of

from .._flags import flag
from ..compat import warm_start
from ..modules.outputs import outputs_of
from ._scaffold import ScaffoldConfig, build_scaffold, log_scaffold
from ._sums import SummingCriterion, log_mean

# Target for padding, and for labels that do not occur in training.
IGNORED = -100


@dataclass
class BIOTaggingConfig(ScaffoldConfig):
    """Flags of the criterion."""

    label_smoothing: float = flag(
        0.1, "probability that is spread over all other labels, as published"
    )


@register_criterion("bio_tagging", dataclass=BIOTaggingConfig)
class BIOTaggingCriterion(SummingCriterion):
    """The loss of Tan et al. (2018) and of the MTSA paper's SRL model, a mean over words.

    The target distribution has 1 - e at the gold label and e / (C - 1) at each other one; e is
    ``--label-smoothing``. As in the published code, its entropy is subtracted, so that the smallest
    loss is 0.

    Raises:
        UserError: if e is not in [0, 1), or a value for the scaffold is not allowed.
    """

    def __init__(self, task: Any, cfg: Any, label_smoothing: float) -> None:
        super().__init__(task)
        self.scaffold = build_scaffold(task, cfg)
        self.smoothing = check_rate("--label-smoothing", label_smoothing)

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """fairseq's hook: loss, number of words, what to log.

        Without ``reduce`` the loss is ``(B, T)``, 0 where a word does not count. So is
        ``nll_loss``, the negative log-probability of the gold label, in what is logged.
        """
        scores, more, more_logged = self.run(model, sample["net_input"])
        target = sample["target"]
        counted = target != IGNORED
        log_probs = torch.log_softmax(scores[counted].float(), -1)
        gold = target[counted]
        losses = smoothed_loss(log_probs, gold, self.smoothing)
        loss = losses.sum()
        words = int(counted.sum())
        correct = (log_probs.argmax(-1) == gold).sum()
        logged = self.logged(loss, sample, words, correct_words=correct.data, **more_logged)
        if not reduce:
            zeros = torch.zeros_like(target, dtype=losses.dtype)
            loss = zeros.masked_scatter(counted, losses)
            log_p = log_probs.detach().gather(1, gold[:, None])
            logged["nll_loss"] = zeros.masked_scatter(counted, -log_p)
        return loss + more, words, logged

    def run(
        self, model: Any, inputs: dict[str, Tensor]
    ) -> tuple[Tensor, Tensor | float, dict[str, Tensor]]:
        """One pass: scores ``(B, T, labels)``, what a scaffold adds to the loss, what it logs."""
        if self.scaffold is None or not model.training:
            return model(**inputs), 0.0, {}
        with outputs_of(model.tagger.layers[self.scaffold.layer - 1]) as hidden:
            scores = model(**inputs)
        words, read = inputs["words"], hidden[0]
        if len(read) < len(words):  # below --late-layers there is one row per sentence
            read = read[sentences_of(**inputs)[1]]  # which counts as often as above them
        loss, logged = self.scaffold(read, words)
        return scores, self.scaffold.weight * loss, logged

    def load_state_dict(self, state_dict: Any, *args: Any, **kwargs: Any) -> Any:
        """torch's hook; a run that starts from another's weights starts its scaffold anew."""
        if warm_start.is_starting():
            return None
        return super().load_state_dict(state_dict, *args, **kwargs)

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        """Log the mean losses in nats per word, and the share of correct labels in percent."""
        log_mean(logging_outputs, "loss")
        log_scaffold(logging_outputs)
        log_mean(logging_outputs, "correct_words", digits=2, percent="accuracy")


def smoothed_loss(log_probs: Tensor, gold: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy with smoothed targets, minus their entropy.

    Args:
        log_probs: ``(N, C)``.
        gold: ``(N,)``.
        smoothing: e, spread over the C - 1 other labels.

    Returns:
        ``(N,)``, at least 0.
    """
    at_gold = log_probs.gather(1, gold[:, None])[:, 0]
    others = log_probs.shape[1] - 1
    if smoothing == 0 or others == 0:
        return -at_gold
    each = smoothing / others
    entropy = -(1 - smoothing) * math.log(1 - smoothing) - smoothing * math.log(each)
    at_others = log_probs.sum(1) - at_gold
    return -((1 - smoothing) * at_gold + each * at_others) - entropy
