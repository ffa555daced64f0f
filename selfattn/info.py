"""What the layers find on this machine, and what to do about the rest: `python -m selfattn.info`.

`selfattn info`, of the distribution selfattn-fairseq, adds what training and scoring need.
"""

import argparse
import dataclasses
import importlib.metadata
import json
import platform
import shutil
from collections.abc import Sequence
from typing import Any

from . import __version__


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


def import_torch() -> tuple[Any, str | None]:
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
    return dataclasses.replace(record, usable=False, advice=f"install it again; it says: {error}")


def _triton(gpu: bool) -> Record:
    version = installed("triton")
    if version is not None:
        return Record("Versions", "triton", version)
    advice = "to use GPU kernels: pip install triton" if gpu else None
    return Record("Versions", "triton", "not installed, needed on a GPU only", not gpu, advice)


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
    """Look at this machine; the report's lines are in the order of the screen."""
    torch, error = import_torch()
    compiler = next(filter(shutil.which, ("gcc", "cc", "clang")), "gcc")
    gpu = torch is not None and torch.cuda.is_available()
    return [
        Record("Versions", "selfattn", __version__),
        Record("Versions", "python", platform.python_version()),
        _torch_version(error),
        version("numpy", "pip install numpy==2.3.5"),
        _triton(gpu),
        *_backends(gpu),
        command(compiler, "for the fast attention on a CPU, another C compiler will do"),
        command("g++", "only to compile: torch.compile"),
    ]


def render(records: Sequence[Record]) -> str:
    """Format a report for one screen: a line each, and a line of advice where there is one."""
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
