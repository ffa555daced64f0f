"""A run: for each method one process for its times, another for its memory."""

import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import selfattn
from selfattn_experiments.machine import facts

from . import memory
from .method import Method, Plan
from .methods import choose
from .table import Row, number
from .timing import Timing
from .worker import OK, OUT_OF_MEMORY, REFUSED

Say = Callable[[str], None]
Result = dict[str, Any]
# What a worker that timed a method says about it, under the names of ``Row``.
MEASURED = ("parameters", *(f.name for f in fields(Timing)))
# Below this, a peak is what the allocator rounds to, and a ratio would mean nothing.
_LEAST_MIB = 1.0


def run(
    plan: Plan, say: Say, keep: Callable[[Sequence[Row]], None]
) -> tuple[list[Row], list[Result]]:
    """Measure.

    Args:
        plan: what.
        say: takes a line about the progress.
        keep: takes all rows so far after each method, so that an interrupted run leaves something.

    Returns:
        Rows that may be reported, in the order of methods and lengths, and method, length and
        reason of each that may not be, because its results are wrong.
    """
    rows: list[Row] = []
    refused: list[Result] = []
    origin = facts(plan.setup.device)
    peaks = plan.with_memory and memory.measurable(plan.setup.device)
    if plan.with_memory and not peaks:
        say("peak memory is not measured: that needs Linux or a GPU")
    reference_peaks: dict[int, Result] = {}
    if peaks:
        say(f"{plan.reference}: memory")
        reference_peaks = _worker(plan, "memory", plan.reference)
    for number_of, method in enumerate(choose(plan.level, plan.methods, plan.methods_module), 1):
        ahead = f"{method.name} ({number_of} of {len(plan.methods)})"
        held = reference_peaks
        if peaks and method.name != plan.reference:
            say(f"{ahead}: memory")
            held = _worker(plan, "memory", method.name)

        def progress(result: Result, ahead: str = ahead) -> None:
            ratio = f", {number(result['ratio'])} x {plan.reference}" if "ratio" in result else ""
            say(f"{ahead}: length {result['length']}: {result['status']}{ratio}")

        say(f"{ahead}: check and time")
        times = _worker(plan, "time", method.name, progress)
        for length, batch in plan.shapes:
            result = times[length]
            if result["status"] == REFUSED:
                refused.append(
                    {"method": method.name, "length": length, "reason": result["reason"]}
                )
                continue
            row = _row(plan, method, length, batch, result, origin)
            _add_memory(row, held.get(length), reference_peaks.get(length))
            rows.append(row)
        keep(rows)
    return rows, refused


def _row(
    plan: Plan, method: Method, length: int, batch: int, result: Result, origin: dict[str, str]
) -> Row:
    setup = asdict(plan.setup)
    del setup["ffn_dim"]  # of encoders alone
    return Row(
        **setup,
        level=plan.level,
        threads=plan.threads,
        length=length,
        batch=batch,
        method=method.name,
        label=method.label,
        reference=plan.reference,
        status=result["status"],
        facts=origin,
        **{name: result[name] for name in MEASURED if name in result},
    )


def _add_memory(row: Row, mine: Result | None, reference: Result | None) -> None:
    if mine is None or mine["status"] != OK:
        return
    row.memory_mib = mine["memory"] / 2**20
    if reference is not None and reference["status"] == OK:
        row.reference_memory_mib = reference["memory"] / 2**20
        if row.reference_memory_mib >= _LEAST_MIB:
            row.memory_ratio = row.memory_mib / row.reference_memory_mib


def _worker(
    plan: Plan, kind: str, method: str, progress: Callable[[Result], None] | None = None
) -> dict[int, Result]:
    """Run a worker and collect its results by length; each length gets one."""
    found: dict[int, Result] = {}
    stuck = threading.Event()

    def give_up() -> None:
        stuck.set()
        process.kill()

    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=_environment(plan.threads, kind),
        )
        timer = threading.Timer(plan.give_up or threading.TIMEOUT_MAX, give_up)
        timer.daemon = True
        timer.start()
        try:
            assert process.stdin is not None and process.stdout is not None
            pickle.dump((plan, kind, method), process.stdin)
            process.stdin.close()
            for line in process.stdout:
                result = json.loads(line)
                found[result["length"]] = result
                if progress is not None:
                    progress(result)
            code = process.wait()
        finally:
            timer.cancel()
            process.kill()
            process.wait()
        errors.seek(0)
        ending = _ending(code, errors.read())
    if stuck.is_set():
        ending = {"status": REFUSED, "reason": f"its process was killed after {plan.give_up:g} s"}
    for length, _ in plan.shapes:  # a worker that died owes the rest
        found.setdefault(length, {"length": length, **ending})
    return found


def _environment(threads: int, kind: str) -> dict[str, str]:
    """Where a worker finds this package, how many threads it has, how it allocates."""
    root = str(Path(selfattn.__file__).resolve().parents[1])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    count = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    allocator = memory.ENVIRONMENT if kind == "memory" else {}
    return {**os.environ, "PYTHONPATH": path, **count, **allocator}


def _ending(code: int, errors: str) -> Result:
    """The result for lengths that a dead worker did not report."""
    if code == -signal.SIGKILL:  # the system's answer to a process that takes too much memory
        return {"status": OUT_OF_MEMORY, "reason": "killed"}
    last = next((line for line in reversed(errors.splitlines()) if line.strip()), "no message")
    return {"status": REFUSED, "reason": f"its process ended with code {code}: {last.strip()}"}
