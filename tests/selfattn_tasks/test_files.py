"""Files are whole or as before; links, devices, pipes and modes stay what they are."""

import io
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch

from benchmarks import table
from selfattn.errors import UserError
from selfattn_tasks import saved
from selfattn_tasks.files import (
    check_output,
    check_output_folder,
    write_json,
    write_lines,
    write_text,
    writing,
)


def picture(path):
    figures = pytest.importorskip("selfattn_experiments.report.figures")
    figure = figures.new_figure(2, 2)
    figure.subplots().plot([1, 2])
    figures.save(figure, path)


def copied(path):
    source = path.parent / "source.bin"
    source.write_bytes(bytes(1000))
    saved.copy(source, path)
    source.unlink()


WRITERS = {
    "text": lambda path: write_text(path, "ü\n"),
    "lines": lambda path: write_lines(path, ["ü"]),
    "json": lambda path: write_json(path, {"ü": 1}),
    "table": lambda path: table.write(path, []),
    "picture": picture,
    "checkpoint": lambda path: saved.write({"model": {"w": torch.ones(3)}}, path),
    "copy": copied,
}


@pytest.fixture(params=WRITERS)
def write(request):
    """Each of the project's ways to write a file."""
    return WRITERS[request.param]


def test_a_link_stays_and_its_target_is_replaced(write, tmp_path):
    (tmp_path / "away").mkdir()
    target, link = tmp_path / "away" / "a.png", tmp_path / "b.png"
    link.symlink_to("away/a.png")  # a target that is not there yet
    write(link)
    first = target.stat().st_ino
    write(link)
    assert link.is_symlink() and target.stat().st_size > 0
    assert target.stat().st_ino != first, "written in place: a kill would leave half a file"
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.png", "away", "b.png"]


def test_a_pipe_gets_the_bytes(write, tmp_path):
    path, got = tmp_path / "pipe.png", io.BytesIO()
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: got.write(path.read_bytes()), daemon=True)
    reader.start()
    write(path)
    reader.join(20)
    assert len(got.getvalue()) > 1 and stat.S_ISFIFO(path.stat().st_mode)
    assert [p.name for p in tmp_path.iterdir()] == ["pipe.png"]


def test_a_device_stays_a_device(write, tmp_path):
    """A stand-in beside other files: with a mistake in the code, /dev/null itself would be lost."""
    path = tmp_path / "null.png"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    try:
        write(path)
    except PermissionError:
        pytest.skip("this file system has no devices")
    assert stat.S_ISCHR(path.stat().st_mode)


def test_modes(write, tmp_path):
    path = tmp_path / "a.png"
    before = os.umask(0o027)
    try:
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o604)
        write(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o604
    finally:
        os.umask(before)


def test_folders_are_refused_and_named(write, tmp_path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises((IsADirectoryError, UserError), match=r"a\.png"):
        write(tmp_path / "a.png")
    assert [p.name for p in tmp_path.rglob("*") if p.name != "source.bin"] == ["a.png"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "ü\n")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "\ud800")
    with pytest.raises(ZeroDivisionError), writing(path) as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == "ü\n".encode()
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_a_full_device_is_named(tmp_path):
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left on device") as raised:
        write_text(tmp_path / "full", "x")
    assert raised.value.filename == str(tmp_path / "full")


def test_a_small_file_that_does_not_fit_is_measured_in_kilobytes(tmp_path):
    (tmp_path / "full").symlink_to("/dev/full")
    with pytest.raises(UserError, match=r"the file needs about 0\.4 KB and .* were left"):
        saved.write({"model": torch.zeros(100)}, tmp_path / "full")


def test_what_a_killed_process_of_this_machine_left_is_removed(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host = socket.gethostname()[:20]
    left = f".a.txt.partial-{host}-{ended.pid}"
    stay = [
        f".a.txt.partial-elsewhere-{ended.pid}",
        f".a.txt.partial-{host}-{os.getppid()}",
        f".b.txt.partial-{host}-{ended.pid}",
    ]
    for name in (left, *stay):
        (tmp_path / name).touch()
    write_text(tmp_path / "a.txt", "x")
    assert sorted(os.listdir(tmp_path)) == sorted([*stay, "a.txt"])


def test_a_killed_writer_leaves_what_the_next_one_removes(run_cli, tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from selfattn_tasks.files import writing\n"
        "with writing(Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    assert run_cli(["-c", code, tmp_path / "a.txt"], fresh=False).returncode == -9
    assert len(os.listdir(tmp_path)) == 1
    write_text(tmp_path / "a.txt", "x")
    assert os.listdir(tmp_path) == ["a.txt"]


def test_standard_output_in_a_file_keeps_what_was_printed(run_cli, tmp_path):
    """As in `command --json /dev/stdout > file`, by each of its names."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = """
import sys
from pathlib import Path
from selfattn_tasks.files import check_output, write_text
for name in sys.argv[1:]:
    check_output("--json", Path(name))
    print("before")
    write_text(Path(name), f"{name}\\n")
print("after")
"""
    names = ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", str(tmp_path / "link")]
    words = [str(tmp_path / "script.py"), *names]
    (tmp_path / "script.py").write_text(code)
    shell = f"import subprocess, sys; subprocess.run([sys.executable, *{words!r}], " + (
        f"stdout=open({str(tmp_path / 'out')!r}, 'w'), check=True)"
    )
    run_cli(["-c", shell], PYTHONPATH=str(Path(__file__).parents[2])).ok()
    expected = "".join(f"before\n{name}\n" for name in names) + "after\n"
    assert (tmp_path / "out").read_text() == expected


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("folder", "Is a directory"),
        ("none/a.csv", "there is no folder"),
        ("dangling", "there is no folder"),
        ("file/a.csv", "Not a directory"),
        ("loop", "Too many levels of symbolic links"),
        ("/proc/a.csv", "cannot be written"),
        ("a" * 300, "File name too long"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_work(tmp_path, path, reason):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("none/a.csv")
    with pytest.raises(UserError, match=rf"^--csv is .*{reason}"):
        check_output("--csv", tmp_path / path)


@pytest.mark.parametrize("path", ["new.csv", "old.csv", "/dev/null", "/dev/stderr", "pipe", "link"])
def test_what_can_be_written_is_left_alone(tmp_path, path):
    (tmp_path / "old.csv").write_text("old")
    (tmp_path / "link").symlink_to("new.csv")
    os.mkfifo(tmp_path / "pipe")
    check_output("--csv", tmp_path / path)
    assert sorted(os.listdir(tmp_path)) == ["link", "old.csv", "pipe"]
    assert (tmp_path / "old.csv").read_text() == "old"


def test_protected_files_and_folders_are_refused(tmp_path, monkeypatch):
    """As another user sees them: root may write everywhere."""
    path = tmp_path / "old.csv"
    path.write_text("old")
    monkeypatch.setattr(os, "access", lambda place, mode: False)
    with pytest.raises(UserError, match="which cannot be written: Permission denied"):
        check_output("--csv", path)
    with pytest.raises(PermissionError, match="old"):
        write_text(path, "new")
    assert path.read_text() == "old"


@pytest.mark.parametrize("path", ["file", "file/plots", "/proc/plots", "dangling"])
def test_folders_that_cannot_be_made(tmp_path, path):
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("none")
    with pytest.raises(UserError, match="--plots is .*(not a folder|cannot be written)"):
        check_output_folder("--plots", tmp_path / path)
    with pytest.raises(UserError, match="--plots is ~/x, but only a shell replaces ~"):
        check_output_folder("--plots", Path("~/x"))
    check_output_folder("--plots", tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()
