"""Where runs can be trained in parallel: GPUs, or shares of the CPU's cores."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from selfattn.errors import UserError

from ...process import frugal

# How a GPU's name begins; -1 and NoDevFiles, which is SLURM's word, stand for none.
_NAMES = (*"0123456789", "GPU-", "MIG-")


@dataclass(frozen=True)
class Slot:
    """A place for one run."""

    gpus: tuple[str, ...] = ()  # as in CUDA_VISIBLE_DEVICES; none for a CPU
    threads: int | None = None  # of each process; None leaves it to the user's environment

    def environment(self) -> dict[str, str]:
        """What the run's processes add to the environment."""
        # fairseq's INFO lines are where the runner reads what training did.
        added = {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", "LOGLEVEL": "INFO"}
        added["CUDA_VISIBLE_DEVICES"] = ",".join(self.gpus)
        if self.threads is not None:
            added["OMP_NUM_THREADS"] = str(self.threads)
        if not self.gpus:
            added |= frugal()
        return added


def visible_gpus(count: int, environment: Mapping[str, str] = os.environ) -> list[str]:
    """Numbers or UUIDs of the GPUs that a process may use, of which torch finds ``count``."""
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    if listed is None:
        return [str(number) for number in range(count)]
    return [name.strip() for name in listed.split(",")][:count]


def gpu_slots(
    gpus: Sequence[str], gpus_per_run: int, runs_per_gpu: int, threads: int | None
) -> list[Slot]:
    """Groups of GPUs, each for `runs_per_gpu` runs; the first run of every group comes first.

    Raises:
        UserError: if there are fewer GPUs than one run needs.
    """
    groups = [
        tuple(gpus[start : start + gpus_per_run])
        for start in range(0, len(gpus) - gpus_per_run + 1, gpus_per_run)
    ]
    if not groups:
        raise UserError(f"gpus_per_run is {gpus_per_run}, but torch finds {len(gpus)} GPUs here")
    return [Slot(group, threads) for _ in range(runs_per_gpu) for group in groups]


def cpu_slots(cores: int, cpus_per_run: int) -> list[Slot]:
    """As many runs as there are cores for; always one."""
    return [Slot((), cpus_per_run)] * max(1, cores // cpus_per_run)


def find_slots(
    device: str, *, gpus_per_run: int = 1, runs_per_gpu: int = 1, cpus_per_run: int | None = None
) -> list[Slot]:
    """The slots of this machine.

    Args:
        device: ``cpu``, ``cuda``, or ``auto``: GPUs where torch finds some.
        gpus_per_run: GPUs that train one run together.
        runs_per_gpu: runs that share a GPU.
        cpus_per_run: cores and threads of a run; on a CPU, 1 by default.

    Raises:
        UserError: if GPUs are needed or given, and torch finds too few.
    """
    if device != "cpu":
        import torch

        gpus = visible_gpus(torch.cuda.device_count())
        given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        if not gpus and device == "auto" and given.startswith(_NAMES):
            raise UserError(
                f"CUDA_VISIBLE_DEVICES is {given}, but torch finds no GPU here: repair that, or "
                "give --device cpu"
            )
        if device == "cuda" or gpus or gpus_per_run > 1:
            return gpu_slots(gpus, gpus_per_run, runs_per_gpu, cpus_per_run)
    elif gpus_per_run > 1:
        raise UserError(f"gpus_per_run is {gpus_per_run}, so --device cpu cannot train these runs")
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return cpu_slots(usable or 1, cpus_per_run or 1)
