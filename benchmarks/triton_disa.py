"""Compile the kernels of DiSA ahead of time and print the resources they use; no GPU is needed.

``python -m benchmarks.triton_disa --capability 90``. A kernel that spills many registers to
memory is slow; the table shows it before a GPU does, and the command fails.
"""

import importlib
from collections.abc import Iterator
from itertools import product, starmap
from typing import NamedTuple

from selfattn.ops.disa.fused import launch
from selfattn_tasks.cli import run

from .triton_ahead import Usage, parser_of, report, usage

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
    yield from starmap(Job, product(("forward", "key"), DTYPES, (False, True)))


def compiled(job: Job, capability: int) -> Usage:
    """Compile one kernel and return the resources it uses."""
    tile = launch.TILES[job.dropout]
    constants = {
        "BT": tile.tokens, "BF": tile.features, "HAS_PADDING": True, "DROPOUT": job.dropout,
        "SAVE": True, "HALF": job.dtype != "fp32",
    }  # fmt: skip
    rounded = ("out_ptr",) if job.kernel == "forward" else ("gx_ptr", "ga_ptr")
    kinds = dict.fromkeys((*_INPUTS, *rounded), f"*{job.dtype}") | {"unseen_ptr": "*u8"}
    return usage(
        getattr(importlib.import_module("selfattn.ops.disa.fused.kernels"), f"{job.kernel}_kernel"),
        constants,
        kinds | dict.fromkeys(_FLOATS, "fp32"),
        "[a-z]+_ptr|[a-z]+_[bt]|width",
        capability,
        {"num_warps": tile.warps},
    )


def main() -> int:
    """Entry of ``python -m benchmarks.triton_disa``; 1 if a kernel spills much."""
    what = "DiSA ahead; print registers, spills, shared memory."
    capability = parser_of("triton_disa", what, "--capability 90").parse_args().capability
    found = (
        (
            f"{job.kernel:8} {job.dtype:6} {'yes' if job.dropout else 'no':7}",
            compiled(job, capability),
        )
        for job in jobs()
    )
    return report("kernel   dtype  dropout", found)


if __name__ == "__main__":
    run(main)
