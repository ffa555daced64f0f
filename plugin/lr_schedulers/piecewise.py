"""``--lr-scheduler piecewise``: a learning rate that changes after given updates."""

import math
from dataclasses import dataclass
from typing import Any

from fairseq.dataclass import FairseqDataclass
from fairseq.optim.lr_scheduler import FairseqLRScheduler, register_lr_scheduler
from omegaconf import II

from selfattn.errors import UserError

from .._flags import flag


@dataclass
class PiecewiseConfig(FairseqDataclass):
    """Flags of the schedule."""

    lr_boundaries: str = flag(
        "400000,500000", "updates at which the learning rate is multiplied, comma-separated"
    )
    lr_factor: float = flag(0.5, "what the learning rate is multiplied by")
    lr: Any = II("optimization.lr")


@register_lr_scheduler("piecewise", dataclass=PiecewiseConfig)
class PiecewiseSchedule(FairseqLRScheduler):
    """The published schedule for SRL: 1.0, then 0.5 from update 400,000, 0.25 from 500,000.

    Raises:
        UserError: if there are several rates, the boundaries are not increasing numbers or the
            factor is not above 0.
    """

    def __init__(self, cfg: Any, optimizer: Any) -> None:
        super().__init__(cfg, optimizer)
        if len(cfg.lr) > 1:
            raise UserError(
                f"--lr {','.join(map(str, cfg.lr))} is not allowed with --lr-scheduler piecewise, "
                "which takes the first rate alone; the others follow from --lr-factor"
            )
        try:
            self.boundaries = [int(text) for text in cfg.lr_boundaries.split(",") if text.strip()]
        except ValueError:
            self.boundaries = [0]
        growing = all(a < b for a, b in zip([0, *self.boundaries], self.boundaries, strict=False))
        if not growing:
            raise UserError(
                f"--lr-boundaries {cfg.lr_boundaries!r} is not allowed; they must be increasing "
                "numbers of updates, as in 400000,500000"
            )
        if not 0 < cfg.lr_factor < math.inf:
            raise UserError(
                f"--lr-factor {cfg.lr_factor} is not allowed; it must be finite and above 0"
            )
        self.step_update(0)

    def step_update(self, num_updates: int) -> float:
        """Set the learning rate for the update after ``num_updates``."""
        passed = sum(num_updates >= boundary for boundary in self.boundaries)
        rate = float(self.cfg.lr[0]) * float(self.cfg.lr_factor) ** passed
        self.optimizer.set_lr(rate)
        return rate
