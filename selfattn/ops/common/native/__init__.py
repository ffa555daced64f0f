"""C kernels for the CPU: compiled when first needed, kept for later, never missed where absent.

The sources are plain C without dependencies, so that compiling takes seconds; ``build`` does it.
"""

from __future__ import annotations

import ctypes
import functools
import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from ....masks import PositionalMask
from . import build

logger = logging.getLogger(__name__)

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
    try:
        return build.kernel(folder), None
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
