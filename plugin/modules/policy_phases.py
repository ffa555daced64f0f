"""When to train the selections of ReSA, and when the rest of the model."""

from collections.abc import Sequence
from enum import Enum
from typing import Any

import torch

from selfattn.errors import UserError, check_integer
from selfattn.layers import ReSA


class Phase(Enum):
    """What an update trains."""

    SUPERVISED = "all but the selection; every token is selected"
    POLICY = "only the selection"
    JOINT = "everything"


class PolicyPhases:
    """The phase of an update, as the layers and the optimizer need it; lengths are in updates.

    Raises:
        UserError: if one of them is negative.

    Attributes:
        phase: that of the current update.
    """

    def __init__(self, select_all: int, policy_only: int) -> None:
        self.select_all = check_integer("--select-all-updates", select_all, 0)
        self.policy_only = check_integer("--policy-only-updates", policy_only, 0)
        self.at(0)

    def follow(self, task: Any) -> None:
        """Wrap the hooks of ``task``, since fairseq tells a criterion nothing about updates."""
        begin_epoch, train_step, step = task.begin_epoch, task.train_step, task.optimizer_step

        def begin(epoch: int, model: Any) -> None:
            self.check(model)
            begin_epoch(epoch, model)

        def train(
            sample: Any, model: Any, criterion: Any, optimizer: Any, update_num: int, *more: Any,
            **named: Any,
        ) -> Any:  # fmt: skip
            self.at(update_num)
            return train_step(sample, model, criterion, optimizer, update_num, *more, **named)

        def freeze_and_step(optimizer: Any, model: Any, update_num: int) -> None:
            self.freeze(model)
            step(optimizer, model, update_num)

        task.begin_epoch, task.train_step, task.optimizer_step = begin, train, freeze_and_step

    def at(self, update: int) -> None:
        """Enter the phase that follows ``update`` updates."""
        if update < self.select_all:
            self.phase = Phase.SUPERVISED
        elif update < self.select_all + self.policy_only:
            self.phase = Phase.POLICY
        else:
            self.phase = Phase.JOINT

    def prepare(self, layers: Sequence[ReSA]) -> None:
        """Prepare ``layers`` for a forward pass of training."""
        for layer in layers:
            layer.select_all = self.phase is Phase.SUPERVISED
            layer.has_policy = True
            layer.take_choice()  # of a generation (--eval-bleu), if --encoder-layerdrop comes next

    def freeze(self, model: torch.nn.Module) -> None:
        """Drop the zero gradients of fixed weights of ``model``, which momentum could move."""
        if self.phase is Phase.JOINT:
            return
        policy = {id(p) for layer in _layers(model) for p in layer.policy_parameters()}
        for parameter in model.parameters():
            if (id(parameter) in policy) == (self.phase is Phase.SUPERVISED):
                parameter.grad = None

    def check(self, model: Any) -> None:
        """Refuse a ``model`` for which training would be silently wrong.

        Raises:
            UserError: if the model selects nothing, runs its forward pass twice, or has parameters
                that the optimizer copies.
        """
        layers = _layers(model)
        if not layers:
            raise UserError(
                "--criterion policy_gradient trains the selections of --encoder-attention "
                "resa (of sentences: --context resa), and this model has none; give it that, or "
                "another criterion"
            )
        if not any(layer.policy_parameters() for layer in layers):
            raise UserError(
                "--criterion policy_gradient trains samplers, and --resa-sampler none has none; "
                "leave the criterion out, or give --resa-sampler parallel or iterative"
            )
        if getattr(getattr(model, "args", None), "checkpoint_activations", False):
            raise UserError(
                "--checkpoint-activations does not work with --criterion policy_gradient: the "
                "second forward pass would select anew; leave it out"
            )
        half = any(p.dtype in (torch.float16, torch.bfloat16) for p in model.parameters())
        if half and self.policy_only:
            raise UserError(
                f"--policy-only-updates {self.policy_only} needs parameters in float32, which "
                "--fp16 and --bf16 do not keep; use --amp"
            )


def _layers(model: torch.nn.Module) -> list[ReSA]:
    return [module for module in model.modules() if isinstance(module, ReSA)]
