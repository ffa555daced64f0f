"""The commands of a run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ..process import again
from .execution.slots import Slot
from .grid import Grid


def train(
    grid: Grid, system: str, seed: int, folder: Path, slot: Slot, extra: Sequence[str] = ()
) -> list[str]:
    """fairseq-train; when started again, it resumes from its last checkpoint."""
    return [
        sys.executable, "-m", "fairseq_cli.train", str(grid.data), "--user-dir", str(grid.user_dir),
        *grid.task.train_flags, *grid.systems[system], *extra, "--seed", str(seed),
        "--save-dir", str(folder / "checkpoints"),
        "--tensorboard-logdir", str(folder / "tensorboard"), "--log-format", "json",
        *([] if slot.gpus else ["--cpu"]),
    ]  # fmt: skip


def average(grid: Grid, system: str, folder: Path) -> list[str]:
    """``selfattn average``: the last checkpoints into one."""
    return again(
        "average", "--dir", str(folder / "checkpoints"), "--last", str(grid.average),
        "--by", "update" if grid.saves_by_update(system) else "epoch",
        "--output", str(checkpoint(grid, folder)),
    )  # fmt: skip


def checkpoint(grid: Grid, folder: Path) -> Path:
    """The checkpoint that is tested."""
    if grid.average is not None:
        return folder / "average.pt"
    return folder / "checkpoints" / f"checkpoint_{grid.checkpoint}.pt"


def output(grid: Grid, folder: Path, test: str) -> Path:
    """What the model makes of a test set, as its command writes it."""
    return folder / f"{test}.{grid.task.output}"


def generate(grid: Grid, system: str, seed: int, folder: Path, slot: Slot, test: str) -> list[str]:
    """fairseq-generate: what a model makes of a test set, to standard output."""
    flags, words = grid.flags(system), []
    for name in ("--source-lang", "--target-lang"):
        if name in flags and name not in grid.generate:
            words += [name, *flags[name]]
    return [
        sys.executable, "-m", "fairseq_cli.generate", str(grid.data),
        "--user-dir", str(grid.user_dir), "--path", str(checkpoint(grid, folder)),
        "--gen-subset", test, *words, *grid.generate, "--seed", str(seed),
        *([] if slot.gpus else ["--cpu"]),
    ]  # fmt: skip


def predict(grid: Grid, folder: Path, slot: Slot, test: str) -> list[str]:
    """The project's own command of a task: what a model makes of a test set, into a file."""
    return again(
        *(grid.task.predictor or "").split(), str(checkpoint(grid, folder)),
        "--input", str(grid.tests[test]), "--output", str(output(grid, folder, test)),
        *grid.task.predict_flags, *grid.generate, *(["--device", "cuda"] if slot.gpus else []),
    )  # fmt: skip
