"""Where results come from: machine, versions, commit, command."""

import datetime
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

import torch

from selfattn import __version__
from selfattn.info import installed
from selfattn_tasks.cli import typed_command

FACTS = "cpu cores gpu python torch triton selfattn commit date command".split()
_ROOT = Path(__file__).resolve().parents[1]


def facts(device: str) -> dict[str, str]:
    """A string for each of ``FACTS``; empty where it does not apply."""
    return {
        "cpu": _cpu(),
        "cores": str(os.cpu_count()),
        "gpu": torch.cuda.get_device_name() if device == "cuda" else "",
        "python": platform.python_version(),
        "torch": torch.__version__ + _matmul(),
        "triton": installed("triton") or "",
        "selfattn": __version__,
        "commit": _commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "command": typed_command(),
    }


def _matmul() -> str:
    """The precision of float32 products, where somebody has changed it."""
    chosen = torch.get_float32_matmul_precision()
    return "" if chosen == "highest" else f", float32 products {chosen}"


def _cpu() -> str:
    """The CPU's name; its family and model too, since virtual machines hide the name."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    found = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", text, re.MULTILINE))
    if "model name" not in found:
        return platform.machine()
    numbers = f"family {found.get('cpu family', '?')} model {found.get('model', '?')}"
    return f"{found['model name']} ({numbers})"


def _commit() -> str:
    """The clone's commit, with ``+`` if a tracked file was changed since; empty outside of one.

    ``?`` stands for what git does not tell.
    """
    if shutil.which("git") is None or not (_ROOT / ".git").exists():
        return ""
    # A hook's GIT_DIR is another repository; a cluster's clone may be another user's.
    environment = {name: v for name, v in os.environ.items() if not name.startswith("GIT_")}

    def git(*words: str) -> str | None:
        command = ["git", "-c", f"safe.directory={_ROOT}", *words]
        done = subprocess.run(command, cwd=_ROOT, env=environment, capture_output=True, text=True)
        return None if done.returncode else done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no")
    mark = "?" if changed is None else "+" if changed else ""
    return (git("rev-parse", "--short=10", "HEAD") or "?") + mark
