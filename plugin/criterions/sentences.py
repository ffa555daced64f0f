"""``--criterion sentence_classification``, ``sentence_relatedness``: means over examples, L2."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch import Tensor, nn

from selfattn.errors import UserError
from selfattn.layers import SelfAttention
from selfattn.models.relatedness_head import distribution, expected_score
from selfattn_tasks.sentences.record import HIGHEST, LOWEST, Kind

from .._flags import flag
from ._sums import SummingCriterion, log_mean

L2_HELP = (
    "factor of sum W^2 / 2 over all matrices but embeddings, added to the training loss; "
    "published are 5e-5 and 1e-4 (--weight-decay is another thing: it shrinks biases and "
    "embeddings, too)"
)
LOSSES = ["kl", "mse"]
LOSS_HELP = (
    "kl: the divergence from the score's distribution, as published; mse: (score - gold)^2 / 2, "
    "as in ReSAN's code"
)
# Target of an example whose label training never saw: it has no loss, and is always wrong.
UNSEEN = -100


class SentenceCriterion(SummingCriterion):
    """A loss of each example, and ``--l2``.

    Raises:
        UserError: if the factor ``l2`` is negative or no number.
    """

    def __init__(self, task: Any, l2: float) -> None:
        super().__init__(task)
        if not 0 <= l2 < math.inf:
            raise UserError(f"--l2 {l2} is not allowed; it must be a number of at least 0")
        self.l2 = l2

    @abstractmethod
    def losses(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Of each example.

        Args:
            logits: ``(B, C)``, in float32.
            target: ``(B,)``.

        Returns:
            Loss in nats ``(B,)``, 0 where an example does not count; minus the log probability of
            the target ``(B,)``; sums to log.
        """

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """fairseq's hook: loss, number of examples that count, what to log.

        Without ``reduce`` the loss is ``(B,)``, and so is ``nll_loss``, minus the log probability
        of the target, among what to log. What is logged as ``loss`` is without the L2 term.
        """
        target = sample["target"]
        losses, nll, figures = self.losses(model(**sample["net_input"]).float(), target)
        counted = target.ne(self.padding_idx)
        size = int(counted.sum())
        figures = {name: value.data for name, value in figures.items()}
        logged = self.logged(losses.sum(), sample, size, ntokens=sample["ntokens"], **figures)
        if self.training and self.l2:
            term = self.l2 * l2(model)
            losses = losses + term * counted  # fairseq divides by the number of examples
            logged["l2_loss"] = size * term.data
        if not reduce:
            return losses, size, {**logged, "nll_loss": nll.detach()}
        return losses.sum(), size, logged

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        """fairseq's hook: log means over examples, and the share of right ones in percent."""
        for name in ("loss", "l2_loss", "mse"):
            log_mean(logging_outputs, name)
        log_mean(logging_outputs, "correct", over="nsentences", digits=2, percent="accuracy")


@dataclass
class SentenceClassificationConfig(FairseqDataclass):
    """Flags of the criterion."""

    l2: float = flag(0.0, L2_HELP)


@register_criterion("sentence_classification", dataclass=SentenceClassificationConfig)
class SentenceClassificationCriterion(SentenceCriterion):
    """Cross-entropy, a mean over examples; ``accuracy`` in percent is over all of them."""

    def losses(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        nll = F.cross_entropy(logits, target, ignore_index=UNSEEN, reduction="none")
        return nll, nll, {"correct": (logits.argmax(-1) == target).sum()}


@dataclass
class SentenceRelatednessConfig(FairseqDataclass):
    """Flags of the criterion."""

    l2: float = flag(0.0, L2_HELP)
    relatedness_loss: ChoiceEnum(LOSSES) = flag(  # type: ignore[valid-type]
        "kl", LOSS_HELP
    )


@register_criterion("sentence_relatedness", dataclass=SentenceRelatednessConfig)
class SentenceRelatednessCriterion(SentenceCriterion):
    """The loss of Bi-BloSAN's experiment on SICK (Shen et al. 2018, eq. 25-26).

    A score between two whole numbers is a distribution over both: 3.7 is 3 with probability 0.3 and
    4 with 0.7. The loss is its divergence from the model's, a mean over examples; ``mse``, the
    squared error of the expected score, is logged in either case.

    Raises:
        UserError: if the task has no scores, or the factor is no number of at least 0.
    """

    def __init__(self, task: Any, l2: float, relatedness_loss: str) -> None:
        super().__init__(task, l2)
        self.squared = str(relatedness_loss) == "mse"
        if getattr(task, "kind", None) is not Kind.RELATEDNESS:
            raise UserError(
                "--criterion sentence_relatedness needs scores, and this data has none; give "
                "--task sentences a folder of --task relatedness"
            )

    def losses(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """See ``SentenceCriterion.losses``.

        The log probability is minus the divergence, or minus the loss of ``mse``, which has none:
        it is the reward in ReSAN's code.
        """
        log_q, target = torch.log_softmax(logits, -1), target.float()
        p = distribution(target, LOWEST, HIGHEST)  # eq. 26
        kl = (torch.xlogy(p, p) - p * log_q).sum(-1)
        squared = (expected_score(log_q.exp(), LOWEST) - target).square()  # eq. 25
        loss = 0.5 * squared if self.squared else kl
        return loss, loss, {"mse": squared.sum()}


def l2(model: nn.Module) -> Tensor:
    """``sum W^2 / 2`` over matrices, those of several heads too; no embeddings, nor what is frozen.

    The samplers of ReSA are left out as well: no part of the supervised loss reaches them.

    Differs: in the authors' code the maps of MTSA count twice where two sentences are encoded, and
    those of DiSA's scores not at all.
    """
    left_out: set[int] = set()
    for module in model.modules():
        if isinstance(module, nn.Embedding):
            left_out.update(map(id, module.parameters()))
        elif isinstance(module, SelfAttention):
            left_out.update(map(id, module.policy_parameters()))
    counted = [
        p
        for name, p in model.named_parameters()
        if p.dim() >= 2
        and p.requires_grad
        and id(p) not in left_out
        and "bias" not in name.rpartition(".")[2]  # those of heads and directions have two, too
    ]
    # In one tensor: a hundred small ones cost more than their numbers.
    return 0.5 * torch.cat([p.flatten() for p in counted]).float().square().sum()
