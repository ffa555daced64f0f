"""Compile every shipped configuration ahead and print what it takes of the machine.

No GPU is needed: ``python -m selfattn.ops.mtsa.fused.report --capability 90``. A kernel that spills
registers to memory is slow; the table shows it before a GPU does, and the command fails.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from selfattn.errors import UserError
from selfattn.ops.mtsa.fused import configs

KERNELS = ("forward", "query", "key", "value", "exact_forward", "exact_query", "exact_key")
_TYPE_NAMES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
_OWN_TYPE = ("q_ptr", "k_ptr", "v_ptr", "s_ptr", "out_ptr", "grad_ptr")
_GRADS = ("dq_ptr", "dk_ptr", "dv_ptr", "ds_ptr")
_INTEGERS = ("bounds_ptr", "left_ptr", "right_ptr", "flag_ptr")
_FLOATS = ("scale", "gain", "pair_scale")


class Job(NamedTuple):
    """One kernel in one configuration."""

    kernel: str
    dtype: torch.dtype
    width: int
    length: int
    logsigmoid: bool
    dropout: bool


class Usage(NamedTuple):
    """Registers and bytes of stack of a thread, bytes of shared memory of a block.

    The kernels need no stack of their own: what is there are spilled registers.
    """

    registers: int
    stack: int
    shared: int
    wgmma: int  # warpgroup matrix instructions in the code


def jobs(
    kernels: tuple[str, ...] = KERNELS,
    dtypes: tuple[torch.dtype, ...] = configs.DTYPES,
    widths: tuple[int, ...] = (16, 32, 64, 128),
    lengths: tuple[int, ...] = (64, 1024),
    switches: tuple[tuple[bool, bool], ...] = ((False, False), (True, False), (False, True)),
) -> Iterator[Job]:
    """The configurations that differ."""
    for dtype in dtypes:
        for width in widths:
            seen = set()
            for length in lengths:
                tiles = configs.choose(dtype, width, width, length)
                for kernel in kernels:
                    if (kernel, _tile(kernel, tiles)) in seen:
                        continue
                    seen.add((kernel, _tile(kernel, tiles)))
                    for logsigmoid, dropout in switches:
                        yield Job(kernel, dtype, width, length, logsigmoid, dropout)


def _tile(kernel: str, tiles: configs.Tiles) -> configs.Tile:
    """The tile of a kernel."""
    return tiles.exact if kernel.startswith("exact") else getattr(tiles, kernel)


def compiled(job: Job, capability: int, tile: configs.Tile | None = None) -> Any:
    """Compile one kernel for a GPU that need not be there.

    Returns:
        Triton's compiled kernel; ``.asm`` holds the code, ``.metadata`` shared memory and warps.
    """
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from selfattn.ops.mtsa.fused import backward, exact, forward

    module = {"forward": forward, "query": backward, "key": backward, "value": backward}.get(
        job.kernel, exact
    )
    function = getattr(module, f"{job.kernel}_kernel")
    tiles = configs.choose(job.dtype, (job.width, job.width), job.length, job.dropout)
    tile = tile or _tile(job.kernel, tiles)
    scores, products = configs.precision(job.dtype)
    half = products == "half"
    size = configs.padded(job.width)
    constants = {
        "DK": job.width, "DV": job.width, "SK": size, "SV": size,
        "BM": tile.queries, "BN": tile.keys, "BF": tiles.forward.queries, "SC": min(size, tile.features),
        "HAS_PADDING": True, "LOGSIGMOID": job.logsigmoid, "DROPOUT": job.dropout,
        "SAVE": True, "HALF": half, "SCORES": scores, "PRODUCTS": products,
    }  # fmt: skip
    names = function.arg_names
    own = _TYPE_NAMES[job.dtype]
    signature = {
        name: "constexpr" if name in constants else _type(name, own, half) for name in names
    }
    aligned = [["tt.divisibility", 16]]
    source = ASTSource(
        fn=function,
        signature=signature,
        constexprs={(i,): constants[n] for i, n in enumerate(names) if n in constants},
        attrs={
            (i,): aligned
            for i, name in enumerate(names)
            if name.endswith("_ptr") or re.fullmatch("[qkvsg]_[bht]", name)
        },
    )
    return triton.compile(
        source,
        target=GPUTarget("cuda", capability, 32),
        options={
            "num_warps": tile.warps,
            "num_stages": tile.stages,
            "enable_fp_fusion": True,
        },
    )


def _type(name: str, own: str, half: bool) -> str:
    """Triton's name for the type of an argument."""
    if name in _OWN_TYPE or name in _GRADS:
        return "*" + own
    if name in ("dnum_ptr", "dden_ptr"):
        return "*bf16" if half else "*fp32"
    if name == "padding_ptr":
        return "*u8"
    if name == "seed_ptr":
        return "*i64"
    if name.endswith("_ptr"):
        return "*i32" if name in _INTEGERS else "*fp32"
    return "fp32" if name in _FLOATS else "i32"


def usage(kernel: Any) -> Usage:
    """What a compiled kernel takes, read from its machine code.

    Raises:
        UserError: if the code cannot be read.
    """
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        done = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"REG:(\d+) STACK:(\d+)", done.stdout)
    if found is None:
        raise UserError(f"cuobjdump cannot read the kernel: {done.stderr.strip()}")
    return Usage(
        int(found[1]),
        int(found[2]),
        int(kernel.metadata.shared),
        kernel.asm["ptx"].count("wgmma.mma_async"),
    )


def main() -> int:
    """Entry of ``python -m selfattn.ops.mtsa.fused.report``."""
    return 0
