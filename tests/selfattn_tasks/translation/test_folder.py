"""A folder is there whole or not at all, and what was there before survives a failure."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from selfattn.errors import UserError
from selfattn_tasks.folder import new_folder

MARK = "done.json"


def make(destination, content, **options):
    with new_folder(destination, mark=MARK, **options) as folder:
        (folder / MARK).write_text(content)


def test_a_folder_appears_with_its_parents(tmp_path):
    make(tmp_path / "a" / "b", "1")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    assert (tmp_path / "a" / "b" / MARK).read_text() == "1"


def test_a_failure_leaves_nothing_and_keeps_what_was_there(tmp_path):
    make(tmp_path / "data", "old")
    with (
        pytest.raises(ZeroDivisionError),
        new_folder(tmp_path / "data", mark=MARK, overwrite=True) as folder,
    ):
        (folder / MARK).write_text("half")
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert (tmp_path / "data" / MARK).read_text() == "old"


def test_a_full_disk_is_known_by_its_text(tmp_path):
    """As a library says it that has errors of its own, such as safetensors."""
    with pytest.raises(OSError) as found, new_folder(tmp_path / "data", mark=MARK):
        raise RuntimeError("I/O error: No space left on device (os error 28)")
    assert (found.value.errno, found.value.filename) == (errno.ENOSPC, str(tmp_path / "data"))


def test_overwriting_is_asked_for(tmp_path):
    make(tmp_path / "data", "old")
    with pytest.raises(UserError, match="already exists: choose another or add --overwrite"):
        make(tmp_path / "data", "new")
    make(tmp_path / "data", "new", overwrite=True)
    assert (tmp_path / "data" / MARK).read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_what_a_killed_process_left_is_removed(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for number in (ended.pid, os.getppid()):
        (tmp_path / f".data.partial-{number}").mkdir()
    foreign = f".data.partial-{'9' * 20}"  # no process has this number
    (tmp_path / foreign).mkdir()
    make(tmp_path / "data", "1")
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != foreign) == [
        f".data.partial-{os.getppid()}",
        "data",
    ]
    (tmp_path / f".data.old-{ended.pid}").mkdir()  # killed before or while it was removed
    make(tmp_path / "data", "2", overwrite=True)
    assert not list(tmp_path.glob(".data.old-*"))


def test_the_only_copy_that_a_killed_process_left_stays(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / f".data.old-{ended.pid}").mkdir()
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "data", mark=MARK):
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == [f".data.old-{ended.pid}"]


def test_a_folder_that_others_make_meanwhile_stays(tmp_path):
    with (
        pytest.raises(UserError, match="data already exists"),
        new_folder(tmp_path / "data", mark=MARK),
    ):
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "thesis").touch()
    assert [path.name for path in tmp_path.rglob("*")] == ["data", "thesis"]


def test_foreign_folders_files_and_links_are_never_replaced(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to(tmp_path / "home")
    for name in ("home", "file", "link"):
        with pytest.raises(UserError, match="is not replaced"):
            make(tmp_path / name, "new", overwrite=True)
    assert (tmp_path / "home" / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize("place", ["/proc/x", "{}/file/data", "/dev/null/x"])
def test_what_cannot_be_made_is_refused_before_the_work(tmp_path, place):
    (tmp_path / "file").write_text("text")
    with pytest.raises(UserError, match="the destination is .*(cannot be written|not a folder)"):
        make(Path(place.format(tmp_path)), "1")


def test_a_name_that_cannot_be_taken_leaves_the_old_folder(tmp_path, monkeypatch):
    destination = tmp_path / "data"
    with new_folder(destination, mark=MARK) as folder:
        (folder / MARK).write_text("old")
    rename = Path.rename

    def refused(self, target):
        if ".partial-" in self.name:
            raise PermissionError(13, "Permission denied", str(self))
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refused)
    with pytest.raises(PermissionError), new_folder(destination, mark=MARK, overwrite=True):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert (destination / MARK).read_text() == "old"
