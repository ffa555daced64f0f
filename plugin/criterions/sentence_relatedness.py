"""``--criterion sentence_relatedness``: a score as a distribution over whole numbers."""

from dataclasses import dataclass
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from torch import Tensor

from selfattn.errors import UserError
from selfattn.models.relatedness_head import distribution, expected_score

from .._flags import flag
from ._sentences import L2_HELP, SentenceCriterion

LOSSES = ["kl", "mse"]
LOSS_HELP = (
    "kl: the divergence from the score's distribution, as published; mse: (score - gold)^2 / 2, "
    "as in ReSAN's code"
)


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

    Args:
        task: ``--task sentences``, which knows the lowest score.
        l2: factor of the L2 term.
        relatedness_loss: one of ``LOSSES``.

    Raises:
        UserError: if the task has no scores, or the factor is no number of at least 0.
    """

    def __init__(self, task: Any, l2: float, relatedness_loss: str) -> None:
        super().__init__(task, l2)
        self.squared = str(relatedness_loss) == "mse"
        self.lowest: float = getattr(task, "lowest_score", None)  # type: ignore[assignment]
        if self.lowest is None:
            raise UserError(
                "--criterion sentence_relatedness needs scores, and this data has none; give "
                "--task sentences a folder of --task relatedness"
            )

    def losses(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """See ``SentenceCriterion.losses``; the log probability is minus the divergence."""
        log_q = torch.log_softmax(logits, -1)
        p = distribution(target.float(), self.lowest, self.lowest + logits.shape[-1] - 1)  # eq. 26
        kl = (torch.xlogy(p, p) - p * log_q).sum(-1)
        squared = (expected_score(log_q.exp(), self.lowest) - target).square()  # eq. 25
        return (0.5 * squared if self.squared else kl), kl, {"mse": squared.sum()}
