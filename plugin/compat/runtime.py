"""Small incompatibilities of fairseq with today's torch and numpy, and its noise."""

import contextlib
import ctypes
import logging
import os
import types
import warnings
from typing import Any

import numpy as np
import torch
from fairseq.logging import progress_bar
from fairseq.models import distributed_fairseq_model
from fairseq.models.ema.ema import EMA
from fairseq.modules import LayerDropModuleList
from fairseq.optim import FairseqOptimizer
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask
from fairseq.trainer import Trainer

from selfattn_tasks.checkpoints import is_weight

from ._patch import wrap

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # in malloc.h
# Harmless warnings.
for _message in (
    r"(?s)\s*hydra\.experimental\.\w+\(\) is no longer experimental",
    r"(?s)\s*The version_base parameter is not specified",
    r"(?s)\s*In '\w+': Usage of deprecated keyword in package header",
    r"(?s)\s*'\w+' is validated against ConfigStore schema",
    r"(?s)\s*The strict flag in the compose API is deprecated",
    r"'pin_memory' argument is set as true but no accelerator",
    r"`torch\.cuda\.amp\.autocast",
    r"`torch\.cuda\.amp\.GradScaler",
    r"torch\.cuda\.amp\.GradScaler is enabled",  # `--amp` on a CPU; precision.py says so
    r"CUDA is not available or torch_xla",
    r"`broadcast_buffers` is deprecated",
    r"Support for mismatched key_padding_mask and attn_mask",
):
    warnings.filterwarnings("ignore", message=_message)


@wrap(TranslationFromPretrainedBARTTask, "__init__")
def keep_flags(original: Any, self: Any, args: Any, *more: Any, **named: Any) -> None:
    """Let ``--task translation_from_pretrained_bart`` read its data.

    Break: fairseq/tasks/translation_from_pretrained_bart.py looks for its flags in ``self.args``,
    which the constructor no longer sets. Fix: set it.
    """
    original(self, args, *more, **named)
    self.args = args


@wrap(distributed_fairseq_model, "DistributedDataParallel")
def allow_ddp_on_cpu(original: Any, module: Any, **kwargs: Any) -> Any:
    """Let ``--ddp-backend pytorch_ddp`` (the default) wrap a model on the CPU.

    Break: fairseq/models/distributed_fairseq_model.py always passes ``device_ids=[device_id]``,
    which torch refuses for CPU parameters. Fix: pass None for them.
    """
    if next(module.parameters()).device.type == "cpu":
        kwargs.update(device_ids=None, output_device=None)
    return original(module=module, **kwargs)


@wrap(distributed_fairseq_model, "DistributedDataParallel")
def find_dropped_layers(original: Any, module: Any, **kwargs: Any) -> Any:
    """Let several processes train a model with ``--encoder-layerdrop`` or ``--decoder-layerdrop``.

    Break: torch's DistributedDataParallel waits for the gradients of dropped layers. Fix: for such
    a model, do as with ``--find-unused-parameters``.
    """
    if any(isinstance(part, LayerDropModuleList) and part.p for part in module.modules()):
        kwargs["find_unused_parameters"] = True
    return original(module=module, **kwargs)


@wrap(Trainer, "__init__")
def keep_freed_memory(original: Any, self: Trainer, cfg: Any, *args: Any, **kwargs: Any) -> None:
    """Reuse the memory of large tensors when training on a CPU.

    Break: glibc gives a tensor of more than 32 MiB back to the system, which clears its pages when
    the next one is made: with a vocabulary of 10,000 a quarter of the time of an update goes there.
    Fix: tell malloc to keep what is freed, if the environment does not set it up otherwise. The
    process then holds its memory until it ends, in that example a third more at its peak.
    """
    original(self, cfg, *args, **kwargs)
    if self.cuda or {"MALLOC_MMAP_MAX_", "MALLOC_TRIM_THRESHOLD_"} & set(os.environ):
        return
    with contextlib.suppress(AttributeError, OSError, TypeError):  # a system without glibc
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


