"""The one place where files are written: whole or not at all, and over nothing but files."""

import csv
import errno
import glob
import io
import json
import os
import shutil
import socket
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from selfattn.errors import UserError

from .text import NUMBER


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that appears under its name when the block ends well.

    A regular file is at any time the old or the whole new one, after a power failure too, and keeps
    its mode. A symbolic link stays, and the file behind it is replaced. Devices, pipes and open
    descriptors (``/dev/null``, ``/dev/stdout``, ``>(command)``) get the bytes at the end.

    Args:
        path: the file. While it is written it is ``.PATH.partial-HOST-PID``, which no error leaves
            behind; what a killed process leaves is removed when the file is written again.

    Yields:
        IO[bytes]: opened for writing, and for seeking.

    Raises:
        OSError: with ``path`` as its file name if this cannot be written.
    """
    path, partial = Path(path), None
    try:
        target = regular_target(path)
        if target is None:
            with tempfile.TemporaryFile() as file:
                yield file
                file.seek(0)
                with _opened(path) as sink:
                    shutil.copyfileobj(file, sink)
            return
        partial = _partial(target)
        with partial.open("xb") as new:
            yield new
            new.flush()
            os.fsync(new.fileno())
        _keep_mode(target, partial)
        partial.replace(target)
    except OSError as error:
        if error.filename not in (None, str(partial)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text as `writing` does."""
    with writing(path) as file:
        file.write(text.encode("utf-8"))


def write_lines(path: Path, lines: list[str]) -> None:
    """Write one UTF-8 line per element as `writing` does."""
    write_text(path, "".join(line + "\n" for line in lines))


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV; None is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def write_json(path: Path, value: Any) -> None:
    """Write readable JSON as `writing` does."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def load_json(path: Path, advice: str = "") -> Any:
    """What a JSON file holds; ``advice`` ends the message if it cannot be read.

    Raises:
        UserError: if it cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or f"it is not JSON: {error}"
        raise UserError(f"{path} cannot be read ({reason}){advice}") from None


def read_object(path: Path) -> dict[str, Any]:
    """The object that a JSON file holds.

    Raises:
        UserError: if it cannot be read, or holds anything else.
    """
    found = load_json(path)
    if not isinstance(found, dict):
        raise UserError(f"{path} cannot be read (it holds no JSON object)")
    return found


def read_json(path: Path, *keys: str) -> dict[str, Any] | None:
    """The object in a JSON file; None if the file or a key is missing, or it cannot be parsed.

    For records that are written atomically: one that somebody has cut or edited must not count.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and content.keys() >= set(keys) else None


def check_output(flag: str, path: Path) -> None:
    """Refuse a file, named by a flag, that `writing` could not write, before the work for it.

    Raises:
        UserError: if it is a folder, its folder is missing, or it must not be written.
    """
    try:
        target = regular_target(path)
        if target is not None:
            folder = target.parent if path.is_symlink() else path.parent
            if not folder.is_dir():
                raise UserError(f"{flag} is {path}, but there is no folder {folder}")
            # Tried, because a mode does not tell of quotas, read-only mounts and /proc.
            probe = _partial(target)
            probe.open("xb").close()
            probe.unlink()
    except OSError as error:
        raise UserError(f"{flag} is {path}, which cannot be written: {error.strerror}") from None


def check_output_folder(flag: str, path: Path) -> None:
    """Refuse a folder, named by a flag, that could not be made or written into, before the work.

    Raises:
        UserError: if a part of its path is a file, it begins with ~, or it must not be written.
    """
    if str(path).startswith("~"):
        raise UserError(f"{flag} is {path}, but only a shell replaces ~: write the path out")
    place = path.absolute()
    while not os.path.lexists(place):
        place = place.parent
    if not place.is_dir():
        raise UserError(f"{flag} is {path}, but {place} is not a folder")
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".partial-", dir=place))
    except OSError as error:
        raise UserError(f"{flag} is {path}, which cannot be written: {error.strerror}") from None


def check_no_pipes(*paths: str | os.PathLike[str]) -> None:
    """Refuse a pipe or another stream among inputs, there or not, that are read more than once.

    Raises:
        UserError: if one can be read only once.
    """
    for path in map(Path, paths):
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise UserError(f"{path} is no regular file, but is read more than once: give a file")


def regular_target(path: Path) -> Path | None:
    """The regular file behind the links, there already or not; None for devices and the like."""
    if _descriptor(path) is not None:
        return None
    target = Path(os.path.realpath(path))
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return target
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not os.access(path, os.W_OK):  # a rename would not ask
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return target if stat.S_ISREG(mode) else None


def _descriptor(path: Path) -> int | None:
    """The number of an open file of this process, if ``path`` or a link behind it names one.

    It may well be a regular file, as ``/dev/stdout`` in ``command > file``. To replace this, or to
    open it anew, would lose what the command has printed.
    """
    for _ in range(40):  # as many links as Linux follows
        folder = os.path.realpath(path.parent)
        if folder in ("/dev/fd", f"/proc/{os.getpid()}/fd") and path.name.isdigit():
            return int(path.name)
        if not path.is_symlink():
            return None
        path = path.parent / os.readlink(path)
    return None


def _opened(path: Path) -> IO[bytes]:
    """A device, a pipe or an open descriptor, to write into."""
    number = _descriptor(path)
    if number is None:
        return path.open("wb")
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()  # what was printed before stands before
    return os.fdopen(os.dup(number), "wb")


def _partial(target: Path) -> Path:
    """A free name beside ``target``; what killed processes of this machine left is removed."""
    # Cut: the longest names that file systems take have 255 bytes. The host, because processes of
    # others, which may write into the same folder, cannot be told from dead ones.
    stem = f".{target.name[:50]}.partial-{socket.gethostname()[:20]}-"
    for remains in left_behind(target.parent, stem):
        with suppress(OSError):  # another user's, for one
            remains.unlink()
    return target.with_name(f"{stem}{os.getpid()}")


def left_behind(folder: Path, stem: str) -> Iterator[Path]:
    """What is named ``stem`` and the number of a process that has ended, or of this one."""
    for path in folder.glob(f"{glob.escape(stem)}*"):
        pid = path.name.removeprefix(stem)
        if NUMBER.fullmatch(pid) and (int(pid) == os.getpid() or not is_alive(int(pid))):
            yield path


def is_alive(process: int) -> bool:
    """Whether the process of this number is running on this machine, whoever started it."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _keep_mode(old: Path, new: Path) -> None:
    """Give a new file the mode of the old one and, where that is allowed, its owner."""
    with suppress(FileNotFoundError):
        found = old.stat()
        with suppress(PermissionError):
            os.chown(new, found.st_uid, found.st_gid)
        new.chmod(stat.S_IMODE(found.st_mode))
