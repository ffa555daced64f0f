"""Checkpoint files that a kill or a full disk cannot damage."""

import fcntl
import logging
import os
import time
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from selfattn.errors import UserError
from selfattn_tasks import saved
from selfattn_tasks.files import check_output_folder

from ._patch import wrap

logger = logging.getLogger(__name__)


class _Lock:
    """An open file that holds a lock."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __del__(self) -> None:
        os.close(self.descriptor)


_LOCKS: WeakValueDictionary[Path, _Lock] = WeakValueDictionary()  # of this process, by folder


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
def check_folder(original: Any, save_dir: str) -> None:
    """Check that ``--save-dir`` is writable.

    Break: fairseq/checkpoint_utils.py, verify_checkpoint_directory, ends in a traceback, and makes
    a folder named ~. Fix: one sentence.
    """
    check_output_folder("--save-dir", Path(save_dir))
    try:
        original(save_dir)
    except OSError as error:
        raise UserError(f"--save-dir {save_dir} cannot be written: {error.strerror}") from error


@wrap(checkpoint_utils, "load_checkpoint")
def take_folder(original: Any, cfg: Any, trainer: Any, *args: Any, **kwargs: Any) -> Any:
    """Keep other runs out of ``--save-dir``, and remove what a killed one left there.

    Break: two runs in one folder overwrite, delete and continue each other's checkpoints. Fix:
    a lock of the folder, which ends with the trainer or its process.
    """
    if not cfg.no_save and trainer.is_data_parallel_master:
        trainer.lock_of_folder = _lock(Path(os.path.realpath(cfg.save_dir)))
        for leftover in Path(cfg.save_dir).glob(".checkpoint*.pt.partial-*"):
            logger.info("removing %s, left by an interrupted run", leftover)
            leftover.unlink(missing_ok=True)
    return original(cfg, trainer, *args, **kwargs)


def _lock(folder: Path) -> _Lock:
    """Take the lock of a folder, unless another process has it."""
    lock = _LOCKS.get(folder) or _Lock(os.open(folder, os.O_RDONLY))
    for _ in range(100):  # the loaders of a killed run hold it for some seconds more
        try:
            fcntl.flock(lock.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.1)
            continue
        except OSError:  # a file system without locks
            pass
        _LOCKS[folder] = lock
        return lock
    raise UserError(f"another run is writing to --save-dir {folder}: wait for it, or stop it")
