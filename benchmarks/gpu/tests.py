"""Stage 1: all tests with ``--device cuda``, a group at a time, kernels first."""

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

from .results import Results

SHOWN = ("group", "tests", "failures", "errors", "skipped", "time", "names")
_ROOT = Path(__file__).resolve().parents[2]
_PARALLEL = ("-n", "8", "--dist")


def run(results: Results) -> None:
    """Run the groups that did not pass yet; the dry run has one small file."""
    for group in ["tests/selfattn/test_masks.py"] if results.dry else groups():
        if not results.find(group=group, failures="0", errors="0"):
            results.drop(group=group)
            results.add({"group": group, **_counts(group, results.device)})


def groups() -> Iterator[str]:
    """Folders and files of tests, first those of the operators, and of these Triton's kernels."""
    core = _ROOT / "tests" / "selfattn"
    operators = sorted((core / "ops").glob("*.py"), key=lambda path: "fused" not in path.name)
    found = [*operators, *sorted(core.glob("[!_]*")), *sorted((_ROOT / "tests").glob("[!_]*"))]
    for path in dict.fromkeys(found):
        is_test = path.name.startswith("test_") or (path.is_dir() and any(path.rglob("test_*.py")))
        if is_test and path not in (core, core / "ops"):
            yield path.relative_to(_ROOT).as_posix()


def _counts(group: str, device: str) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        flags = ["-q", "--device", device, f"--junitxml={report}"]
        spread = (*_PARALLEL, "load" if group.endswith(".py") else "loadfile")
        parallel = () if device == "cpu" else spread
        subprocess.run([sys.executable, "-m", "pytest", group, *flags, *parallel], cwd=_ROOT)
        if not report.exists():
            return {"names": "pytest did not end"}
        suite = next(ET.parse(report).getroot().iter("testsuite"))
    numbers = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped", "time")}
    cases = [c for c in suite.iter("testcase") if c.find("failure") is not None]
    cases += [c for c in suite.iter("testcase") if c.find("error") is not None]
    return {**numbers, "names": " ".join(f"{c.get('classname')}.{c.get('name')}" for c in cases)}
