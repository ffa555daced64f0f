"""Compile the kernels of DiSA ahead of time and print the resources they use; no GPU is needed.

``python -m benchmarks.triton_disa --capability 90``. A kernel that spills registers to
memory is slow; the table shows it before a GPU does, and the command fails.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator
from typing import NamedTuple

from selfattn.ops.disa.fused import launch
from selfattn_tasks.cli import run

from .triton_ahead import Usage, usage

DTYPES = ("fp32", "bf16", "fp16")
_INPUTS = ("x_ptr", "a_ptr", "b_ptr")
_FLOATS = ("gain", "low", "inverse_keep")


class Job(NamedTuple):
    """One kernel in one configuration."""

    kernel: str  # forward or key
    dtype: str
    dropout: bool


def jobs() -> Iterator[Job]:
    """The configurations that differ."""
    for kernel in ("forward", "key"):
        for dtype in DTYPES:
            for dropout in (False, True):
                yield Job(kernel, dtype, dropout)


def compiled(job: Job, capability: int) -> Usage:
    """Compile one kernel and return the resources it uses.

    Args:
        job: which, and for which inputs.
        capability: of the GPU, e.g. 80 or 90.
    """
    tile = launch.choose(job.dropout)
    constants = {
        "BT": tile.tokens, "BF": tile.features, "HAS_PADDING": True, "DROPOUT": job.dropout,
        "SAVE": True, "HALF": job.dtype != "fp32",
    }  # fmt: skip
    return usage(
        getattr(importlib.import_module("selfattn.ops.disa.fused.kernels"), f"{job.kernel}_kernel"),
        constants,
        lambda name: _type(name, job),
        "[a-z]+_ptr|[a-z]+_[bt]|width",
        capability,
        {"num_warps": tile.warps},
    )


def _type(name: str, job: Job) -> str:
    """Triton's name for the type of an argument."""
    rounded = ("out_ptr",) if job.kernel == "forward" else ("gx_ptr", "ga_ptr")
    if name in _INPUTS or name in rounded:
        return "*" + job.dtype
    named = {"padding_ptr": "*u8", "unseen_ptr": "*u8", "seed_ptr": "*i64", "bounds_ptr": "*i32"}
    if name.endswith("_ptr"):
        return named.get(name, "*fp32")
    return "fp32" if name in _FLOATS else "i32"


def main() -> int:
    """Entry of ``python -m benchmarks.triton_disa``; the number of kernels that spill."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.triton_disa",
        description="Compile the kernels of DiSA ahead; print registers, spills, shared memory.",
        epilog="example: python -m benchmarks.triton_disa --capability 90",
    )
    parser.add_argument("--capability", type=int, default=90, help="of the GPU, e.g. 80 or 90")
    capability = parser.parse_args().capability
    print("kernel   dtype  dropout  registers  spilled bytes  shared bytes")
    spilling = 0
    for job in jobs():
        found = compiled(job, capability)
        spilling += found.stack > 0
        print(
            f"{job.kernel:8} {job.dtype:6} {'yes' if job.dropout else 'no':8} "
            f"{found.registers:9} {found.stack:14} {found.shared:13}",
            flush=True,
        )
    return min(spilling, 1)


if __name__ == "__main__":
    run(main)
