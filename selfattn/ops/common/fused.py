"""What all Triton kernels share on the host: refusals, launches, and the seed of dropout.

Nothing here imports Triton; ``triton_tools`` holds what the kernels themselves share.
"""

import importlib.util
import os
from typing import Any

import torch
from torch import Tensor

from .dropout import keep_probability

OLDEST_CAPABILITY = (8, 0)  # bfloat16 and tf32 matrix products
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
KEYS_AT_A_TIME = 1024  # where a program looks for padding
# Triton 3.2 ends the process, and 3.3 cannot compile MTSA's dropout. Compared once: it would cost
# 9 us a call.
_TOO_OLD = torch.__version__ < "2.8"
# Arguments for whose values no kernel is compiled anew: of lengths, masks and dropout.
VARYING = ("heads", "length", "left", "right", "groups", "group", "column", "threshold")
# What Triton compiled: by names, constants, dtypes and device, then by kernel and options.
_COMPILED: dict[tuple[Any, ...], dict[tuple[Any, ...], Any]] = {}


def refusal(device: torch.device | str, dtype: torch.dtype) -> str | None:
    """Why no kernel can run on inputs of this device and dtype, in one sentence; None if it can.

    A CPU will do under ``TRITON_INTERPRET=1`` only: that is Triton's interpreter, for tests.
    """
    device = torch.device(device)
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed"
    interpreted = os.environ.get("TRITON_INTERPRET", "").lower() in ("1", "on", "true", "yes", "y")
    if device.type != "cuda" and not (device.type == "cpu" and interpreted):
        return f"it needs an NVIDIA GPU, and the device is {device.type}"
    if device.type == "cuda":
        if torch.version.hip or not torch.cuda.is_available():
            return "no NVIDIA GPU is available"
        if _TOO_OLD:
            return f"torch is {torch.__version__}; 2.8 is needed"
        found = torch.cuda.get_device_capability(device)
        if found < OLDEST_CAPABILITY:
            return f"the GPU has compute capability {found[0]}.{found[1]}; 8.0 is needed"
    if dtype not in DTYPES:
        names = ", ".join(str(d).removeprefix("torch.") for d in DTYPES)
        return f"dtype {str(dtype).removeprefix('torch.')} is not among {names}"
    return None


class Arguments:
    """The arguments that kernels of a call share, by the names that the kernels give them.

    At each launch Triton looks at each argument, to find what it compiled for such ones; that can
    take longer than the kernel. Here they are looked at once, and a compiled kernel is launched
    with their addresses, if pointers and strides are multiples of 16, as nearly all are.

    Attributes:
        given: tensors, numbers and None; names in capitals are constants of the compiled kernels,
            of which there may be others than a kernel's own.
    """

    def __init__(self, **given: Any) -> None:
        self.given = given
        self._direct = dict(given)  # tensors by their addresses
        key: list[Any] = [*given]
        usual = True
        for name, value in given.items():
            if isinstance(value, Tensor):
                self._direct[name] = address = value.data_ptr()
                key += value.dtype, value.device
                usual &= address % 16 == 0
            elif value is None or name.isupper():
                key.append(value)
            elif isinstance(value, int):
                usual &= value < 1 << 31 and (name in VARYING or value % 16 == 0)
        self._compiled = _COMPILED.setdefault(tuple(key), {}) if usual else {}

    def launch(self, kernel: Any, programs: int, **options: Any) -> None:
        """Run so many programs; options are those of Triton, or other constants of the kernel.

        Products and sums are fused as when compiled ahead; Triton 3.9 warns that 3.10 would not.
        """
        place = id(kernel), *options.values()
        compiled = self._compiled.get(place)
        if compiled is None:
            named = {name: self.given[name] for name in kernel.arg_names if name in self.given}
            compiled = kernel[programs,](**named, enable_fp_fusion=True, **options)
            self._compiled[place] = compiled  # the interpreter gives None
        else:
            values = self._direct | options
            compiled[programs, 1, 1](*[values[name] for name in kernel.arg_names])


def draw_seed(device: torch.device) -> Tensor:
    """A seed ``(1,)`` from the device's generator: it stays there, so CUDA graphs can redraw it."""
    return torch.randint(1 << 62, (1,), dtype=torch.int64, device=device)


def threshold(dropout_p: float) -> int:
    """What 31 random bits must stay below for a factor to be kept."""
    return int(keep_probability(dropout_p) * (1 << 31)) if dropout_p else 0


def dropout_factors(
    seed: Tensor, shape: tuple[int, int, int, int], dropout_p: float
) -> tuple[Tensor, Tensor]:
    """What the kernels multiply with, made by the same function on the device of the seed.

    By the seed ``(1,)`` and the shape ``(B, H, T, D)`` of the values: the factor on (query, key)
    pairs ``(B, H, T, T)`` and the one on (key, feature) pairs ``(B, H, T, D)``, float32.
    """
    from .triton_tools import factor_kernel

    batch, heads, length, width = shape
    found = []
    for stream, columns in ((0, length), (1, width)):
        factor = torch.empty(batch, heads, length, columns, dtype=torch.float32, device=seed.device)
        with torch.cuda.device_of(seed):
            factor_kernel[(batch * heads * length,)](
                seed, factor, length, columns, threshold(dropout_p),
                1 / keep_probability(dropout_p), STREAM=stream, SIZE=64,
            )  # fmt: skip
        found.append(factor)
    return found[0], found[1]
