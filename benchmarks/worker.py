"""The process that measures one method: reads what to do, writes a line of JSON per length.

Started by ``sweep``; ``python -m benchmarks.worker`` alone waits for it on its stdin.
"""

import json
import os
import pickle
import sys
import time
from dataclasses import asdict
from typing import Any, TextIO

import torch

from selfattn.errors import UserError

from . import memory, timing
from .checks import REFERENCE_LENGTH, CheckFailed
from .method import Method, Plan
from .methods import choose

# Ends of a row that may be reported, and the one that may not.
OK, OUT_OF_MEMORY, SKIPPED = "ok", "out of memory", "skipped"
REFUSED = "refused"


def main() -> int:
    """Read what to do from stdin, do it and print its results."""
    # Results go to the real stdout; whatever a library prints must not stand between them.
    results = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    plan, kind, name = pickle.load(sys.stdin.buffer)  # from the process above this one
    torch.set_num_threads(plan.threads)
    if plan.memory_limit is not None:
        import resource  # not on Windows

        # Allocations fail that would drive the machine into swapping or killing processes.
        resource.setrlimit(resource.RLIMIT_DATA, (plan.memory_limit, plan.memory_limit))
    method, reference = choose(plan.level, [name, plan.reference], plan.methods_module)
    if kind == "memory":  # load what the first step of a process loads, at the smallest size
        method.case(plan.setup, 1, min(16, plan.shapes[0][0])).step()
    seconds = 0.0
    for index, (length, batch) in enumerate(plan.shapes):
        if index and seconds > 0:
            earlier_length, earlier_batch = plan.shapes[index - 1]
            seconds *= (length * batch) / (earlier_length * earlier_batch)
        if seconds > plan.longest:
            _send(results, length, SKIPPED, reason=f"a step takes more than {plan.longest:g} s")
            continue
        try:
            if kind == "memory":
                found = _peak(plan, method, length, batch)
            else:
                found = _time(plan, method, reference, length, batch)
            seconds = found.get("seconds", 0.0)
            _send(results, length, OK, **found)
        except (RuntimeError, MemoryError) as error:
            if not _is_out_of_memory(error):
                raise
            _send(results, length, OUT_OF_MEMORY, reason=str(error).splitlines()[0])
            if plan.setup.device == "cuda":
                torch.cuda.empty_cache()
        except (CheckFailed, UserError) as error:
            _send(results, length, REFUSED, reason=str(error))
    return 0


def _peak(plan: Plan, method: Method, length: int, batch: int) -> dict[str, Any]:
    case = method.case(plan.setup, batch, length)
    if case.stateful or plan.setup.device == "cuda":  # there the first step also compiles
        case.step()
    begin = time.perf_counter()
    taken = memory.peak(case.step, plan.setup.device)
    return {"memory": taken, "seconds": time.perf_counter() - begin}


def _time(plan: Plan, method: Method, reference: Method, length: int, batch: int) -> dict[str, Any]:
    first = length == plan.shapes[0][0]
    method.check(plan.setup, length, against_reference=first or length <= REFERENCE_LENGTH)
    if method.name != reference.name and first:
        reference.check(plan.setup, length)  # once: a ratio to a wrong reference says nothing
    torch.manual_seed(1)
    case, other = (m.case(plan.setup, batch, length) for m in (method, reference))
    found = timing.compare(case.step, other.step, plan.setup.device, plan.effort)
    return {**asdict(found), "parameters": case.parameters}


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(
        words in str(error) for words in ("can't allocate memory", "could not create a memory")
    )


def _send(results: TextIO, length: int, status: str, **values: Any) -> None:
    results.write(json.dumps({"length": length, "status": status, **values}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
