"""Time two steps in turns, so that whatever slows the machine slows both."""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

Step = Callable[[], None]


@dataclass(frozen=True)
class Effort:
    """How long to measure.

    Args:
        seconds: to spend on a method and its reference at one length.
        sample: about how many seconds a sample lasts; short steps are repeated for it.
        least: number of pairs of samples even if that takes longer.
        most: number of pairs at which to stop before the seconds are spent.
        wall: on a CPU, whether to measure elapsed time instead of CPU time.
    """

    seconds: float = 8.0
    sample: float = 0.1
    least: int = 5
    most: int = 50
    wall: bool = False


@dataclass(frozen=True)
class Timing:
    """Seconds per step, medians over the pairs of samples, and the ratio of the pairs.

    Args:
        seconds: of the method.
        reference_seconds: of the reference.
        ratio: median over pairs of method / reference.
        ratio_low: lower quartile of the same.
        ratio_high: upper quartile.
        pairs: how many there were.
    """

    seconds: float
    reference_seconds: float
    ratio: float
    ratio_low: float
    ratio_high: float
    pairs: int


def clock(step: Step, times: int, device: str, wall: bool = False) -> float:
    """Seconds per step: CPU time of this process (all its threads), or CUDA time between events.

    Args:
        step: the work.
        times: how often to repeat it.
        device: ``"cpu"`` or ``"cuda"``.
        wall: on a CPU, elapsed time instead.
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
    """Time a step against a reference, one sample of each in turns.

    Args:
        step: the method's work.
        reference: the reference's work.
        device: ``"cpu"`` or ``"cuda"``.
        effort: how long.

    Returns:
        Medians and quartiles.
    """
    times: list[int] = []
    single: list[float] = []
    for work in (step, reference):
        work()  # the first step compiles, allocates and tunes
        single.append(max(clock(work, 1, device, effort.wall), 1e-6))
        times.append(max(1, round(effort.sample / single[-1])))
    cost = sum(count * seconds for count, seconds in zip(times, single, strict=True))
    pairs = min(effort.most, max(effort.least, int(effort.seconds / cost)))
    samples: list[tuple[float, float]] = []
    gc.collect()
    gc.disable()
    try:
        for turn in range(pairs):
            first = turn % 2  # who goes first changes: caches and clocks favour neither
            taken = [0.0, 0.0]
            for which in (first, 1 - first):
                taken[which] = clock((step, reference)[which], times[which], device, effort.wall)
            samples.append((taken[0], taken[1]))
    finally:
        gc.enable()
    return summary(samples)


def summary(samples: Sequence[tuple[float, float]]) -> Timing:
    """Medians and quartiles of pairs (method, reference) of seconds.

    Args:
        samples: pairs (method, reference) in seconds.
    """
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
