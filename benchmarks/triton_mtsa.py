"""Compile the kernels of MTSA ahead of time and print the resources they use; no GPU is needed.

``python -m benchmarks.triton_mtsa --capability 90``. A kernel that spills many registers to
memory is slow; the table shows it before a GPU does, and the command fails.
"""

import importlib
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from selfattn.ops.common.fused import KEYS_AT_A_TIME
from selfattn.ops.mtsa.fused import configs
from selfattn_tasks.cli import run

from .triton_ahead import Usage, parser_of, report, usage

_MODULES = {
    "mtsa.fused.forward": ("forward",),
    "mtsa.fused.backward": ("query", "key"),
    "mtsa.fused.exact": ("exact_forward", "exact_query", "exact_key"),
    "mtsa.fused.prepare": ("shift", "weights"),
    "common.triton_tools": ("bounds",),
}
KERNELS = tuple(itertools.chain(*_MODULES.values()))
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
WIDTHS = (16, 32, 64, 128)
# Name -> log-sigmoid on R, dropout.
VARIANTS = {
    "plain": (False, False),
    "logsigmoid": (True, False),
    "dropout": (False, True),
    "both": (True, True),
}
_TYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_OWN_TYPE = ("q_ptr", "k_ptr", "v_ptr", "s_ptr", "out_ptr", "g_ptr")
_GRADS = ("dq_ptr", "dk_ptr", "dv_ptr", "ds_ptr")
_INTEGERS = ("left_ptr", "right_ptr", "flag_ptr")
_FLOATS = ("scale", "gain", "pair_scale")


class Job(NamedTuple):
    """One kernel in one configuration."""

    kernel: str
    dtype: torch.dtype
    width: int
    logsigmoid: bool
    dropout: bool

    @property
    def tiles(self) -> configs.Tiles:
        """The tiles that ship for these inputs."""
        widths = (self.width, self.width)
        return configs.choose(self.dtype, widths, self.logsigmoid, self.dropout)

    @property
    def tile(self) -> configs.Tile:
        """The tile of this kernel."""
        if self.kernel in ("shift", "weights", "bounds"):
            return configs.Tile(self.tiles.forward.queries, 0, 4, 3)
        name = "exact" if self.kernel.startswith("exact") else self.kernel
        found: configs.Tile = getattr(self.tiles, name)
        return found

    @property
    def words(self) -> str:
        """Its columns of the table."""
        return (
            f"{self.kernel:13} {_TYPE_NAMES[self.dtype]:5} {self.width:5} "
            f"{'logsigmoid' if self.logsigmoid else 'identity':10} "
            f"{'yes' if self.dropout else 'no':7} {self.tile.queries:8} x {self.tile.keys:<4} "
            f"{self.tile.warps:6}"
        )


def jobs(
    kernels: Sequence[str], dtypes: Sequence[str], widths: Sequence[int], variants: Sequence[str]
) -> Iterator[Job]:
    """The configurations that differ: other widths are padded to one of these."""
    for dtype, width, kernel, variant in itertools.product(dtypes, widths, kernels, variants):
        yield Job(kernel, DTYPES[dtype], width, *VARIANTS[variant])


def compiled(job: Job, capability: int) -> Usage:
    """Compile one kernel and return the resources it uses."""
    name = next(module for module, kernels in _MODULES.items() if job.kernel in kernels)
    module = importlib.import_module(f"selfattn.ops.{name}")
    tile = job.tile
    scores, products = configs.precision(job.dtype)
    half = products == "half"
    size = configs.padded(job.width)
    constants = {
        "DK": job.width, "DV": job.width, "SK": size, "SV": size,
        "BM": tile.queries, "BN": tile.keys, "BF": configs.FLAG_ROWS,
        "HAS_PADDING": True, "LOGSIGMOID": job.logsigmoid, "DROPOUT": job.dropout,
        "SAVE": True, "HALF": half, "SCORES": scores, "PRODUCTS": products,
        "ROWS": configs.PREPARE_ROWS, "SIZE": KEYS_AT_A_TIME,
    }  # fmt: skip
    own = f"*{_TYPE_NAMES[job.dtype]}"
    kinds = (
        dict.fromkeys((*_OWN_TYPE, *_GRADS), own)
        | dict.fromkeys(("e_ptr", "u_ptr", "dnum_ptr", "dden_ptr"), "*bf16" if half else "*fp32")
        | dict.fromkeys(_INTEGERS, "*i32")
        | dict.fromkeys(_FLOATS, "fp32")
    )
    return usage(
        getattr(module, f"{job.kernel}_kernel"),
        constants,
        kinds,
        ".*_ptr|[qkvsg]_[bht]",
        capability,
        {"num_warps": tile.warps, "num_stages": tile.stages},
    )


def main() -> int:
    """Entry of ``python -m benchmarks.triton_mtsa``; 1 if a kernel spills much."""
    what = (
        "MTSA ahead; print registers, spills, shared memory. All of them take about a quarter of "
        "an hour."
    )
    parser = parser_of("triton_mtsa", what, "--dtype bf16 --width 64")
    parser.add_argument("--kernel", choices=KERNELS, nargs="+", default=KERNELS)
    parser.add_argument("--dtype", choices=DTYPES, nargs="+", default=tuple(DTYPES))
    parser.add_argument("--width", choices=WIDTHS, nargs="+", type=int, default=WIDTHS)
    parser.add_argument("--variant", choices=VARIANTS, nargs="+", default=tuple(VARIANTS))
    args = parser.parse_args()
    chosen = jobs(args.kernel, args.dtype, args.width, args.variant)
    header = "kernel        dtype width sigma_t    dropout  queries x keys  warps"
    return report(header, ((job.words, compiled(job, args.capability)) for job in chosen))


if __name__ == "__main__":
    run(main)
