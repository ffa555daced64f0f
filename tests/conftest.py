"""What all tests share: the device, the repository, and commands run as real processes."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import io
import os
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import torch

from selfattn_experiments.commands.verbs import VERBS
from tests import preloaded

ROOT = preloaded.ROOT


class Done(subprocess.CompletedProcess[str]):
    """A command that has ended."""

    def ok(self) -> Done:
        """Itself; a test in which it failed fails with what it printed."""
        assert self.returncode == 0, self.stdout + self.stderr
        return self

    @property
    def lines(self) -> list[str]:
        """All that it printed, the log among it."""
        return (self.stdout + self.stderr).splitlines()


RunCli = Callable[..., Done]

# Over a minute of CPU time each. They run first: at the end other processes would wait for them.
LONGEST = (
    "selfattn_tasks/test_exported.py", "test_readme_commands.py", "test_tutorials.py",
    "selfattn/layers/test_readme.py",
)  # fmt: skip


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
    missing = {}
    if config.getoption("--device") != "cuda":
        missing["gpu"] = "needs an NVIDIA GPU and --device cuda"
    if importlib.util.find_spec("fairseq") is None:
        missing["fairseq"] = "fairseq is not installed"
    for item in items:
        if item.path.parent == preloaded.TESTS / "plugin":
            item.add_marker("fairseq")
        for marker, reason in missing.items():
            if item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))
    places = {preloaded.TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """No bytes in a test's name: those of a gzip file hold the time, and processes must agree."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session", autouse=True)
def _quick_interpreter() -> None:
    """Half of its time goes into checks of overflow, whose results it does not look at, and into
    preparing Triton's language for what kernels call, which keeps it from the first call on.
    """
    with contextlib.suppress(ImportError, AttributeError, TypeError):
        from triton.runtime.interpreter import InterpretedFunction
        from triton.runtime.interpreter import interpreter_builder as builder

        builder.options = dataclasses.replace(builder.options, sanitize_overflow=False)
        first, prepared = InterpretedFunction.__call__, set()

        def call(self: InterpretedFunction, *args: object, **kwargs: object) -> object:
            if self in prepared:
                return self.rewrite()(*args, **kwargs)
            prepared.add(self)
            return first(self, *args, **kwargs)

        InterpretedFunction.__call__ = call


@pytest.fixture(autouse=True)
def _seed() -> None:
    """A test draws the same numbers alone, beside others, and in whatever order."""
    torch.manual_seed(1)


@pytest.fixture(autouse=True)
def _sigterm() -> Iterator[None]:
    """A command run in this process leaves its handler, which would keep a pool's forks alive."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def device(request: pytest.FixtureRequest) -> torch.device:
    """The device named by --device."""
    return torch.device(request.config.getoption("--device"))


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """The root of the clone."""
    return ROOT


@pytest.fixture(scope="session")
def server() -> Iterator[preloaded.Server]:
    """Runs commands in processes that have torch and fairseq imported."""
    with preloaded.Server() as running:
        yield running


@pytest.fixture(scope="session")
def run_cli(server: preloaded.Server) -> RunCli:
    """A function that runs a command: ``run_cli(["-m", "selfattn.info"], cwd=..., NAME="value")``.

    The arguments go to this Python; `python=` names another one. A script may be named from the
    root of the repository wherever it runs. Of the caller's environment only what a process needs
    is passed on, so that a developer's settings cannot change the result.
    Scripts and modules run in a process that has libraries imported (`preloaded`), unless `fresh`;
    code after ``-c``, which may be about imports, only if `fresh` is False.
    """

    def run(
        args: Sequence[str | Path],
        *,
        cwd: Path = ROOT,
        python: str | Path = sys.executable,
        stdin: str = "",
        timeout: float = 300,
        fresh: bool | None = None,
        **env: str,
    ) -> Done:
        words = [*map(str, args)]
        if (ROOT / words[0]).is_file() and not Path(cwd, words[0]).exists():
            words[0] = str(ROOT / words[0])
        env = {**preloaded.basic_environment(), **env}
        if env.get("PYTHON") == sys.executable:  # of a shell script
            env["PYTHON"] = server.python
        served = not fresh and preloaded.can_run(words, env, code=fresh is False)
        if str(python) == sys.executable and served:
            done = server.run(words, cwd, env, stdin, timeout)
        else:
            done = subprocess.run(
                [str(python), *words],
                cwd=cwd,
                env=env,
                input=stdin,
                text=True,
                capture_output=True,
                timeout=timeout,
            )
        return Done(done.args, done.returncode, done.stdout, done.stderr)

    return run


def free_port() -> int:
    """A port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def pack(path: Path, files: Mapping[str, bytes]) -> Path:
    """Write a .tar.gz archive."""
    with tarfile.open(path, "w:gz") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def run_verb(name: str, *words: str | Path) -> None:
    """Run a command of `selfattn` in this process: ``run_verb("export", "--to", "hf", ...)``."""
    verb = VERBS[name]
    verb.run(verb.load_parser(f"selfattn {name}"), [*map(str, words)])
