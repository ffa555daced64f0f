"""``--criterion policy_gradient``: a task's own loss, and REINFORCE for the selections of ReSA."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from fairseq.criterions import CRITERION_REGISTRY, register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterionConfig
from fairseq.dataclass import ChoiceEnum
from torch import Tensor

from selfattn.errors import UserError
from selfattn.layers import ReSA

from .._flags import flag
from ..modules.policy_phases import Phase, PolicyPhases
from ._sums import SummingCriterion, log_mean
from .sentences import L2_HELP, LOSS_HELP, LOSSES

# Criterions whose forward(reduce=False) gives one loss a token.
SUPERVISED = (
    "label_smoothed_cross_entropy",
    "cross_entropy",
    "bio_tagging",
    "sentence_classification",
    "sentence_relatedness",
)
# Share of the old value that the running mean keeps at an update.
_KEPT = 0.99
BASELINES = ["none", "running_mean", "select_all"]
REWARDS = ["log_p", "loss"]
_LOGGED = ("reward", "policy_loss", "selected_heads", "selected_dependents", "selection_entropy")
_COUNT = "policy_sentences"  # over which the others are sums


@dataclass
class PolicyGradientConfig(LabelSmoothedCrossEntropyCriterionConfig):
    """Flags of the criterion."""

    label_smoothing: float = flag(0.1, "label smoothing of the supervised loss")
    supervised_criterion: ChoiceEnum(["task", *SUPERVISED]) = flag(  # type: ignore[valid-type]
        "task",
        "the supervised loss; task: bio_tagging for --task srl_tagging, that of the "
        "data for --task sentences, else label_smoothed_cross_entropy",
    )
    l2: float = flag(0.0, f"--task sentences: {L2_HELP}")
    relatedness_loss: ChoiceEnum(LOSSES) = flag(  # type: ignore[valid-type]
        "kl", f"relatedness of sentences: {LOSS_HELP}"
    )
    selection_cost: float = flag(
        0.02, "lambda: what the selected share costs; published are 0.005 to 0.04"
    )
    selection_penalty: ChoiceEnum(["product", "sum"]) = flag(  # type: ignore[valid-type]
        "product",
        "the share that costs: selected heads times selected dependents, as in the "
        "authors' code, or the sum of both, as in the paper",
    )
    selection_reward: ChoiceEnum(REWARDS) = flag(  # type: ignore[valid-type]
        "log_p",
        "what a selection is rewarded with: log_p: the log probability of the target, "
        "as published, or with --relatedness-loss mse minus that loss; loss: minus the supervised "
        "loss, label smoothing included",
    )
    reward_baseline: ChoiceEnum(BASELINES) = flag(  # type: ignore[valid-type]
        "none",
        "what is subtracted from a sentence's reward: none, as published; running_mean "
        "of all earlier rewards; select_all: the reward that it would get with everything "
        "selected, at the cost of another forward pass",
    )
    select_all_updates: int = flag(1000, "first updates, in which every token is selected")
    policy_only_updates: int = flag(
        0, "updates after them, in which the selection alone is trained"
    )


@register_criterion("policy_gradient", dataclass=PolicyGradientConfig)
class PolicyGradientCriterion(SummingCriterion):
    """ReSAN's policy gradient (Shen et al. 2018, IJCAI, eq. 16-20) on top of another criterion.

    A sentence's reward is ``R = log p(target) - lambda * share``, and the policy's loss
    ``-(R - baseline) log p(selection)``, a mean over the sentences of a batch; several that are one
    example, such as a pair, have one reward, and the share is that of all of their tokens. The
    policy's loss reaches the samplers of the ReSA layers alone, and the supervised loss everything
    else: one optimizer moves both. First every token is selected, then, if asked for, only the
    policy is trained, then both.

    Raises:
        UserError: if a flag has a value that is not allowed.

    Differs:
        ``log p(target)`` is a mean over the sentence's target tokens, since the published tasks
        have one label a sentence; with several layers, log probabilities are added, and shares are
        their mean. ``--clip-norm`` sees both gradients together. Several batches of one update
        (``--update-freq``, several processes) count by their sample sizes, tokens mostly. In the
        authors' code each sentence of a pair has a reward and a share of its own, the samplers have
        an L2 term and an optimizer of their own.
    """

    def __init__(self, task: Any, cfg: PolicyGradientConfig) -> None:
        super().__init__(task)
        if not 0 <= cfg.selection_cost < math.inf:
            raise UserError(
                f"--selection-cost {cfg.selection_cost} is not allowed; it must be finite and at "
                "least 0"
            )
        self.name = str(cfg.supervised_criterion)
        if self.name == "task":
            self.name = getattr(task, "supervised_criterion", SUPERVISED[0])
        if cfg.l2 and not self.name.startswith("sentence_"):
            raise UserError(
                f"--l2 {cfg.l2} is for --task sentences, and {self.name} has no such term"
            )
        self.cfg = cfg
        self.supervised = CRITERION_REGISTRY[self.name].build_criterion(cfg, task)
        self.phases = PolicyPhases(cfg.select_all_updates, cfg.policy_only_updates)
        self.phases.follow(task)

    def forward(
        self, model: Any, sample: dict[str, Any], reduce: bool = True
    ) -> tuple[Tensor, int, dict[str, Any]]:
        """fairseq's hook: loss, sample size, what to log."""
        layers = [module for module in model.modules() if isinstance(module, ReSA)]
        if self.training:
            self.phases.prepare(layers)
        everything = self._with_everything(model, sample, layers)
        tokens, size, logged = self.supervised(model, sample, reduce=False)
        costs = self._costs(tokens, logged, sample)
        logged = {n: v.sum() if isinstance(v, Tensor) else v for n, v in logged.items()}
        sentences = len(sample["target"])
        each = tokens.view(sentences, -1).sum(1)
        policy, figures = self._policy(layers, costs, everything, sample)
        # fairseq divides by the sample size, which counts tokens: a mean over sentences is left.
        scaled = policy * (size / sentences)
        loss = each.sum()
        if self.training and self.phases.phase is Phase.POLICY:
            loss = 0.0 * loss
        if not self.training:
            # A trained model's selection is no sample, so that REINFORCE says nothing about it.
            figures.pop("policy_loss", None)
        logged |= {f"supervised_{self.name}": 1, **figures}
        return loss + scaled, size, logged

    def _with_everything(
        self, model: Any, sample: dict[str, Any], layers: list[ReSA]
    ) -> Tensor | None:
        """What ``_costs`` would be if every token were selected, ``(B,)``.

        How hard a sentence is moves its reward far more than a selection does; with this baseline
        only the selection is left. None where no policy is trained or another baseline is used.
        """
        wanted = self.training and str(self.cfg.reward_baseline) == "select_all"
        if not wanted or self.phases.phase is Phase.SUPERVISED:
            return None
        for layer in layers:
            layer.select_all = True
        with torch.no_grad():
            tokens, _, logged = self.supervised(model, sample, reduce=False)
        for layer in layers:
            layer.take_choice()
            layer.select_all = False
        return self._costs(tokens, logged, sample)

    def _costs(self, tokens: Tensor, logged: dict[str, Any], sample: dict[str, Any]) -> Tensor:
        """What a sentence loses of its reward, ``(B,)``: ``-log p(target)``, or its loss.

        Args:
            tokens: supervised loss of each token.
            logged: what the supervised criterion logs; its ``nll_loss``, if any, is of each token.
            sample: the batch.
        """
        if str(self.cfg.selection_reward) == "log_p":
            tokens = logged.get("nll_loss", tokens)
        elif "l2_loss" in logged:  # which no selection changes
            tokens = tokens - logged["l2_loss"] / max(logged["sample_size"], 1)
        return tokens.detach().view(len(sample["target"]), -1).sum(1).float()

    def _policy(
        self, layers: list[ReSA], costs: Tensor, everything: Tensor | None, sample: dict[str, Any]
    ) -> tuple[Tensor, dict[str, Any]]:
        """The policy's loss, a sum over sentences, and sums to log.

        Args:
            layers: the model's ReSA layers.
            costs: see ``_costs``.
            everything: the same if every token were selected, where that is the baseline.
            sample: the batch.
        """
        words = sample["target"].ne(self.supervised.padding_idx).view(len(costs), -1).sum(1)
        choices = [choice for layer in layers if (choice := layer.take_choice()) is not None]
        if not choices:  # all layers dropped; processes add up figures of the same names
            nothing = costs.new_zeros(())
            return nothing, dict.fromkeys(_LOGGED, nothing) | {_COUNT: 0}
        lengths = sample.get("lengths")
        heads, dependents = (
            torch.stack([_mean(choice[i].share, lengths, costs) for choice in choices]).mean(0)
            for i in (0, 1)
        )
        product = str(self.cfg.selection_penalty) == "product"
        share = heads * dependents if product else heads + dependents

        def reward_of(costs: Tensor, share: Tensor | float) -> Tensor:
            return -(costs / words.clamp_min(1) + self.cfg.selection_cost * share)  # eq. 17

        reward = reward_of(costs, share)
        log_p = torch.stack(
            [choice.log_probability.view(len(costs), -1).sum(1) for choice in choices]
        ).sum(0)
        baseline: Tensor | float
        if everything is None:
            baseline = self._baseline(layers, reward)
        else:
            baseline = reward_of(everything, 1.0 if product else 2.0)
        policy = -((reward - baseline) * log_p)  # eq. 19-20
        entropy = torch.stack(
            [_mean(s.entropy, lengths, costs) for choice in choices for s in choice]
        ).mean(0)
        sums = (reward, policy, heads, dependents, entropy)
        figures = {n: t.detach().sum() for n, t in zip(_LOGGED, sums, strict=True)}
        return policy.sum(), figures | {_COUNT: len(costs)}

    def _baseline(self, layers: list[ReSA], reward: Tensor) -> float:
        """What to subtract from the rewards; moves on while training.

        It holds earlier rewards alone, and is 0 before there are any: a mean that contains a
        sentence's own reward takes a share of its gradient, all of it in a batch of one.

        The layers keep it, since fairseq restores neither a criterion nor a task. Each process has
        a mean of its own; a resumed run starts all with the first one's.
        """
        if str(self.cfg.reward_baseline) != "running_mean":
            return 0.0
        known = layers[0].reward_mean
        if self.training:
            mean = reward.mean().item()
            for layer in layers:
                layer.reward_mean = mean if known is None else _KEPT * known + (1 - _KEPT) * mean
        return 0.0 if known is None else known

    @staticmethod
    def reduce_metrics(logging_outputs: list[dict[str, Any]]) -> None:
        """Log the supervised criterion's figures, and the policy's as means over sentences."""
        for name in SUPERVISED:
            if any(f"supervised_{name}" in log for log in logging_outputs):
                CRITERION_REGISTRY[name].reduce_metrics(logging_outputs)
        if sum(log.get(_COUNT, 0) for log in logging_outputs):
            for name in _LOGGED:
                log_mean(logging_outputs, name, over=_COUNT)


def _mean(values: Tensor, lengths: Tensor | None, costs: Tensor) -> Tensor:
    """Values of the sentences that a layer read, as means over the tokens of each example.

    Args:
        values: ``(B,)``, or ``(B * S,)`` where an example has S sentences, or fewer of them, as
            those after a question.
        lengths: tokens of all sentences of each example ``(B, ...)``, from ``--task sentences``.
        costs: anything of each example, ``(B,)``.

    Returns:
        ``(B,)``.
    """
    if len(values) == len(costs) or lengths is None:
        return values
    values = values.view(len(costs), -1)
    tokens = lengths[:, -values.shape[1] :]
    return (values * tokens).sum(1) / tokens.sum(1).clamp_min(1)
