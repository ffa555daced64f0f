"""``--criterion sentence_classification``: cross-entropy of classes, or of candidates."""

from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F
from fairseq.criterions import register_criterion
from fairseq.dataclass import FairseqDataclass
from torch import Tensor

from .._flags import flag
from ._sentences import L2_HELP, SentenceCriterion

# Target of an example whose label training never saw: it has no loss, and is always wrong.
UNSEEN = -100


@dataclass
class SentenceClassificationConfig(FairseqDataclass):
    """Flags of the criterion."""

    l2: float = flag(0.0, L2_HELP)


@register_criterion("sentence_classification", dataclass=SentenceClassificationConfig)
class SentenceClassificationCriterion(SentenceCriterion):
    """Cross-entropy, a mean over examples; ``accuracy`` in percent is over all of them."""

    def __init__(self, task: Any, l2: float) -> None:
        super().__init__(task, l2)

    def losses(self, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """See ``SentenceCriterion.losses``."""
        nll = F.cross_entropy(logits, target, ignore_index=UNSEEN, reduction="none")
        return nll, nll, {"correct": (logits.argmax(-1) == target).sum()}
