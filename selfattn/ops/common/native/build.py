"""Compiling C kernels and keeping them, so that nothing damaged or foreign is ever loaded.

What was compiled is kept under ``$SELFATTN_CACHE``, else ``$XDG_CACHE_HOME/selfattn``, else
``~/.cache/selfattn``, in a file whose name depends on the sources, the compiler, the processor and
the C library, and whose end is a checksum of the rest. ``$CC`` chooses the compiler.
"""

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

logger = logging.getLogger(__name__)

HERE = Path(__file__).parent
FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-pthread")
_NEW = "selfattn-new-"  # of files that are being compiled, or whose compiler was killed


class BuildError(Exception):
    """Why there is no kernel, in one sentence without a full stop."""


def kernel(folder: Path) -> ctypes.CDLL:
    """The library of a folder's ``kernel.c``, compiled unless it was done before.

    Raises:
        BuildError: if there is no compiler, or it fails.
        OSError: if the disk is full, or the result cannot be loaded.
    """
    compiler = _compiler()
    sources = sorted([*folder.glob("*.[ch]"), *HERE.glob("*.h")])
    digest = hashlib.sha256(
        "\0".join((*compiler, *FLAGS, *_version(compiler), _machine())).encode()
    )
    for source in sources:
        digest.update(source.read_bytes())
    target = _cache() / f"{folder.parent.name}-{digest.hexdigest()[:16]}.so"
    return _kept(target) or _compiled(folder, compiler, target)


def _compiler() -> tuple[str, ...]:
    """The command of a C compiler."""
    named = os.environ.get("CC", "").strip()
    if not named:
        for name in ("cc", "gcc", "clang"):
            if shutil.which(name):
                return (name,)
        raise BuildError("no C compiler was found: install gcc, or name one in the variable CC")
    try:
        command = tuple(shlex.split(named))
    except ValueError as error:
        raise BuildError(f"CC is {named!r}, which cannot be read: {error}") from None
    if shutil.which(command[0]) is None:
        raise BuildError(
            f"CC names {command[0]!r}, which is not found: install it, name another, or unset CC"
        )
    return command


def _version(compiler: tuple[str, ...]) -> tuple[str, str, str]:
    """Where the program is, how large, and of when: another after each update."""
    program = Path(shutil.which(compiler[0]) or compiler[0]).resolve()
    found = program.stat()
    return str(program), str(found.st_size), str(found.st_mtime_ns)


def _kept(target: Path) -> ctypes.CDLL | None:
    """The library compiled before, if it exists, is intact and belongs to this user."""
    try:
        with target.open("rb") as file:
            fault = _foreign(os.fstat(file.fileno()))
            data = file.read()
        size = len(_seal(b""))
        if fault is None and data[-size:] != _seal(data[:-size]):
            fault = "is damaged"
        if fault is None:
            return ctypes.CDLL(str(target))
    except FileNotFoundError:
        return None
    except OSError as error:
        fault = f"cannot be loaded ({error})"
    logger.warning("the compiled kernel %s %s, so it is compiled again", target, fault)
    return None


def _seal(data: bytes) -> bytes:
    """What stands behind a library in its file; a loader does not look there."""
    return b"selfattn" + hashlib.sha256(data).digest()


def _foreign(found: os.stat_result) -> str | None:
    """Why a file or a folder may hold code of others; None if only this user and root write it."""
    me = os.geteuid() if hasattr(os, "geteuid") else found.st_uid
    if found.st_uid not in (me, 0):
        return f"belongs to another user ({found.st_uid})"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"is writable by others (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def _compiled(folder: Path, compiler: tuple[str, ...], target: Path) -> ctypes.CDLL:
    """Compile, load, and then keep: whoever finds the target finds it whole."""
    logger.info("compiling %s, once", folder / "kernel.c")
    try:
        handle, temporary = tempfile.mkstemp(".so", _NEW, target.parent)
    except OSError as error:
        target = _own_folder(target.parent, f"cannot be written to ({error})") / target.name
        handle, temporary = tempfile.mkstemp(".so", _NEW, target.parent)
    os.close(handle)
    try:
        _compile(compiler, folder / "kernel.c", temporary)
        with open(temporary, "r+b") as file:
            file.write(_seal(file.read()))
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o755)  # not by the umask: others shall not write it
        try:
            library = ctypes.CDLL(temporary)
        except OSError as error:
            reason = str(error).removeprefix(f"{temporary}: ")
            raise BuildError(
                f"{' '.join(compiler)} cannot compile the kernel: what it wrote cannot be loaded, "
                f"{reason}"
            ) from None
        os.replace(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return library


def _compile(compiler: tuple[str, ...], source: Path, target: str) -> None:
    command = [*compiler, *FLAGS, f"-I{HERE}", str(source), "-o", target, "-lm"]
    tune = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
    run = functools.partial(
        subprocess.run, check=True, capture_output=True, text=True, errors="replace"
    )
    try:
        try:
            run([*command, tune])
        except subprocess.CalledProcessError:  # some compilers do not know the processor
            run(command)
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if "error" in line] or ["no message"]
        reason = f"{' '.join(compiler)} cannot compile the kernel: {lines[0].strip()}"
        raise BuildError(reason) from None


def _machine() -> str:
    """Processor and C library, as far as they decide about the compiled code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.platform() + platform.processor()
    wanted = ("flags", "features", "model name", "cpu implementer", "cpu part")
    found = {line for line in lines if line.lower().startswith(wanted)}
    return platform.machine() + "".join(sorted(found)) + "".join(platform.libc_ver())


@functools.cache
def _cache() -> Path:
    """A folder of this user for compiled kernels; one of this process alone if need be."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    path = Path(os.environ.get("SELFATTN_CACHE") or f"{home}/selfattn")
    try:
        path = path.expanduser().absolute()  # a loader looks for bare names elsewhere
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = path.stat()
        # As /tmp, where nobody but the folder's owner replaces what others have there.
        if found.st_mode & stat.S_ISVTX and found.st_uid in (0, os.geteuid()):
            path /= f"selfattn-{os.geteuid()}"
            path.mkdir(exist_ok=True, mode=0o700)
            found = path.lstat()  # whose mode, of a link, lets others write
        fault = _foreign(found)
    except (OSError, RuntimeError) as error:  # RuntimeError: nobody's home
        fault = f"cannot be used ({error})"
    return path if fault is None else _own_folder(path, fault)


@functools.cache
def _own_folder(refused: Path, fault: str) -> Path:
    """Instead of a folder that is refused; removed when the process ends."""
    logger.warning(
        "the folder for compiled kernels, %s, %s, so this process compiles its own, which takes "
        "seconds: fix that, or name another folder in the variable SELFATTN_CACHE",
        refused,
        fault,
    )
    folder = tempfile.TemporaryDirectory(prefix="selfattn-")
    _FOLDERS.append(folder)
    return Path(folder.name)


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
