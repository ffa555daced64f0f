"""Make ``--fp16``, ``--bf16`` and ``--amp`` do what they say, or say why they cannot."""

import importlib.util
import logging
from argparse import Namespace

import torch

from selfattn.errors import UserError

from ._patch import check_flags

logger = logging.getLogger(__name__)


@check_flags
def check_precision(flags: Namespace) -> None:
    """Check the precision flags as soon as they are parsed.

    Break 1: fairseq/options.py, parse_args_and_arch, takes ``--bf16`` for a TPU and fails without
    torch_xla, though its trainer handles bfloat16 on every device. Fix: no TPU without torch_xla.
    Break 2: fairseq/optim/fp16_optimizer.py needs CUDA for ``--fp16`` and fails with a traceback.
    Fix: refuse it, and ``--tpu`` without torch_xla. Break 3: torch switches ``--amp`` off without
    CUDA. Fix: one clear warning.
    """
    if getattr(flags, "tpu", False) and importlib.util.find_spec("torch_xla") is None:
        if not flags.bf16:
            raise UserError("--tpu needs torch_xla, which is not installed; leave the flag out")
        flags.tpu = False
    on_cpu = getattr(flags, "cpu", False) or not torch.cuda.is_available()
    if not on_cpu or not hasattr(flags, "lr"):  # only fairseq-train has a learning rate
        return
    if getattr(flags, "fp16", False):
        why = "--cpu is set" if flags.cpu else "PyTorch finds none"
        name = "--memory-efficient-fp16" if flags.memory_efficient_fp16 else "--fp16"
        instead = name.replace("fp16", "bf16")
        raise UserError(f"{name} needs a GPU, but {why}: leave it out (float32), or use {instead}")
    if getattr(flags, "amp", False):
        logger.warning("--amp has no effect without a GPU: training runs in float32")
