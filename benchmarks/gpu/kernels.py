"""Which kernels MTSA's operator spends its time in, forward and backward; beside flash's."""

import torch
from torch.profiler import ProfilerActivity, profile

from ..method import Setup
from ..methods import choose
from .results import Results

SHOWN = ("method", "length", "kernel", "seconds", "share")
_STEPS = 10


def run(results: Results) -> None:
    """Profile what is not done yet: bfloat16, 512 features, 65,536 tokens."""
    width, heads, tokens = (32, 2, 32) if results.dry else (512, 8, 65536)
    for length in (16,) if results.dry else (256, 1024, 4096):
        for method in choose("operator", ["mtsa", "sdpa", "sdpa:directed"]):
            if results.find(method=method.name, length=length):
                continue
            backend = "eager" if results.dry else "fused"
            setup = Setup(width, heads, device=results.device, dtype="bfloat16", backend=backend)
            step = method.case(setup, tokens // length, length).step
            for _ in range(3):
                step()
            where = ProfilerActivity.CPU if results.dry else ProfilerActivity.CUDA
            with profile(activities=[where]) as seen:
                for _ in range(_STEPS):
                    step()
                if not results.dry:
                    torch.cuda.synchronize()
            kind = "cpu" if results.dry else "device"
            found = {
                event.key: getattr(event, f"self_{kind}_time_total") / _STEPS / 1e6
                for event in seen.key_averages()
            }
            total = sum(found.values())
            results.add(*(
                {"method": method.name, "length": length, "kernel": name, "seconds": seconds,
                 "share": seconds / total}
                for name, seconds in sorted(found.items(), key=lambda item: -item[1])
                if seconds > 0.001 * total
            ))  # fmt: skip
