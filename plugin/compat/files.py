"""Checkpoint files that a kill or a full disk cannot damage."""

import logging
import os
from pathlib import Path
from typing import Any

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from selfattn.errors import UserError
from selfattn_tasks import saved

from ._patch import wrap

logger = logging.getLogger(__name__)


@wrap(checkpoint_utils, "torch_persistent_save")
def write_safely(original: Any, obj: Any, filename: str, async_write: bool = False) -> Any:
    """Write checkpoints under a temporary name, and say when the disk is full.

    Break: fairseq/checkpoint_utils.py, _torch_persistent_save, tries three times and leaves a
    truncated ``.tmp`` file behind. Fix: local files are written as by this project.
    """
    if async_write or not PathManager.supports_rename(filename):
        return original(obj, filename, async_write=async_write)
    return saved.write(obj, filename)


@wrap(PathManager, "copy")
def copy_safely(original: Any, src_path: str, dst_path: str, overwrite: bool = False) -> Any:
    """Copy checkpoints under a temporary name.

    Break: fairseq/checkpoint_utils.py copies checkpointN.pt over the good checkpoint_last.pt byte
    by byte, so a kill in between leaves half a file. Fix: as above.
    """
    if any(map(PathManager.path_requires_pathmanager, (src_path, dst_path))):
        return original(src_path, dst_path, overwrite=overwrite)
    if not overwrite and os.path.exists(dst_path):
        return False
    saved.copy(src_path, dst_path)
    return True


@wrap(checkpoint_utils, "verify_checkpoint_directory")
def clean_leftovers(original: Any, save_dir: str) -> None:
    """Remove what a killed training left in its ``--save-dir``, and check that it is writable.

    Break: fairseq/checkpoint_utils.py, verify_checkpoint_directory, ends in a traceback. It runs
    once, on rank 0, before anything is written. Fix: one sentence.
    """
    try:
        original(save_dir)
    except OSError as error:
        raise UserError(f"--save-dir {save_dir} cannot be written: {error.strerror}") from error
    for leftover in Path(save_dir).glob("checkpoint*.pt.tmp"):
        logger.info("removing %s, left by an interrupted training", leftover)
        leftover.unlink(missing_ok=True)
