"""All tests with ``--device cuda``, a group at a time, kernels first."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

from .results import Results

SHOWN = ("group", "tests", "failures", "errors", "skipped", "time", "names")
_ROOT = Path(__file__).resolve().parents[2]
_PARALLEL = ("-n", "auto", "--maxprocesses", "16", "--dist")
# Of a group, in seconds: one that hangs must leave time for others, and say so.
_LONGEST = int(os.environ.get("LIMIT", "480")) // 2


def run(results: Results) -> None:
    """Run the groups that did not pass yet; the dry run has one small file."""
    names = ["tests/selfattn/test_masks.py"] if results.dry else list(groups())
    # Last what failed before, so that a group that hangs does not keep others from their turn.
    for group in sorted(names, key=lambda name: bool(results.find(group=name))):
        if not results.find(group=group, failures="0", errors="0"):
            results.drop(group=group)
            log = results.folder / "tests.log"
            results.add({"group": group, **_counts(group, results.device, log)})


def groups() -> Iterator[str]:
    """Folders and files of tests, first those of Triton's kernels, then of the other operators.

    Both are one group, of several words: to start the processes of a group takes many seconds.
    """
    core = Path("tests", "selfattn")
    for fused in (True, False):
        found = sorted((_ROOT / core / "ops").glob("test_*.py"))
        yield " ".join(f"{core}/ops/{p.name}" for p in found if ("fused" in p.name) == fused)
    for folder in (core, core.parent):
        for path in sorted((_ROOT / folder).glob("[!_]*")):
            is_test = path.name.startswith("test_") or any(path.rglob("test_*.py"))
            if is_test and path.name not in (core.name, "ops"):
                yield f"{folder}/{path.name}"


def _counts(group: str, device: str, log: Path) -> dict[str, object]:
    """Numbers of a group's tests, and those that failed; what pytest says of each is in the log."""
    with tempfile.TemporaryDirectory() as folder, log.open("a", encoding="utf-8") as said:
        report = Path(folder, "report.xml")
        # Verbose: of a group that is stopped, the log names the tests that are done.
        flags = ["-v", "--tb=short", "--device", device, f"--junitxml={report}"]
        spread = (*_PARALLEL, "load" if group.endswith(".py") else "loadfile")
        parallel = () if device == "cpu" else spread
        command = [sys.executable, "-m", "pytest", *group.split(), *flags, *parallel]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}  # the processes fill the cores
        running = subprocess.Popen(command, cwd=_ROOT, env=env, stdout=said, stderr=said)
        try:
            code = running.wait(_LONGEST)
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)  # pytest says what has failed so far
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(20)
            running.kill()
            return {"names": f"stopped after {_LONGEST} s"}
        if not report.exists():
            return {"names": f"pytest ended with code {code} and wrote no report"}
        suite = next(ET.parse(report).getroot().iter("testsuite"))
    numbers = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
    failed = {
        f"{case.get('classname')}.{case.get('name')}": str(found.get("message"))[:300]
        for kind in ("failure", "error")
        for case in suite.iter("testcase")
        if (found := case.find(kind)) is not None
    }
    return {**numbers, "names": " ".join(failed), "reasons": " | ".join(failed.values())}
