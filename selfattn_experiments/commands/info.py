"""Say what is installed, what is usable, and what to do about what is not.

Example:

  selfattn info --json > machine.json

`python -m selfattn.info` shows the part of it that the attention layers need.
"""

import argparse
import dataclasses
import importlib.util
import os
import shutil
import sys
from collections.abc import Sequence
from typing import Any

from selfattn import info
from selfattn.info import Record, add_flags, installed

from ..user_dir import find_user_dir

__all__ = ["add_flags", "main"]

FAIRSEQ = "fairseq-fixed==0.12.3.1"
# What the layers alone do not need, and how it is had.
EXTRA = "fairseq"
EXTRA_ADVICE = (
    "to train with fairseq (on Python 3.11 or 3.12), and for the others here: pip install "
    "'selfattn[fairseq]', or in a clone make env"
)
# Distribution, and what it is for: shown where it is missing.
PACKAGES = (
    ("sacrebleu", "to score translations"),
    ("scipy", "to compare systems"),
    ("sentencepiece", "to prepare text"),
    ("seqeval", "to score tagging"),
    ("tensorboard", "to look at training curves"),
    ("matplotlib", "to draw learning curves, comparisons and attention"),
    ("PyYAML", "to train several seeds"),
    ("tabulate", "to print comparisons"),
    ("tqdm", "to show progress"),
)
SECTIONS = ("Versions", "Devices", "Attention backends", "fairseq plugin", "Commands")


def _python(record: Record, fairseq: Record) -> Record:
    """This Python; fairseq was tried with 3.11 and 3.12, all else with 3.10 and 3.13, too."""
    if sys.version_info[:2] in ((3, 11), (3, 12)):
        return record
    advice = "training with fairseq was tried on Python 3.11 and 3.12 only; the rest works here"
    return dataclasses.replace(record, usable=fairseq.value == "missing", advice=advice)


def _numpy(record: Record, fairseq: Record) -> Record:
    if (
        fairseq.value != "missing"
        and record.usable
        and tuple(map(int, record.value.split(".")[:2])) > (2, 3)
    ):
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
    record = info.version("fairseq-fixed", advice, EXTRA)
    if fixed and importlib.util.find_spec("fairseq") is None:
        advice = f"its files are gone: pip install --force-reinstall --no-deps {FAIRSEQ}"
        return dataclasses.replace(record, usable=False, advice=advice)
    return record


def _package(name: str, purpose: str) -> Record:
    if name == "tensorboard" and installed(name) is None and installed("tensorboardX"):
        name = "tensorboardX"  # serves as well
    return info.version(name, f"{purpose}: pip install {name}", EXTRA)


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


def _plugin(fairseq: Record) -> Record:
    folder = find_user_dir()
    if folder is None:
        advice = "install the project again: pip install 'selfattn[fairseq]'"
        return Record("fairseq plugin", "--user-dir", "not found", False, advice, EXTRA)
    if fairseq.usable:
        return Record("fairseq plugin", "--user-dir", str(folder), extra=EXTRA)
    advice = "it needs fairseq, see above"
    return Record("fairseq plugin", "--user-dir", str(folder), False, advice, EXTRA)


def collect() -> list[Record]:
    """Look at this machine; fairseq is looked up, never imported."""
    core = {record.name: record for record in info.collect()}
    fairseq = _fairseq()
    core |= {"python": _python(core["python"], fairseq), "numpy": _numpy(core["numpy"], fairseq)}
    records = [
        *core.values(),
        *_devices(info.import_torch()[0]),
        fairseq,
        *(_package(name, purpose) for name, purpose in PACKAGES),
        _plugin(fairseq),
        info.command("perl", "only for the official SRL scorer", EXTRA),
    ]
    return sorted(records, key=lambda record: SECTIONS.index(record.section))


def grouped(records: Sequence[Record]) -> list[Record]:
    """What is missing of an extra that was never installed is one line, and no fault."""
    if not any(record.name == "fairseq-fixed" and record.value == "missing" for record in records):
        return list(records)
    missing = [record for record in records if record.extra == EXTRA and not record.usable]
    names = ", ".join(record.name for record in missing)
    kept = [record for record in records if record not in missing]
    return [*kept, Record("Extras", EXTRA, f"not installed: {names}", True, EXTRA_ADVICE)]


def main(args: argparse.Namespace) -> None:
    """Print the report, as text or as JSON."""
    records = collect()
    info.show(records if args.json else grouped(records), args.json)
