"""The tests on each Python at hand, for `make matrix`; `nox --list` names the sessions."""

import os
import shutil

import nox

nox.needs_version = ">=2025.2"
nox.options.default_venv_backend = "venv"
nox.options.error_on_missing_interpreters = False
nox.options.reuse_venv = "yes"

TORCH = os.environ.get("TORCH", "")  # e.g. a wheel of a CPU build
# Left by setuptools; a module that is gone would come back from them.
BUILDS = ("build", "distributions/selfattn-fairseq/build")


@nox.session(python=["3.10", "3.11", "3.12", "3.13"])
def core(session: nox.Session) -> None:
    """Layers, tasks and Hugging Face models without fairseq, on the newest packages that fit."""
    for folder in BUILDS:
        shutil.rmtree(folder, ignore_errors=True)
    session.install(
        "--use-pep517",  # seqeval has no wheel
        TORCH or "torch", ".[hf]", "./distributions/selfattn-fairseq[text]", "onnx", "onnxscript",
        "pytest>=8", "pytest-xdist", "setuptools>=77.0.3",
    )  # fmt: skip
    _test(session, "-m", "not fairseq")


@nox.session(python=["3.11", "3.12"])
def fairseq(session: nox.Session) -> None:
    """Everything, on the pinned packages of `make env`."""
    torch = ["--torch", TORCH] if TORCH else []
    venv = ["--venv", session.virtualenv.location]
    session.run("python", "scripts/setup_env.py", "base", "dev", "docs", *torch, *venv)
    _test(session)


def _test(session: nox.Session, *flags: str) -> None:
    words = session.posargs or ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
    session.run("python", "-m", "pytest", *flags, *words, env={"OMP_NUM_THREADS": "1"})
