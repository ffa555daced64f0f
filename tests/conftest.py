"""What all tests share: the repository, and commands run as real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

RunCli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The root of the clone."""
    return ROOT


@pytest.fixture(scope="session")
def run_cli() -> RunCli:
    """A function that runs a command: ``run_cli(["-m", "selfattn.info"], cwd=..., NAME="value")``.

    The arguments go to this Python; `python=` names another one. Of the caller's environment only
    what a process needs is passed on, so that a developer's settings cannot change the result.
    """

    def run(
        args: Sequence[str | Path],
        *,
        cwd: Path = ROOT,
        python: str | Path = sys.executable,
        stdin: str = "",
        timeout: float = 300,
        **env: str,
    ) -> subprocess.CompletedProcess[str]:
        passed = {n: os.environ[n] for n in ("HOME", "LANG", "PATH", "TMPDIR") if n in os.environ}
        return subprocess.run(
            [str(python), *map(str, args)],
            cwd=cwd,
            env={**passed, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", **env},
            input=stdin,
            text=True,
            capture_output=True,
            timeout=timeout,
        )

    return run
