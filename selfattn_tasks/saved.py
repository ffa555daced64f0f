"""Where a training leaves the checkpoint that people want."""

from __future__ import annotations

from pathlib import Path

from selfattn.errors import UserError

# By preference; the last one is the name in fairseq's published folders.
CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt", "model.pt")


def find_checkpoint(path: Path) -> Path:
    """The checkpoint itself, or the best, else the last one of a folder.

    Args:
        path: a checkpoint, or a training's ``--save-dir``.

    Raises:
        UserError: if a folder holds none.
    """
    if not path.is_dir():
        return path
    there = [path / name for name in CHECKPOINTS if (path / name).is_file()]
    if not there:
        raise UserError(f"{path} holds no {' or '.join(CHECKPOINTS)}")
    return there[0]
