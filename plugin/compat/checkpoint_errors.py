"""One sentence for a checkpoint that is missing, broken or of another model."""

import inspect
import logging
import os
from argparse import Namespace
from typing import Any

import torch
from fairseq import checkpoint_utils, utils
from fairseq.file_io import PathManager
from fairseq.models import BaseFairseqModel, FairseqLanguageModel
from fairseq.trainer import Trainer

from selfattn.config import CONFIGS
from selfattn.errors import UserError
from selfattn_tasks import checkpoints
from selfattn_tasks.cli import option

from ..args import BASELINE, store_switches
from . import vocabulary, warm_start
from ._patch import wrap

logger = logging.getLogger(__name__)


class _Reading:
    """The checkpoint that this process is reading, for messages."""

    path: str = "the checkpoint"
    flags: dict[str, Any] = {}
    trainer: Any = None


@wrap(checkpoint_utils, "load_checkpoint_to_cpu")
def explain_file(original: Any, path: str, *args: Any, **kwargs: Any) -> Any:
    """Say why a file cannot be read.

    Break: fairseq/checkpoint_utils.py lets torch's errors through. Fix: one sentence.
    """
    _Reading.path = path
    with checkpoints.explain_reading(PathManager.get_local_path(path)):
        return original(path, *args, **kwargs)


@wrap(checkpoint_utils, "_upgrade_state_dict")
def check_checkpoint(original: Any, state: Any) -> Any:
    """Check what was read, before fairseq changes it or uses any of it.

    Break: weights of another task, criterion or switch end in a traceback, or load and are wrong.
    """
    checkpoints.check_content(state, _Reading.path)
    _Reading.flags = checkpoints.flags(state)
    if _Reading.trainer is not None:
        task = _Reading.trainer.task
        task_state = state.get("task_state") or {}
        if warm_start.takes_what_fits(_Reading.trainer.get_model()):
            warm_start.saw(state)
            if hasattr(task, "check_start"):
                task.check_start(task_state, _Reading.path)
        elif hasattr(task, "check_state"):  # fairseq gives it to no task that resumes
            task.check_state(task_state, _Reading.path)
        vocabulary.check(task, task_state, _Reading.path)
        _check_flags(_Reading.trainer.cfg)
        _check_criterion(_Reading.trainer, state)
        _start_average(_Reading.trainer.cfg, state)
    return original(state)


def stored_flag(value: str) -> str | None:
    """The only flag with ``value`` in the checkpoint that was read last, if there is one."""
    names = [name for name, stored in _Reading.flags.items() if stored == value]
    if len(names) != 1:
        return None
    return f"{option(names[0])} in the checkpoint {_Reading.path}"


def _check_flags(cfg: Any) -> None:
    """Compare the flags that decide what weights mean with those of the checkpoint.

    Weights of the right shapes would load under other switches and be silently wrong. A new
    run from old weights may intend that, and gets a warning.
    """
    other = _other_flags(checkpoints.model_flags({"args": cfg.model}))
    if not other:
        return
    message = f"{other} in the checkpoint {_Reading.path}"
    if cfg.checkpoint.reset_optimizer or warm_start.is_starting():
        logger.warning("%s: the weights may not mean the same here", message)
    else:
        raise UserError(f"{message}: use the flags it was trained with, or another --save-dir")


def _check_criterion(trainer: Trainer, state: Any) -> None:
    """Check that a checkpoint has weights of the criterion if and only if this run does."""
    stored, ours = bool(state.get("criterion")), utils.has_parameters(trainer.get_criterion())
    if stored == ours or warm_start.is_starting():
        return
    there, here = ("with", "leaves it out") if stored else ("without", "gives it")
    raise UserError(
        f"{_Reading.path} was trained {there} weights of its criterion (--scaffold), but this "
        f"command {here}; use the flags it was trained with, or start a new run from it with "
        "--finetune-from-model"
    )


def _start_average(cfg: Any, state: dict[str, Any]) -> None:
    """Let a run that is resumed with --store-ema start the average from its weights.

    Break: fairseq/trainer.py, load_checkpoint, looks for them after it has dropped them.
    """
    extra = state.get("extra_state") or {}
    if cfg.ema.store_ema and "ema" not in extra and not warm_start.is_starting():
        logger.warning("%s has no average: it starts from the weights there", _Reading.path)
        extra["ema"] = dict(state["model"])


def _other_flags(flags: dict[str, Any]) -> str:
    """Up to three flags that differ from those of the checkpoint that was read last."""
    flags, stored = _with_switches(flags), _with_switches(_Reading.flags)
    found = [
        f"{option(name)} is {value} here and {stored[name]}"
        for name, value in sorted(flags.items())
        if name in stored and value != stored[name]
    ]
    return ", ".join(found[:3])


def _with_switches(flags: dict[str, Any]) -> dict[str, Any]:
    """Flags with the switches of the baseline, which stores none if none is given."""
    plain = Namespace()
    if flags.get("encoder_attention") == BASELINE:
        store_switches(plain, CONFIGS[BASELINE].make())
    return {**vars(plain), **flags}


