"""Compile Triton kernels for a GPU that need not be present, and read the resources they use."""

import argparse
import re
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from selfattn.errors import UserError

# Bytes of a thread: kernels that spill so much (Triton 3.9; 3.6 a third) were faster on a GPU than
# those of smaller tiles.
TOLERATED = 160
# What both operators have; every other pointer is to float32.
POINTERS = {"padding_ptr": "*u8", "seed_ptr": "*i64", "bounds_ptr": "*i32"}


class Usage(NamedTuple):
    """Registers and bytes of stack of a thread, bytes of shared memory of a block.

    The kernels need no stack of their own: what is there are spilled registers.
    """

    registers: int
    stack: int
    shared: int
    wgmma: int  # warpgroup matrix instructions in the code


def usage(
    function: Any,
    constants: Mapping[str, Any],
    kinds: Mapping[str, str],
    aligned: str,
    capability: int,
    options: Mapping[str, Any],
) -> Usage:
    """Compile one kernel and read the resources it uses from its machine code.

    Args:
        function: the kernel.
        constants: values of its compile-time arguments, and of any others.
        kinds: name of another argument -> Triton's name of its type, where it is neither a pointer
            to float32 nor an integer.
        aligned: a regular expression for the arguments that are multiples of 16: what Triton finds
            out about usual inputs.
        capability: of the GPU, e.g. 80 or 90.
        options: of the compiler, such as ``num_warps``.

    Raises:
        UserError: if the code cannot be read.
    """
    import triton
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    names = function.arg_names
    kinds = {n: "*fp32" if n.endswith("_ptr") else "i32" for n in names} | POINTERS | dict(kinds)
    source = ASTSource(
        fn=function,
        signature={n: "constexpr" if n in constants else kinds[n] for n in names},
        constexprs={(i,): constants[n] for i, n in enumerate(names) if n in constants},
        attrs={
            (i,): [["tt.divisibility", 16]] for i, n in enumerate(names) if re.fullmatch(aligned, n)
        },
    )
    target = GPUTarget("cuda", capability, 32)
    kernel = triton.compile(source, target=target, options=dict(options, enable_fp_fusion=True))
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(kernel.asm["cubin"])
        file.flush()
        command = [knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        done = subprocess.run(command, capture_output=True, text=True)
    found = re.search(r"REG:(\d+) STACK:(\d+)", done.stdout)
    if found is None:
        raise UserError(f"cuobjdump cannot read the kernel: {done.stderr.strip()}")
    wgmma = kernel.asm["ptx"].count("wgmma.mma_async")
    return Usage(int(found[1]), int(found[2]), int(kernel.metadata.shared), wgmma)


def parser_of(module: str, what: str, example: str) -> argparse.ArgumentParser:
    """The parser of ``python -m benchmarks.MODULE``, with ``--capability``."""
    prog = f"python -m benchmarks.{module}"
    parser = argparse.ArgumentParser(
        prog=prog,
        description=f"Compile the kernels of {what}",
        epilog=f"example: {prog} {example}",
    )
    parser.add_argument("--capability", type=int, default=90, help="of the GPU, e.g. 80 or 90")
    return parser


def report(header: str, found: Iterable[tuple[str, Usage]]) -> int:
    """Print a line for each kernel as it is compiled; 1 if one spills much, else 0."""
    print(f"{header}  registers  spilled bytes  shared bytes  wgmma")
    spilling = 0
    for words, used in found:
        spilling += used.stack > TOLERATED
        numbers = f"{used.registers:10} {used.stack:14} {used.shared:13} {used.wgmma:6}"
        print(words, numbers, flush=True)
    return min(spilling, 1)
