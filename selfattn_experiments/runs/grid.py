"""A grid: what is trained, with which seeds, and how it is tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from selfattn_tasks.task import Task

from .flags import Flags, number, parse


@dataclass(frozen=True)
class Grid:
    """What a grid file says; paths are relative to the current folder.

    Args:
        file: the grid file.
        task: from ``selfattn_tasks.registry``.
        data: the folder that fairseq-train reads.
        output: gets a folder ``SYSTEM-SEED`` for each run, and the summary.
        seeds: name of a system to the seeds of its trainings.
        systems: name to flags of fairseq-train, common ones first.
        tests: name of a test set to its references or gold file.
        user_dir: the fairseq plugin.
        generate: flags of what applies a checkpoint to a test set.
        average: how many of the last checkpoints are averaged.
        checkpoint: without `average`: ``best`` or ``last``.
        keep_checkpoints: of folds that are tested, too.
        lowercase: whether scores ignore case.
        cpus_per_run: cores and threads of a run.
        gpus_per_run: GPUs of a run, if it is trained on GPUs.
        slurm: flags of sbatch.
    """

    file: Path
    task: Task
    data: Path
    output: Path
    seeds: Mapping[str, tuple[int, ...]]
    systems: Mapping[str, tuple[str, ...]]
    tests: Mapping[str, Path]
    user_dir: Path
    generate: tuple[str, ...] = ()
    average: int | None = None
    checkpoint: str = "best"
    keep_checkpoints: bool = False
    lowercase: bool = False
    cpus_per_run: int | None = None
    gpus_per_run: int = 1
    slurm: tuple[str, ...] = ()
    _parsed: dict[str, Flags] = field(default_factory=dict, compare=False, repr=False)

    def names(self) -> list[tuple[str, int]]:
        """System and seed of each run: every system's first seed, then every second one."""
        every = dict.fromkeys(seed for seeds in self.seeds.values() for seed in seeds)
        return [(name, seed) for seed in every for name in self.systems if seed in self.seeds[name]]

    def flags(self, system: str) -> Flags:
        """The flags of a system, by name."""
        if system not in self._parsed:
            self._parsed[system] = parse(self.systems[system], f"system {system}")
        return self._parsed[system]

    def saves_by_update(self, system: str) -> bool:
        """Whether checkpoints are saved by update, not by epoch alone."""
        return number(self.flags(system), "--save-interval-updates") is not None