@wrap(FairseqOptimizer, "step")
def flush_tiny_moments(original: Any, self: FairseqOptimizer, *args: Any, **kwargs: Any) -> None:
    """Let an optimizer on a CPU take numbers below 1.2e-38 for 0, as TensorFlow does.

    Break: Adam's first moment of a word that no batch has had for 800 updates is subnormal, and
    arithmetic with such numbers is some ten times slower: half of the time of an update goes there
    if the vocabulary is large and the model small. Fix: flush them while the optimizer steps. With
    an eps of 1e-8, no weight differs by more than 1e-30 after it; forward and backward keep them.
    The flag is a thread's own: what PyTorch's other threads step keeps its subnormal moments.
    """
    on_cpu = next(iter(self.params)).device.type == "cpu"
    if not on_cpu or torch.tensor(torch.finfo(torch.float32).tiny) * 0.5 == 0:  # flushed anyway
        return original(self, *args, **kwargs)
    torch.set_flush_denormal(True)
    try:
        return original(self, *args, **kwargs)
    finally:
        torch.set_flush_denormal(False)


@wrap(EMA, "__init__")
def average_weights_alone(original: Any, self: EMA, model: Any, *args: Any, **kwargs: Any) -> None:
    """Let ``--store-ema`` copy what modules store beside their weights.

    Break: fairseq/models/ema/ema.py averages it, too: ReSA's "select every token" stays in the
    averaged model for good, and what is no floating-point number ends in a RuntimeError. Fix: the
    average has the newest.
    """
    original(self, model, *args, **kwargs)
    stored = {name for name in model.state_dict() if not is_weight(name)}
    self.skip_keys = stored.union(self.skip_keys)


@wrap(EMA, "_step_internal")
def average_shared_weights_once(
    original: Any, self: EMA, new_model: Any, updates: int | None = None
) -> None:
    """Let ``--store-ema`` average weights with several names as slowly as the others.

    Break: fairseq/models/ema/ema.py averages each name, so with ``--share-all-embeddings`` the
    decay of the embeddings is the third power of ``--ema-decay``. Fix: one name for each.
    """
    state = new_model.state_dict()
    names = dict(new_model.named_parameters(remove_duplicate=False)).keys()
    for name in names - dict(new_model.named_parameters()).keys():
        state.pop(name, None)
    original(self, types.SimpleNamespace(state_dict=lambda: state), updates)


@wrap(EMA, "step")
def average_in_rhythm(original: Any, self: EMA, new_model: Any, updates: int | None = None) -> None:
    """Let a resumed run with ``--ema-update-freq`` average when an uninterrupted one would.

    Break: fairseq/models/ema/ema.py counts from the resumption. Fix: from the first update.
    """
    if updates is not None:
        self.update_freq_counter = (updates - 1) % max(self.config.ema_update_freq, 1)
    original(self, new_model, updates)


# numpy 2 has no np.compat.long, which fairseq/data/token_block_dataset.py and
# language_pair_dataset.py use; it was int.
if not hasattr(np, "compat"):
    np.compat = types.SimpleNamespace(long=int)  # type: ignore[attr-defined]


@wrap(progress_bar, "progress_bar")
def log_each_line_once(
    original: Any, *args: Any, log_file: str | None = None, **kwargs: Any
) -> Any:
    """Write each line of ``--log-file`` once.

    Break: fairseq/logging/progress_bar.py adds a handler for every epoch, so the lines of the tenth
    appear ten times. Fix: add only one handler per file.
    """
    handlers = progress_bar.logger.handlers
    files = [h.baseFilename for h in handlers if isinstance(h, logging.FileHandler)]
    if log_file is not None and os.path.abspath(log_file) in files:
        log_file = None
    return original(*args, log_file=log_file, **kwargs)


def restore_log_level() -> None:
    """Set the log level to LOGLEVEL, as fairseq's commands read it, or INFO.

    Break: fairseq/models/wav2vec/wav2vec2_classification.py sets the root logger to DEBUG when it
    is imported, so every command but fairseq-train logs other packages' debug lines. Any other
    level is somebody's own: that of a notebook, or WARNING, which fairseq gives all processes of a
    run but the first.
    """
    root = logging.getLogger()
    if root.level == logging.DEBUG:
        root.setLevel(os.environ.get("LOGLEVEL", "INFO").upper())


restore_log_level()
