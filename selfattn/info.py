"""What is installed, what is usable, and what to do about the rest: `python -m selfattn.info`."""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from . import __version__, _user_dir
from .cli import run

FAIRSEQ = "fairseq-fixed==0.12.3.1"
# What the layers alone do not need, and how it is had.
EXTRA = "fairseq"
EXTRA_ADVICE = (
    "to train, translate, tag, score and compare: pip install 'selfattn[fairseq]', or in a clone "
    "make env"
)
# Distribution, and what it is for: shown where it is missing.
PACKAGES = (
    ("sacrebleu", "to score translations"),
    ("scipy", "to compare systems"),
    ("sentencepiece", "to prepare text"),
    ("seqeval", "to score tagging"),
    ("tensorboard", "to look at training curves"),
    ("matplotlib", "to draw the demo's learning curve"),
)
COMMANDS = (
    ("perl", "only for the official SRL scorer", EXTRA),
    ("gcc", "for the fast attention on a CPU, another C compiler will do", None),
    ("g++", "only to compile: torch.compile", None),
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


def _python() -> Record:
    """This Python; the whole stack was tried with 3.11 and 3.12."""
    tried = sys.version_info[:2] in ((3, 11), (3, 12))
    advice = None if tried else "training with fairseq was tried on Python 3.11 and 3.12: use one"
    return Record("Versions", "python", platform.python_version(), tried, advice)


def _version(name: str, advice: str, extra: str | None = None) -> Record:
    """An installed distribution; the advice is for where it is missing."""
    version = installed(name)
    if version is None:
        return Record("Versions", name, "missing", False, advice, extra)
    return Record("Versions", name, version, extra=extra)


def _torch_version(error: str | None) -> Record:
    record = _version("torch", "pip install 'torch>=2.6'")
    if error is None or not record.usable:
        return record
    advice = f"install it again; it says: {error}"
    return dataclasses.replace(record, usable=False, advice=advice)


def _numpy() -> Record:
    record = _version("numpy", "pip install numpy==2.3.5")
    if record.usable and tuple(map(int, record.value.split(".")[:2])) > (2, 3):
        note = "fairseq's --num-batch-buckets needs numpy<2.4"
        return dataclasses.replace(record, advice=note)
    return record


def _fairseq() -> Record:
    """fairseq-fixed, told from the stock fairseq that has the same import name."""
    fixed, stock = installed("fairseq-fixed"), installed("fairseq")
    if stock is not None:
        what = f"fairseq {stock} beside it" if fixed else f"stock fairseq {stock}"
        broken = fixed or sys.version_info >= (3, 11)
        why = "overwrites its files" if fixed else "cannot be imported on Python 3.11 and later"
        return Record(
            "Versions",
            "fairseq-fixed",
            what,
            not broken,
            f"fairseq {stock} {why if broken else 'was not tried'}: "
            f"pip uninstall fairseq fairseq-fixed, then pip install {FAIRSEQ}",
            EXTRA,
        )
    advice = f"to train and translate: make env in a clone, or pip install {FAIRSEQ}"
    record = _version("fairseq-fixed", advice, EXTRA)
    if fixed and importlib.util.find_spec("fairseq") is None:
        advice = f"its files are gone: pip install --force-reinstall --no-deps {FAIRSEQ}"
        return dataclasses.replace(record, usable=False, advice=advice)
    return record


def _package(name: str, purpose: str) -> Record:
    if name == "tensorboard" and installed(name) is None and installed("tensorboardX"):
        name = "tensorboardX"  # serves as well
    return _version(name, f"{purpose}: pip install {name}", EXTRA)


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


def _plugin(fairseq: Record) -> Record:
    folder = _user_dir.find_user_dir()
    if folder is None:
        advice = "install the project again: pip install 'selfattn[fairseq]'"
        return Record("fairseq plugin", "--user-dir", "not found", False, advice, EXTRA)
    if fairseq.usable:
        return Record("fairseq plugin", "--user-dir", str(folder), extra=EXTRA)
    advice = "it needs fairseq, see above"
    return Record("fairseq plugin", "--user-dir", str(folder), False, advice, EXTRA)


def _command(name: str, purpose: str, extra: str | None) -> Record:
    path = shutil.which(name)
    if path is not None:
        return Record("Commands", name, path, extra=extra)
    advice = f"{purpose}; install the package {name}"
    return Record("Commands", name, "not found", False, advice, extra)


def collect() -> list[Record]:
    """Look at this machine.

    Returns:
        The report's lines in the order of the screen. fairseq is looked up, never imported.
    """
    torch, error = _import_torch()
    gpu = torch is not None and torch.cuda.is_available()
    fairseq = _fairseq()
    return [
        Record("Versions", "selfattn", __version__),
        _python(),
        _torch_version(error),
        _numpy(),
        fairseq,
        *(_package(name, purpose) for name, purpose in PACKAGES),
        _triton(gpu),
        *_devices(torch),
        *_backends(gpu),
        _plugin(fairseq),
        *(_command(name, purpose, extra) for name, purpose, extra in COMMANDS),
    ]


def _grouped(records: Sequence[Record]) -> list[Record]:
    """What is missing of an extra that was never installed is one line, and no fault."""
    if not any(record.name == "fairseq-fixed" and record.value == "missing" for record in records):
        return list(records)
    missing = [record for record in records if record.extra == EXTRA and not record.usable]
    names = ", ".join(record.name for record in missing)
    kept = [record for record in records if record not in missing]
    return [*kept, Record("Extras", EXTRA, f"not installed: {names}", True, EXTRA_ADVICE)]


def render(records: Sequence[Record]) -> str:
    """Format the report for one screen: a line each, and a line of advice where there is one.

    Args:
        records: what `collect` returned.

    Returns:
        The text, without a final line break.
    """
    records = _grouped(records)
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


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this command to its parser."""
    parser.add_argument("--json", action="store_true", help="print a JSON list of records")


def report(args: argparse.Namespace) -> None:
    """Print the report, as text or as JSON."""
    records = collect()
    if args.json:
        print(json.dumps([dataclasses.asdict(record) for record in records], indent=1))
    else:
        print(render(records))


def main(argv: Sequence[str] | None = None) -> None:
    """Run ``python -m selfattn.info``; ``selfattn info`` does the same."""
    parser = argparse.ArgumentParser(
        prog="python -m selfattn.info",
        description="Show what is installed and usable, and how to fix what is not.",
        epilog="example: python -m selfattn.info --json > machine.json",
    )
    add_flags(parser)
    report(parser.parse_args(argv))


if __name__ == "__main__":
    run(main, "selfattn.info")
