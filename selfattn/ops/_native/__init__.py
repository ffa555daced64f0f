"""C kernels for the CPU: compiled when first needed, kept for later, never missed where absent.

The sources are plain C without dependencies, so that compiling takes seconds. The result is kept
under ``$SELFATTN_CACHE``, else ``$XDG_CACHE_HOME/selfattn``, else ``~/.cache/selfattn``, in a file
whose name depends on the sources, the compiler and the processor. ``$CC`` chooses the compiler.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import logging
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from selfattn.masks import PositionalMask

logger = logging.getLogger(__name__)

HERE = Path(__file__).parent
FLAGS = ("-O3", "-std=gnu11", "-fPIC", "-shared", "-pthread")
# Half precision is computed in float32 and rounded once.
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class View(ctypes.Structure):
    """A tensor ``(B, H, T, n)`` whose last dimension is contiguous; ``Tensor`` in C."""

    _fields_ = (("data", ctypes.c_void_p), ("stride", ctypes.c_int64 * 3))

    @classmethod
    def of(cls, t: Tensor) -> View:
        """A view of a tensor, which has to outlive it."""
        return cls(t.data_ptr(), (ctypes.c_int64 * 3)(*t.stride()[:3]))


def offsets(masks: Sequence[PositionalMask], length: int) -> tuple[list[int], list[int]]:
    """Smallest and largest visible ``key - query`` of each mask, also where there is no bound."""
    ends = [mask.offsets for mask in masks]
    left = [-length if end is None else end for end, _ in ends]
    right = [length if end is None else end for _, end in ends]
    return left, right


def refusal(folder: Path, dtype: torch.dtype) -> str | None:
    """Why the kernel in a folder cannot be used for a type of numbers; None if it can.

    Args:
        folder: holds ``kernel.c``.
        dtype: of the inputs.
    """
    if dtype not in DTYPES:
        return f"the CPU kernel computes float32 and narrower, not {dtype}"
    return _load(folder)[1]


def library(folder: Path) -> ctypes.CDLL:
    """The compiled kernel of a folder; call it only where ``refusal`` returns None."""
    loaded = _load(folder)[0]
    assert loaded is not None  # a mistake of ours, not of a user
    return loaded


@functools.cache
def _load(folder: Path) -> tuple[ctypes.CDLL | None, str | None]:
    """The library, or the reason why there is none."""
    compiler = _compiler()
    if compiler is None:
        return None, "no C compiler was found: install gcc, or name one in the variable CC"
    try:
        return ctypes.CDLL(str(_build(folder, compiler))), None
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if "error" in line] or ["no message"]
        reason = f"{' '.join(compiler)} cannot compile the kernel: {lines[0].strip()}"
    except OSError as error:
        reason = f"the kernel cannot be compiled or loaded: {error}"
    logger.warning("%s; attention runs on the slower backend 'eager'", reason)
    return None, reason


def _compiler() -> tuple[str, ...] | None:
    """The command of a C compiler."""
    named = os.environ.get("CC")
    if named:
        command = tuple(shlex.split(named))
        return command if shutil.which(command[0]) else None
    return next(((name,) for name in ("cc", "gcc", "clang") if shutil.which(name)), None)


def _build(folder: Path, compiler: tuple[str, ...]) -> Path:
    """Compile unless it was done before.

    Raises:
        subprocess.CalledProcessError: if the compiler fails.
        OSError: if there is no room for the result.
    """
    sources = sorted([*folder.glob("*.[ch]"), *HERE.glob("*.h")])
    digest = hashlib.sha256("\0".join((*compiler, *FLAGS, _processor())).encode())
    for source in sources:
        digest.update(source.read_bytes())
    cache = _cache()
    target = cache / f"{folder.parent.name}-{digest.hexdigest()[:16]}.so"
    if target.exists():
        return target
    logger.info("compiling %s, once", folder / "kernel.c")
    # Under another name first: whoever loads the target finds it whole.
    handle, temporary = tempfile.mkstemp(".so", "new-", cache)
    os.close(handle)
    try:
        command = [*compiler, *FLAGS, f"-I{HERE}", str(folder / "kernel.c"), "-o", temporary, "-lm"]
        tune = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
        run = functools.partial(subprocess.run, check=True, capture_output=True, text=True)
        try:
            run([*command, tune])
        except subprocess.CalledProcessError:  # some compilers do not know the processor
            run(command)
        os.replace(temporary, target)
    finally:
        Path(temporary).unlink(missing_ok=True)
    return target


def _processor() -> str:
    """What the processor can do, as far as this decides about the compiled code."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.platform() + platform.processor()
    wanted = ("flags", "features", "model name", "cpu part")
    found = {line for line in lines if line.lower().startswith(wanted)}
    return platform.machine() + "".join(sorted(found))


def _cache() -> Path:
    """A folder of this user for compiled kernels; a new one for this process if need be."""
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    path = Path(os.environ.get("SELFATTN_CACHE") or f"{home}/selfattn").expanduser()
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(path, os.W_OK):
            return path
    except OSError:
        pass
    return _own_folder()


@functools.cache
def _own_folder() -> Path:
    """For a home folder that cannot be written to; removed when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="selfattn-")
    _FOLDERS.append(folder)
    return Path(folder.name)


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
