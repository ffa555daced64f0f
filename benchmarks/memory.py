"""Peak memory of one step beyond what was there before it: weights, inputs, libraries.

On a CPU it is the growth of the resident set in a process that did nothing else: all that a step
takes is counted, also what libraries allocate behind PyTorch's back. The worker that measures it
runs with ``ENVIRONMENT``: glibc then gives every freed block above 64 KiB back at once, so that
earlier steps leave nothing to reuse, and the numbers grow with what is alive, not with history.
"""

import gc
import re
from pathlib import Path

import torch

from .timing import Step

# Read by glibc when a process starts. Timings are not taken under it: page faults would cost.
ENVIRONMENT = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
    "MALLOC_TOP_PAD_": "0",
    "MALLOC_MMAP_MAX_": "1000000",
}
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


def measurable(device: str) -> bool:
    """Whether peak memory can be measured here: on a GPU, or on a CPU under Linux."""
    return device == "cuda" or (_STATUS.exists() and _CLEAR.exists())


def peak(step: Step, device: str) -> int:
    """Bytes that a step takes at its peak beyond what is held before it."""
    gc.collect()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    _CLEAR.write_text("5")  # sets the peak to what is resident now
    before = _resident("VmRSS")
    step()
    return max(0, _resident("VmHWM") - before)


def _resident(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", _STATUS.read_text(), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def available() -> int | None:
    """Bytes that can be taken on this machine without swapping, or None where that is unknown."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else None
