"""What setup_env.py looks at before it writes anything. In Python 3.6 syntax, as it is."""

import os
import platform
import re
import shutil
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path

FITTING = ((3, 11), (3, 12))


class SetupError(Exception):
    """What went wrong and what to do, in one sentence."""


def check_python(found: "tuple[int, ...]", venv: "Path | None" = None) -> None:
    """Raise SetupError unless `found` (of `venv`, if given) is a version that was tried."""
    if tuple(found[:2]) not in FITTING:
        allowed = " or ".join("{}.{}".format(*pair) for pair in FITTING)
        number = ".".join(str(part) for part in found[:3])
        if venv:
            raise SetupError(
                f"{venv} was made with Python {number}, and Python {allowed} is needed: "
                "move it away and run the same command again"
            )
        raise SetupError(
            f"this is Python {number} ({sys.executable}), and Python {allowed} is needed: "
            "install one and name it, as in: make env PYTHON=python3.11"
        )


def has_wheel(
    version: "tuple[int, ...]", system: str, machine: str, libc: "tuple[str, str]"
) -> bool:
    """Whether fairseq-fixed comes compiled for this machine (as one wheel, for Python 3.12)."""
    number = tuple(int(part) for part in re.findall(r"\d+", libc[1])[:2])
    glibc = libc[0] == "glibc" and number >= (2, 28)
    return tuple(version[:2]) == (3, 12) and system == "Linux" and machine == "x86_64" and glibc


def check_compiler(version: "tuple[int, ...]") -> None:
    """Raise SetupError where this version needs fairseq-fixed compiled and cannot have it."""
    if has_wheel(version, platform.system(), platform.machine(), platform.libc_ver()):
        return
    names = [os.environ.get("CXX", "").split(" ")[0], "g++", "c++", "clang++"]
    if not any(shutil.which(name) for name in names if name):
        raise SetupError(
            "no C++ compiler was found (g++, c++ or clang++), and fairseq-fixed must be compiled: "
            "install one, on Debian or Ubuntu with: sudo apt-get install g++ (on many clusters: "
            "module load gcc)"
        )
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    if tuple(version[:2]) == sys.version_info[:2] and not header.is_file():
        raise SetupError(
            f"Python's C headers are missing ({header}), and fairseq-fixed must be compiled: "
            "install them, on Debian or Ubuntu with: sudo apt-get install "
            "python{}.{}-dev".format(*sys.version_info[:2])
        )


def check_venv_module() -> None:
    """Raise SetupError where this Python cannot make an environment with pip in it."""
    if not (find_spec("venv") and find_spec("ensurepip")):
        raise SetupError(
            "this Python cannot make environments (venv or ensurepip is missing): install it, on "
            "Debian or Ubuntu with: sudo apt-get install "
            "python{}.{}-venv".format(*sys.version_info[:2])
        )


def check_disk(folder: Path, needed_mb: int) -> int:
    """Raise SetupError unless `folder` has `needed_mb` MB free; return how many it has."""
    free = shutil.disk_usage(str(folder)).free // 2**20
    if free < needed_mb:
        raise SetupError(
            f"too little disk space in {folder}: {needed_mb} MB are needed and {free} MB are free"
        )
    return free
