"""``--criterion bio_crf``: likelihood of label sequences under a decoder's constraints."""

from dataclasses import dataclass
from typing import Any

import torch
from fairseq.criterions import register_criterion
from fairseq.dataclass import ChoiceEnum
from torch import Tensor
from torch.nn import functional

from selfattn.errors import UserError
from selfattn_tasks.srl.chain import log_likelihood
from selfattn_tasks.srl.decode import bio_constraints
from selfattn_tasks.srl.tags import WORD_BY_WORD

from .._flags import flag
from ._scaffold import ScaffoldConfig
from .bio_tagging import IGNORED, BIOTaggingCriterion


@dataclass
class BIOCRFConfig(ScaffoldConfig):
    """Flags of the criterion."""

    crf_constraints: ChoiceEnum(("strict", "he", "tan")) = flag(  # type: ignore[valid-type]
        "strict", "which labels may follow each other; see `selfattn predict --help`"
    )


@register_criterion("bio_crf", dataclass=BIOCRFConfig)
class BIOCRFCriterion(BIOTaggingCriterion):
    """Negative log-likelihood of a conditional random field whose transitions are the constraints.

    Transitions that a decoder forbids have -inf and all others 0, so that this is the logarithm of
    the probability that ``selfattn predict --confidence`` gives to the gold sequence, and Viterbi
    needs nothing new. A sentence whose labels break the constraints does not count. The scores of a
    single word mean nothing without its neighbours': ``argmax`` does not fit this loss. With
    ``--target both``, predicates are learnt as they are found, word by word.

    Raises:
        UserError: if the task is to find predicates alone, which takes probabilities of single
            words, or validates by a decoder that takes them.
    """

    def __init__(self, task: Any, cfg: Any, crf_constraints: str) -> None:
        if not hasattr(task, "target"):
            raise UserError("--criterion bio_crf needs --task srl_tagging")
        super().__init__(task, cfg, label_smoothing=0.0)
        if task.target == "predicates":
            raise UserError(
                "--target predicates does not fit --criterion bio_crf, which is for arguments; "
                "give --target arguments or both, or --criterion bio_tagging"
            )
        if str(task.cfg.eval_decoder) in WORD_BY_WORD:
            raise UserError(
                f"--eval-decoder {task.cfg.eval_decoder} does not fit --criterion bio_crf, which "
                "trains on whole sequences; give --eval-decoder strict or structured"
            )
        self.constraints = bio_constraints(task.vocabulary.labels, str(crf_constraints))

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """fairseq's hook: loss, number of words, what to log; ``(B,)`` without ``reduce``."""
        scores, more, more_logged = self.run(model, sample["net_input"])
        target, padding = sample["target"], sample["net_input"]["padding_mask"]
        marked = sample["net_input"]["indicator"].any(1)  # in the other rows, predicates are found
        chains, fits = log_likelihood(
            scores[marked], target[marked], padding[marked], self.constraints
        )
        found = functional.cross_entropy(
            scores[~marked].transpose(1, 2).float(), target[~marked], ignore_index=IGNORED,
            reduction="none",
        )  # fmt: skip
        places = torch.cat([marked.nonzero(), (~marked).nonzero()])[:, 0]
        losses = torch.cat([-chains, found.sum(1)])[places.argsort()]
        counted = target != IGNORED
        counted[marked] &= fits[:, None]
        words, loss = int(counted.sum()), losses.sum()
        logged = self.logged(loss, sample, words, **more_logged)
        return loss + more if reduce else losses, words, logged
