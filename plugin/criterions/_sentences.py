"""What the losses of sentences share: a mean over examples, and the L2 term."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.errors import UserError
from selfattn.layers import SelfAttention
from selfattn_tasks.sentences.record import Kind

from ._sums import SummingCriterion, log_mean

L2_HELP = (
    "factor of sum W^2 / 2 over all matrices but embeddings, added to the loss of training; "
    "published are 5e-5 and 1e-4 (--weight-decay is another thing: it shrinks biases and "
    "embeddings, too)"
)


def criterion_of(kind: Kind) -> str:
    """The name of the criterion for what is asked of sentences."""
    return "sentence_relatedness" if kind.target == "score" else "sentence_classification"


class SentenceCriterion(SummingCriterion):
    """A loss of each example, and ``--l2``.

    Args:
        task: the task.
        l2: factor of the L2 term.

    Raises:
        UserError: if the factor is negative or no number.
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
        logged = {
            "loss": losses.sum().data,
            "ntokens": sample["ntokens"],
            "nsentences": len(target),
            "sample_size": size,
            **{name: value.data for name, value in figures.items()},
        }
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


def l2(model: nn.Module) -> Tensor:
    """``sum W^2 / 2`` over what has two dimensions or more; not embeddings, nor what is frozen.

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
        p for p in model.parameters() if p.dim() >= 2 and p.requires_grad and id(p) not in left_out
    ]
    # In one tensor: a hundred small ones cost more than their numbers.
    return 0.5 * torch.cat([p.flatten() for p in counted]).float().square().sum()
