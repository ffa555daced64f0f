"""What training writes survives a full disk and a kill."""

import fcntl
import os
from pathlib import Path

import pytest
from fairseq import checkpoint_utils

from selfattn.errors import UserError

FLAGS = ["--save-interval-updates", "1", "--keep-interval-updates", "-1", "--max-update", "8"]


def contents(folder: Path):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_full_disk(run_folder, toy_train):
    before = contents(run_folder)
    size = len(before["checkpoint_last.pt"])
    done = toy_train(["--save-dir", run_folder, *FLAGS], limit=size // 2)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr + done.stdout
    line = done.stderr.splitlines()[-1]
    assert line.startswith("fairseq-train: error: cannot write ") and str(run_folder) in line
    assert "File too large" in line and "MB were left" in line
    assert contents(run_folder) == before
    # and the same command resumes when there is space again
    done = toy_train(["--save-dir", run_folder, *FLAGS])
    assert done.returncode == 0 and "num_updates=8" in done.stdout


def test_leftovers_of_a_kill_are_removed(run_folder, toy_train):
    half, notes = (run_folder / f".{name}.partial-77" for name in ("checkpoint9.pt", "notes"))
    half.write_bytes(b"half a checkpoint")
    notes.write_text("not ours")
    toy_train(["--save-dir", run_folder]).ok()
    assert not half.exists() and notes.exists()


def test_one_training_at_a_time_in_a_folder(run_folder, toy_train):
    before = contents(run_folder)
    descriptor = os.open(run_folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)  # as a run holds it
    try:
        done = toy_train(["--save-dir", run_folder, *FLAGS])
        assert done.returncode == 1 and "Traceback" not in done.stderr
        line = done.stderr.splitlines()[-1]
        assert f"another run is writing to --save-dir {run_folder}" in line
        assert contents(run_folder) == before
        toy_train(["--save-dir", run_folder, "--no-save"]).ok()
    finally:
        os.close(descriptor)


def test_last_is_replaced_not_overwritten(run_folder, toy_train, tmp_path):
    """fairseq copies a checkpoint onto checkpoint_last.pt: that one must stay whole till then."""
    old = tmp_path / "old.pt"
    old.hardlink_to(run_folder / "checkpoint_last.pt")
    before = old.read_bytes()
    toy_train(["--save-dir", run_folder, "--max-update", "5"]).ok()
    # had the file been written in place, its other name would show the new content
    assert old.read_bytes() == before != (run_folder / "checkpoint_last.pt").read_bytes()


def test_save_dir_that_cannot_be_written(toy_train, tmp_path):
    (tmp_path / "file").touch()
    done = toy_train(["--save-dir", tmp_path / "file" / "run"])
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"--save-dir is {tmp_path}/file/run, but {tmp_path}/file is not a folder" in done.stderr


def test_a_save_dir_in_a_folder_named_tilde(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="--save-dir is ~/x, but only a shell replaces ~"):
        checkpoint_utils.verify_checkpoint_directory("~/x")
    assert not list(tmp_path.iterdir())


def test_full_disk_under_the_curves(toy_train, tmp_path):
    curves = ["--tensorboard-logdir", tmp_path / "curves", "--max-update", "30"]
    done = toy_train(["--no-save", *curves], limit=1024)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert f"cannot write the curves in --tensorboard-logdir {tmp_path}/curves" in done.stderr


OTHER_THREAD = """
import errno, plugin, threading
def write():
    raise OSError(errno.ENOSPC, "No space left on device")
threading.Thread(target=write).start()
"""


def test_a_full_disk_in_another_thread_is_not_hidden(run_cli):
    done = run_cli(["-c", OTHER_THREAD], fresh=False)
    assert "No space left on device" in done.stderr


def test_full_disk_under_the_log(toy_train, tmp_path):
    done = toy_train(["--no-save", "--log-file", tmp_path / "train.log"], limit=4096).ok()
    assert done.stderr == "warning: the log is incomplete from here: File too large\n"
