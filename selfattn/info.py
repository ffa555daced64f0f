"""What the layers find on this machine, and what to do about the rest: `python -m selfattn.info`.

`selfattn info`, of the distribution selfattn-fairseq, adds what training and scoring need.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
from collections.abc import Sequence
from typing import Any

from . import __version__

COMPILERS = (
    ("gcc", "for the fast attention on a CPU, another C compiler will do"),
    ("g++", "only to compile: torch.compile"),
)


@dataclasses.dataclass(frozen=True)
class Record:
    """One line of the report.

    Attributes:
        section: the heading it stands under.
        name: the package, device or backend.
        value: its version or state.
        usable: whether it can be used as it is.
        advice: one sentence that says what to do; always given where not usable.
        extra: what brings it, where the layers alone do not need it.
    """

    section: str
    name: str
    value: str
    usable: bool = True
    advice: str | None = None
    extra: str | None = None


def installed(distribution: str) -> str | None:
    """The version of an installed distribution, without importing it; None where there is none."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _import_torch() -> tuple[Any, str | None]:
    """torch and None, or None and the reason why it cannot be imported."""
    try:
        import torch
    except Exception as error:  # a broken install raises OSError and others: report, do not die
        return None, f"{type(error).__name__}: {error}".splitlines()[0]
    return torch, None


def version(name: str, advice: str, extra: str | None = None) -> Record:
    """An installed distribution; the advice is for where it is missing."""
    found = installed(name)
    if found is None:
        return Record("Versions", name, "missing", False, advice, extra)
    return Record("Versions", name, found, extra=extra)


def _torch_version(error: str | None) -> Record:
    record = version("torch", "pip install 'torch>=2.6'")
    if error is None or not record.usable:
        return record
    advice = f"install it again; it says: {error}"
    return dataclasses.replace(record, usable=False, advice=advice)


def _triton(gpu: bool) -> Record:
    version = installed("triton")
    if version is not None:
        return Record("Versions", "triton", version)
    advice = "to use GPU kernels: pip install triton" if gpu else None
    return Record("Versions", "triton", "not installed, needed on a GPU only", not gpu, advice)


def _devices(torch: Any) -> list[Record]:
    """CPU threads and each GPU."""
    if torch is None:
        return [Record("Devices", "CPU", f"{os.cpu_count()} threads")]
    threads = f"{os.cpu_count()} threads, torch uses {torch.get_num_threads()}"
    records = [Record("Devices", "CPU", threads)]
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        facts = torch.cuda.get_device_properties(index)
        # Emulated bfloat16 on old cards is slower than float32, so it does not count.
        bf16 = "bfloat16" if facts.major >= 8 else "no bfloat16 (use --amp with float16)"
        memory = f"{facts.total_memory / 2**30:.0f} GB"
        value = f"{facts.name}, capability {facts.major}.{facts.minor}, {memory}, {bf16}"
        records.append(Record("Devices", f"GPU {index}", value))
    if len(records) == 1:
        records.append(_no_gpu(torch))
    return records


def _no_gpu(torch: Any) -> Record:
    """Why there is no GPU: none in the machine, a CPU build of torch, or a driver that fails."""
    if shutil.which("nvidia-smi") is None:
        return Record("Devices", "GPU", "none found, training runs on the CPU")
    if torch.version.cuda is None:
        advice = "install the CUDA build of the same torch version, then make env again"
        return Record("Devices", "GPU", "not usable: torch is a CPU build", False, advice)
    advice = (
        f"see that nvidia-smi runs and that the driver is new enough for CUDA {torch.version.cuda}"
    )
    return Record("Devices", "GPU", "not usable: torch finds no device", False, advice)


def _backends(gpu: bool) -> list[Record]:
    """Each backend of the attention operators."""
    section = "Attention backends"
    try:
        from .ops import backends

        found = backends()
    except Exception as error:  # whatever breaks here is what the user wants to read about
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        advice = f"fix what is listed above; the import says: {said}"
        return [Record(section, "all", "not usable", False, advice)]
    records = []
    for name, reason in found.items():
        if reason is None:
            records.append(Record(section, name, "usable"))
        elif name.endswith("GPU") and not gpu:  # nothing to mend in a machine without one
            records.append(Record(section, name, f"not here: {reason}"))
        else:
            records.append(Record(section, name, "not usable", False, reason))
    return records


def command(name: str, purpose: str, extra: str | None = None) -> Record:
    """Where a program is; the purpose is for where it is missing."""
    path = shutil.which(name)
    if path is not None:
        return Record("Commands", name, path, extra=extra)
    advice = f"{purpose}; install the package {name}"
    return Record("Commands", name, "not found", False, advice, extra)


def collect() -> list[Record]:
    """Look at this machine.

    Returns:
        The report's lines in the order of the screen.
    """
    torch, error = _import_torch()
    gpu = torch is not None and torch.cuda.is_available()
    return [
        Record("Versions", "selfattn", __version__),
        Record("Versions", "python", platform.python_version()),
        _torch_version(error),
        version("numpy", "pip install numpy==2.3.5"),
        _triton(gpu),
        *_devices(torch),
        *_backends(gpu),
        *(command(name, purpose) for name, purpose in COMPILERS),
    ]


def render(records: Sequence[Record]) -> str:
    """Format the report for one screen: a line each, and a line of advice where there is one.

    Args:
        records: what `collect` returned.

    Returns:
        The text, without a final line break.
    """
    width = max(len(record.name) for record in records)
    lines: list[str] = []
    section = None
    for record in records:
        if record.section != section:
            section = record.section
            lines.append(section)
        mark = " " if record.usable else "!"
        lines.append(f"{mark} {record.name:<{width}}  {record.value}")
        if record.advice is not None:
            lines.append(f"  {'':<{width}}  -> {record.advice}")
    return "\n".join(lines)


def show(records: Sequence[Record], as_json: bool) -> None:
    """Print a report, as text or as a JSON list."""
    if as_json:
        print(json.dumps([dataclasses.asdict(record) for record in records], indent=1))
    else:
        print(render(records))


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command to its parser."""
    parser.add_argument("--json", action="store_true", help="print a JSON list of records")


def main() -> None:
    """Run ``python -m selfattn.info``."""
    parser = argparse.ArgumentParser(
        prog="python -m selfattn.info",
        description="Show what the attention layers can use, and how to fix what they cannot.",
        epilog="example: python -m selfattn.info --json > machine.json",
    )
    add_flags(parser)
    show(collect(), parser.parse_args().json)


if __name__ == "__main__":
    main()