@wrap(checkpoint_utils, "load_model_ensemble_and_task")
def check_paths(original: Any, filenames: Any, *args: Any, **kwargs: Any) -> Any:
    """Say that ``--path`` names no file, or the same weights twice.

    Break: fairseq/checkpoint_utils.py raises an error below a traceback, or counts them twice.
    """
    call = inspect.signature(original).bind(filenames, *args, **kwargs)
    call.apply_defaults()
    shards = call.arguments["num_shards"]
    # Sharded checkpoints have other names than --path says.
    if not call.arguments["suffix"] and shards == 1:
        for filename in filenames:
            if os.path.isdir(filename):
                best = os.path.join(filename, "checkpoint_best.pt")
                raise UserError(f"--path {filename} is a folder; give a file in it, such as {best}")
            if not PathManager.isfile(filename):
                raise UserError(f"the checkpoint {filename} does not exist")
    try:
        found = original(filenames, *args, **kwargs)
    except OSError as error:
        if shards == 1:
            raise
        raise UserError(
            f"--checkpoint-shard-count {shards} does not fit --path: {error}"
        ) from error
    if len(filenames) > 1:
        seen = checkpoints.Distinct()
        for model, filename in zip(found[0], filenames, strict=True):
            seen.add(model.state_dict(), filename)
    return found


@wrap(checkpoint_utils, "load_model_ensemble")
def check_language_model(original: Any, filenames: Any, *args: Any, **kwargs: Any) -> Any:
    """Say that ``--lm-path`` names another model than one of language.

    Break: fairseq_cli/generate.py, the only one to load models of no task, ends in a traceback in
    the first batch.
    """
    found = original(filenames, *args, **kwargs)
    for model in found[0] if kwargs.get("task", found) is None else ():
        if not isinstance(model, FairseqLanguageModel):
            kind = type(model).__name__
            raise UserError(f"--lm-path {filenames[0]} holds {kind}, which is no language model")
    return found


@wrap(Trainer, "load_checkpoint")
def explain_resuming(original: Any, self: Trainer, filename: str, *args: Any, **kwargs: Any) -> Any:
    """Say why a run cannot resume from a checkpoint.

    Break: fairseq/trainer.py replaces whatever happened by "please ensure that the architectures
    match" below a traceback, and trains from scratch where a named file is missing. Fix: the error
    itself.
    """
    flag, wanted = "--restore-file", self.cfg.checkpoint.restore_file
    if filename == self.cfg.checkpoint.continue_once:
        flag, wanted = "--continue-once", filename
    if wanted != "checkpoint_last.pt" and not PathManager.isfile(filename):
        raise UserError(f"{flag} {wanted} does not exist")
    _Reading.trainer = self
    try:
        return original(self, filename, *args, **kwargs)
    except UserError:
        raise
    except Exception as error:
        if isinstance(error.__context__, UserError):
            raise error.__context__ from None
        if "does not match; please reset the optimizer" in str(error):  # an assertion
            raise UserError(f"cannot resume from {filename}: {error}") from error
        raise
    finally:
        _Reading.trainer = None


@wrap(BaseFairseqModel, "load_state_dict")
def explain_weights(
    original: Any,
    self: BaseFairseqModel,
    state_dict: dict[str, torch.Tensor],
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Say how a checkpoint's weights differ from the model.

    Break: torch lists them all, below a traceback. Fix: what decides, in one sentence.
    """
    try:
        return original(self, state_dict, *args, **kwargs)
    except RuntimeError as error:
        if "Error(s) in loading state_dict" not in str(error):
            raise
        raise UserError(_differences(self, state_dict, kwargs.get("model_cfg"))) from error


def _differences(model: BaseFairseqModel, state: dict[str, torch.Tensor], cfg: Any) -> str:
    """Say how a checkpoint's weights differ from a model, in the most helpful way."""
    advice = f"use the flags it was trained with{warm_start.advice(model)}"
    own = model.state_dict()
    shapes = {
        name: (tuple(state[name].shape), tuple(own[name].shape))
        for name in own
        if name in state and state[name].shape != own[name].shape
    }
    start = f"the checkpoint {_Reading.path} is of another architecture than this model: "
    for name, (stored, wanted) in shapes.items():
        if name.endswith(("embed_tokens.weight", "output_projection.weight")) and (
            stored[1:] == wanted[1:]
        ):
            return (
                f"the vocabulary does not match the checkpoint {_Reading.path}: {name} has "
                f"{stored[0]} entries there, and the data's dictionary has {wanted[0]}"
            )
    flags = checkpoints.model_flags({"args": cfg}) if cfg is not None else {}
    other = _other_flags(flags)
    if other:
        return f"{start}{other} there; {advice}"
    if shapes:
        name, (stored, wanted) = next(iter(shapes.items()))
        detail = f"{name} has shape {stored} there and {wanted} here"
    else:
        missing, extra = sorted(set(own) - set(state)), sorted(set(state) - set(own))
        detail = f"it has no {missing[0]}" if missing else f"it has {extra[0]}, unknown here"
    return f"{start}{detail}; {advice}"
