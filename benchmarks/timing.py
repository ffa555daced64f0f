"""Time two steps in turns, so that whatever slows the machine slows both."""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

Step = Callable[[], object]


@dataclass(frozen=True)
class Effort:
    """How long to measure a method and its reference at one length."""

    seconds: float = 8.0
    sample: float = 0.1  # about how many seconds it lasts; short steps are repeated for it
    least: int = 5  # pairs of samples even if that takes longer
    most: int = 50  # pairs at which to stop before the seconds are spent
    wall: bool = False  # on a CPU, elapsed time instead of CPU time


@dataclass(frozen=True)
class Timing:
    """Medians of seconds per step over pairs of samples; median and quartiles of their ratios."""

    seconds: float
    reference_seconds: float
    ratio: float
    ratio_low: float
    ratio_high: float
    pairs: int


def clock(step: Step, times: int, device: str, wall: bool = False) -> float:
    """Seconds per step: CUDA time between events, or CPU time of all threads of this process.

    With ``wall``, on a CPU, elapsed time.
    """
    if device == "cuda":
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(times):
            step()
        end.record()
        torch.cuda.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / times
    now = time.perf_counter if wall else time.process_time
    begin = now()
    for _ in range(times):
        step()
    return (now() - begin) / times


def compare(step: Step, reference: Step, device: str, effort: Effort) -> Timing:
    """Time a step against a reference, one sample of each in turns."""
    works = (step, reference)
    times: list[int] = []
    cost = 0.0
    for work in works:
        work()  # the first step compiles, allocates and tunes
        single = max(clock(work, 1, device, effort.wall), 1e-6)
        times.append(max(1, round(effort.sample / single)))
        cost += times[-1] * single
    pairs = min(effort.most, max(effort.least, int(effort.seconds / cost)))
    samples: list[tuple[float, float]] = []
    gc.collect()
    gc.disable()
    try:
        for turn in range(pairs):
            order = (1, 0) if turn % 2 else (0, 1)  # caches and clocks favour neither
            taken = {i: clock(works[i], times[i], device, effort.wall) for i in order}
            samples.append((taken[0], taken[1]))
    finally:
        gc.enable()
    return summary(samples)


def summary(samples: Sequence[tuple[float, float]]) -> Timing:
    """Medians and quartiles of pairs (method, reference) of seconds."""
    ratios = [mine / other for mine, other in samples]
    low, middle, high = (
        statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    )
    return Timing(
        statistics.median(mine for mine, _ in samples),
        statistics.median(other for _, other in samples),
        middle,
        low,
        high,
        len(samples),
    )
