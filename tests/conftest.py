"""What all tests share: the device, the repository, and commands run as real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[1]

RunCli = Callable[..., subprocess.CompletedProcess[str]]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device", choices=["cpu", "cuda"], default="cpu",
        help="where Triton kernels run: on the CPU in Triton's interpreter, or on a GPU",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU and --device cuda")
    on_gpu = config.getoption("--device") == "cuda"
    if on_gpu and not torch.cuda.is_available():
        raise pytest.UsageError("--device cuda: this machine has no NVIDIA GPU, or torch no CUDA")
    # Triton asks once, when kernels are first imported; without Triton nobody asks.
    os.environ["TRITON_INTERPRET"] = "0" if on_gpu else "1"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--device") != "cuda":
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="needs an NVIDIA GPU and --device cuda"))


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> torch.device:
    """The device named by --device."""
    return torch.device(request.config.getoption("--device"))


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
