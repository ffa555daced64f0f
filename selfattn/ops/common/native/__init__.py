"""C kernels for the CPU: compiled when first needed and cached; everything works without them.

The sources are plain C without dependencies, so that compiling takes seconds; ``build`` does it.
"""

import ctypes
import functools
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ....errors import UserError
from ..tiling import rows
from . import build

logger = logging.getLogger(__name__)

_BORN = os.getpid()
# Half precision is computed in float32 and rounded once.
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


class View(ctypes.Structure):
    """A tensor ``(B, H, T, n)`` whose last dimension is contiguous; ``Tensor`` in C."""

    _fields_ = (("data", ctypes.c_void_p), ("stride", ctypes.c_int64 * 3))


class Task(ctypes.Structure):
    """One call: a subclass mirrors the structure ``Task`` of a kernel's ``task.h``."""


def fields(
    tensors: Sequence[str], pointers: Sequence[str], sizes: Sequence[str], floats: Sequence[str]
) -> list[tuple[str, Any]]:
    """The fields of a task, in the order of its arguments; then the seed of dropout.

    C reads ``tensors``, ``(B, H, T, n)`` or ``(B, T, n)``, by their strides, and ``pointers`` as
    contiguous memory.
    """
    return [
        *((name, View) for name in tensors),
        *((name, ctypes.c_void_p) for name in pointers),
        *((name, ctypes.c_int64) for name in sizes),
        *((name, ctypes.c_float) for name in floats),
        ("seed", ctypes.c_uint64),
    ]


def run(folder: Path, task: Task, tensors: Mapping[str, Any], *, backward: bool) -> None:
    """Let the ``kernel.c`` of a folder compute a task; None among the tensors is a null pointer."""
    views = {field[0] for field in task._fields_ if field[1] is View}
    held: list[Any] = []  # until C returns: some are copies
    for name, t in tensors.items():
        if t is None:
            continue
        if isinstance(t, list):
            held.append((ctypes.c_int64 * len(t))(*t))
            setattr(task, name, ctypes.addressof(held[-1]))
            continue
        if not t.is_cpu:  # C would read its address
            raise UserError(f"{name} is on {t.device}; it must be on the CPU, as other inputs are")
        t = rows(t) if name in views else t.resolve_neg().contiguous()
        held.append(t)
        value: View | int = _address(name, t)
        if name in views:
            batch, *heads, length, _ = t.stride()
            strides = (batch, heads[0] if heads else 0, length)
            value = View(value, (ctypes.c_int64 * 3)(*strides))
        setattr(task, name, value)
    name = folder.parent.name
    if getattr(library(folder), f"{name}_run")(ctypes.byref(task), backward):
        raise MemoryError(f"the kernel of {name} found no memory for its buffers")


def _address(name: str, t: torch.Tensor) -> int:
    try:
        if (address := t.data_ptr()) or not t.numel():
            return address
    except RuntimeError:
        pass
    raise UserError(
        f"{name} has no storage, as with is_grads_batched: take torch.func.jacrev instead, or "
        "backend 'reference'"
    )


def refusal(folder: Path, dtype: torch.dtype) -> str | None:
    """Why the ``kernel.c`` of a folder cannot be used for inputs of a dtype; None if it can."""
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
    try:
        loaded = build.kernel(folder)
        with suppress(ValueError):  # without work.h a kernel has one thread
            ctypes.c_int.in_dll(loaded, "born").value = _BORN  # a forked child may load it first
        return loaded, None
    except build.BuildError as error:
        reason = str(error)
    except OSError as error:
        reason = f"the kernel cannot be compiled or loaded: {error}"
    _warn(reason)
    return None, reason


@functools.cache
def _warn(reason: str) -> None:
    """Once for all kernels."""
    logger.warning("%s; where 'auto' chooses, attention runs on the slower backend 'eager'", reason)
