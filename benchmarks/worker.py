"""The process that measures one method: reads a task as JSON, writes a line of JSON per length.

Started by ``sweep``; ``python -m benchmarks.worker`` alone waits for a task on its stdin.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import torch

from selfattn.errors import UserError

from . import memory, timing
from .checks import CheckFailed
from .method import Method, Setup
from .methods import choose

# Ends of a row that may be reported, and ends that may not.
OK, OUT_OF_MEMORY, SKIPPED = "ok", "out of memory", "skipped"
WRONG, FAILED = "wrong", "failed"


@dataclass(frozen=True)
class Conditions:
    """What all measurements of a run share.

    Args:
        level: of the methods.
        reference: name of the method that ratios are taken to.
        setup: device, dtype, mode and widths.
        shapes: pairs (length, batch) in tokens and sentences, ascending.
        threads: of the CPU.
        effort: how long to time.
        longest: skip a length if one step must take longer than this, in seconds.
        memory_limit: bytes that a process may allocate on a CPU; None sets no limit.
        methods_module: a Python file with further methods.
    """

    level: str
    reference: str
    setup: Setup
    shapes: list[tuple[int, int]]
    threads: int
    effort: timing.Effort
    longest: float
    memory_limit: int | None
    methods_module: Path | None


@dataclass(frozen=True)
class Task(Conditions):
    """What a worker is to do.

    Args:
        kind: ``"time"`` or ``"memory"``.
        method: name of the method to measure.
    """

    kind: str
    method: str

    def to_json(self) -> str:
        """The task as one line of JSON."""
        return json.dumps(asdict(self), default=str)  # a path is written as text

    @classmethod
    def from_json(cls, line: str) -> Task:
        """The task that ``to_json`` wrote."""
        values = json.loads(line)
        values["setup"] = Setup(**values["setup"])
        values["effort"] = timing.Effort(**values["effort"])
        values["shapes"] = [tuple(shape) for shape in values["shapes"]]
        if values["methods_module"] is not None:
            values["methods_module"] = Path(values["methods_module"])
        return cls(**values)


def main() -> int:
    """Read a task from stdin, run it and print its results."""
    # Results go to the real stdout; whatever a library prints must not stand between them.
    results = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    task = Task.from_json(sys.stdin.readline())
    torch.set_num_threads(task.threads)
    if task.memory_limit is not None and task.setup.device == "cpu":
        _limit(task.memory_limit)
    method, reference = choose(task.level, [task.method, task.reference], task.methods_module)
    if task.kind == "memory":
        _warm_up(method, task)
    seconds = 0.0
    for index, (length, batch) in enumerate(task.shapes):
        if index and seconds > 0:
            earlier_length, earlier_batch = task.shapes[index - 1]
            seconds *= (length * batch) / (earlier_length * earlier_batch)
        if seconds > task.longest:
            _send(results, length, SKIPPED, reason=f"a step takes more than {task.longest:g} s")
            continue
        try:
            found = _measure(task, method, reference, length, batch)
            seconds = found.get("seconds", 0.0)
            _send(results, length, OK, **found)
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            _send(results, length, OUT_OF_MEMORY, reason=str(error).splitlines()[0])
            if task.setup.device == "cuda":
                torch.cuda.empty_cache()
        except CheckFailed as error:
            _send(results, length, WRONG, reason=str(error))
        except UserError as error:
            _send(results, length, FAILED, reason=str(error))
    return 0


def _measure(
    task: Task, method: Method, reference: Method, length: int, batch: int
) -> dict[str, Any]:
    if task.kind == "memory":
        case = method.case(task.setup, batch, length)
        if case.stateful:
            case.step()
        begin = time.perf_counter()
        taken = memory.peak(case.step, task.setup.device)
        return {"memory": taken, "seconds": time.perf_counter() - begin}
    method.check(task.setup, length)
    if method.name != reference.name and length == task.shapes[0][0]:
        reference.check(task.setup, length)  # once: a ratio to a wrong reference says nothing
    torch.manual_seed(1)
    case = method.case(task.setup, batch, length)
    other = reference.case(task.setup, batch, length)
    found = timing.compare(case.step, other.step, task.setup.device, task.effort)
    return {**asdict(found), "parameters": case.parameters}


def _warm_up(method: Method, task: Task) -> None:
    """Load what the first step of a process loads, at the smallest size."""
    method.case(task.setup, 1, min(16, task.shapes[0][0])).step()


def _limit(limit: int) -> None:
    """Let allocations fail that would drive the machine into swapping or killing processes."""
    try:
        import resource
    except ImportError:  # not on this system
        return
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(
        words in str(error) for words in ("can't allocate memory", "could not create a memory")
    )


def _send(results: TextIO, length: int, status: str, **values: Any) -> None:
    results.write(json.dumps({"length": length, "status": status, **values}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
