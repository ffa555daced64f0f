"""Make several processes train one model, or say why they cannot."""

import os
from collections.abc import Callable
from typing import Any

import torch
from fairseq.distributed import utils as distributed_utils

from selfattn.errors import UserError

from ._patch import wrap

# What torchrun tells each process that it starts.
_FROM_TORCHRUN = {
    "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "TORCHELASTIC_RUN_ID",
}  # fmt: skip
_SLURM = {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}


@wrap(distributed_utils, "call_main")
def join_processes(original: Any, cfg: Any, main: Callable[..., Any], **kwargs: Any) -> Any:
    """Join the group that torchrun made, and refuse what would train nothing.

    Break 1: fairseq/distributed/utils.py, infer_init_method, reads torchrun's variables only if
    this host has more than one GPU; otherwise each process trains its own model, all in the same
    folder. Break 2: call_main starts one process per GPU, so none on a CPU, and exits with 0, or
    with a traceback if it was to find out how they meet. Break 3: the default backend, nccl, needs
    GPUs. Fix: join, refuse, take gloo.
    """
    training = cfg.distributed_training
    if training.distributed_init_method is None:
        _join_torchrun(training)
    if not (cfg.common.tpu or (torch.cuda.is_available() and not cfg.common.cpu)):
        _prepare_cpu(training)
    return original(cfg, main, **kwargs)


def _prepare_cpu(training: Any) -> None:
    if training.distributed_init_method is None:
        # With a port they may be SLURM's; otherwise fairseq would start them.
        by_slurm = training.distributed_port > 0 and _SLURM & os.environ.keys()
        if training.distributed_world_size != 1 and not by_slurm:
            raise UserError(
                f"--distributed-world-size {training.distributed_world_size} (default: the "
                "number of GPUs) starts one process for each GPU, and this is a CPU: give "
                "--distributed-world-size 1, or use torchrun"
            )
    elif not training.distributed_no_spawn:
        raise UserError(
            f"--distributed-init-method {training.distributed_init_method} starts one process "
            "for each GPU, and this is a CPU: add --distributed-no-spawn and start each "
            "process yourself with its --distributed-rank, or use torchrun"
        )
    elif training.distributed_backend == "nccl":
        training.distributed_backend = "gloo"


def _join_torchrun(training: Any) -> None:
    if not os.environ.keys() >= _FROM_TORCHRUN or os.environ["WORLD_SIZE"] == "1":
        return
    training.distributed_init_method = "env://"
    training.distributed_world_size = int(os.environ["WORLD_SIZE"])
    training.distributed_rank = int(os.environ["RANK"])
    training.device_id = int(os.environ["LOCAL_RANK"])
    training.distributed_no_spawn = True
