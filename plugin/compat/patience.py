"""When training ends: an interruption forgets no best validation, and NaN never is one."""

import logging
import math
import sys
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from ._patch import wrap

logger = logging.getLogger(__name__)
KEY = "selfattn_patience"


@wrap(Trainer, "save_checkpoint")
def remember_patience(
    original: Any, self: Trainer, filename: str, extra_state: dict[str, Any]
) -> Any:
    """Store in each checkpoint for how long nothing has improved.

    Break: fairseq_cli/train.py, should_stop_early, counts in its own attributes, so that a resumed
    run takes its first validation for the best so far. Fix: keep them in the checkpoint.
    """
    return original(self, filename, {**extra_state, KEY: _counted()})


@wrap(Trainer, "load_checkpoint")
def restore_patience(
    original: Any,
    self: Trainer,
    filename: str,
    reset_optimizer: bool = False,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Restore the counts, where fairseq restores the best score."""
    state = original(self, filename, reset_optimizer, *args, **kwargs)
    if state and not (reset_optimizer or kwargs.get("reset_meters")):
        _counted().update(state.get(KEY, {}))
        _stay_stopped(self, filename)
    return state


def _stay_stopped(trainer: Trainer, filename: str) -> None:
    """Do not train on what has stopped: train.py's loop, whose end this is, never begins.

    Break: it asks for --max-update and --stop-time-hours after each update, so it makes one more.
    """
    own, limits = trainer.cfg.checkpoint, trainer.cfg.optimization
    anew = own.reset_dataloader or own.reset_lr_scheduler
    if anew or Path(filename).resolve().parent != Path(own.save_dir).resolve():
        return
    advice = "raise it"
    if 0 < own.patience <= _counted().get("num_runs", 0):
        reached = f"--patience {own.patience} has run out"
        advice += ", or give --reset-meters"
    elif 0 < limits.max_update <= trainer.get_num_updates():
        reached = f"--max-update {limits.max_update} is reached"
    elif 0 < limits.stop_time_hours < trainer.cumulative_training_time() / 3600:
        reached = f"--stop-time-hours {limits.stop_time_hours:g} have passed"
    else:
        return
    logger.info(f"{reached} in {filename}, so nothing is left to do; to train on, {advice}")
    limits.max_epoch = -1


@wrap(checkpoint_utils, "save_checkpoint")
def skip_nan(
    original: Any, cfg: Any, trainer: Trainer, epoch_itr: Any, val_loss: float | None
) -> Any:
    """Take a validation whose score is NaN for none at all.

    Break: fairseq/checkpoint_utils.py, save_checkpoint, keeps ``max(score, best)``, which is NaN
    once a score is, and then the next score: a worse checkpoint_best.pt replaces a better one. In
    should_stop_early no score is better than a first NaN. Fix: hand on no score.
    """
    if val_loss is not None and math.isnan(val_loss):
        val_loss = None
        if math.isnan(_counted().get("best", 0.0)):
            del _counted()["best"]
    return original(cfg, trainer, epoch_itr, val_loss)


@wrap(checkpoint_utils, "checkpoint_paths")
def find_negative_scores(original: Any, path: str, pattern: str, *args: Any, **kwargs: Any) -> Any:
    r"""Let ``--keep-best-checkpoints`` find those whose score is below 0, as a reward is.

    Break: fairseq/checkpoint_utils.py, save_checkpoint, looks for ``\d+`` in their names: it keeps
    each that was the best once, and none of those that follow it. Fix: allow a sign.
    """
    return original(path, pattern.replace(r"(\d+\.", r"(-?\d+\."), *args, **kwargs)


def _counted() -> dict[str, Any]:
    """The best validation so far, and the number of those since; empty without ``--patience``."""
    modules = (sys.modules.get(name) for name in ("__main__", "fairseq_cli.train"))
    found = (getattr(module, "should_stop_early", None) for module in modules)
    return next((vars(function) for function in found if function), {})
