"""The best validation so far: an interruption does not forget it, and NaN never is one."""

import math
import sys
from typing import Any

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from ._patch import wrap

KEY = "selfattn_patience"


def remember_patience() -> None:
    """Store in each checkpoint how long the training has not improved.

    Break: fairseq_cli/train.py, should_stop_early, counts in its own attributes, so that a resumed
    training takes its first validation for the best so far. Fix: keep them in the checkpoint.
    """

    @wrap(Trainer, "save_checkpoint")
    def save_checkpoint(
        original: Any, self: Trainer, filename: str, extra_state: dict[str, Any]
    ) -> Any:
        return original(self, filename, {**extra_state, KEY: _counted()})

    @wrap(Trainer, "load_checkpoint")
    def load_checkpoint(
        original: Any,
        self: Trainer,
        filename: str,
        reset_optimizer: bool = False,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        state = original(self, filename, reset_optimizer, *args, **kwargs)
        # As fairseq with the best score.
        if state and not (reset_optimizer or kwargs.get("reset_meters")):
            _counted().update(state.get(KEY, {}))
        return state


def skip_nan() -> None:
    """Take a validation whose score is NaN for none at all.

    Break: fairseq/checkpoint_utils.py, save_checkpoint, keeps ``max(score, best)``, which is NaN
    once a score is, and then the next score: a worse checkpoint_best.pt replaces a better one. In
    should_stop_early no score is better than a first NaN. Fix: hand on no score.
    """

    @wrap(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(
        original: Any, cfg: Any, trainer: Trainer, epoch_itr: Any, val_loss: float | None
    ) -> Any:
        if val_loss is not None and math.isnan(val_loss):
            val_loss = None
            if math.isnan(_counted().get("best", 0.0)):
                del _counted()["best"]
        return original(cfg, trainer, epoch_itr, val_loss)


def _counted() -> dict[str, Any]:
    """The best validation so far, and the number of those since; empty without ``--patience``."""
    modules = (sys.modules.get(name) for name in ("__main__", "fairseq_cli.train"))
    found = (getattr(module, "should_stop_early", None) for module in modules)
    return next((vars(function) for function in found if function), {})
