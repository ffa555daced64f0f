"""Operators, layers, encoders, updates against flash, FlexAttention and Algorithm 1."""

import importlib.util
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from ..method import MODES, REFERENCES, Plan, Setup
from ..methods import choose
from ..sweep import run as sweep
from ..table import Row
from ..timing import Effort
from .results import Results

SHOWN = ("level", "mode", "dtype", "method", "length", "status", "ratio", "memory_ratio", "reason")
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
DTYPES = ("bfloat16", "float16", "float32")
# Of each level what the goals are about, then the rest.
METHODS = {
    "operator": (
        ("mtsa", "sdpa:cudnn"),
        ("sdpa", "sdpa:directed", "mtsa:undirected", "disa")
        + ("mtsa:flex", "flex", "flex:directed", "mtsa:algorithm1"),
    ),
    "layer": (
        ("mtsa:srl", "mtsa:paper", "multihead:layer"),
        ("multihead", "multihead:masks", "mtsa:flex"),
    ),
    "encoder": (("mtsa:paper", "mtsa:srl"), ("multihead:layer", "multihead:masks")),
    "fairseq": (("mtsa:paper",), ("multihead",)),
}
_UPDATES = ("encoder", "fairseq")  # a step is an update: in training alone
_FAIRSEQ = Path(__file__).parents[1] / "fairseq_update.py"


class Part(NamedTuple):
    """Methods that are measured at the same lengths in the same way."""

    lengths: Sequence[int]
    level: str
    dtype: str
    mode: str
    methods: Sequence[str]


def run(results: Results) -> None:
    """Measure the methods that are not done yet, the most wanted first.

    What an earlier call refused is tried again after all else, since it may be refused for good.
    """
    dry = [Part((16,), "operator", "float32", "inference", ("mtsa",))]
    parts = dry if results.dry else _order()
    refused = results.find(status="refused")
    for part in parts:
        left = [name for name in part.methods if not _done(results, part, name)]
        if left:
            _measure(results, part._replace(methods=left))
    for part in parts:
        for name in part.methods:
            keys = _keys(part, name)
            before = [row["length"] for row in refused if row.items() >= keys.items()]
            again = [length for length in part.lengths if length in before]
            for length in again:
                results.drop(**keys, length=length)
            if again:
                _measure(results, part._replace(methods=[name], lengths=again))


def _done(results: Results, part: Part, method: str) -> bool:
    """Whether all lengths have a row; if not, those that have one are forgotten."""
    keys = _keys(part, method)
    if all(results.find(**keys, length=length) for length in part.lengths):
        return True
    for length in part.lengths:
        results.drop(**keys, length=length)
    return False


def _keys(part: Part, method: str) -> dict[str, str]:
    return {"level": part.level, "dtype": part.dtype, "mode": part.mode, "method": method}


def _order() -> list[Part]:
    """Every second length of everything before the others; bfloat16 in training first.

    FlexAttention comes last: it compiles for each length, and more for each check.
    """
    every = itertools.product((LENGTHS[::2], LENGTHS[1::2]), DTYPES, MODES, (0, 1), METHODS)
    parts = [
        part
        for lengths, dtype, mode, rank, level in every
        if level not in _UPDATES or mode == "training"
        for part in _parts(Part(lengths, level, dtype, mode, METHODS[level][rank]))
    ]
    return sorted(parts, key=lambda part: any("flex" in name for name in part.methods))


def _parts(part: Part) -> Iterator[Part]:
    """FlexAttention apart, at two lengths; fairseq at one, where it is installed."""
    if part.level == "fairseq":
        if importlib.util.find_spec("fairseq") is not None and 64 in part.lengths:
            yield part._replace(lengths=(64,))
        return
    flex = [name for name in part.methods if "flex" in name]
    # In float32 torch has no cuDNN kernel: the row would be that of another one.
    left_out = {*flex, "sdpa:cudnn"} if part.dtype == "float32" else set(flex)
    yield part._replace(methods=[name for name in part.methods if name not in left_out])
    if flex and 1024 in part.lengths:
        yield part._replace(methods=flex, lengths=(1024, 4096))


def _measure(results: Results, part: Part) -> None:
    width, heads, tokens = (32, 2, 32) if results.dry else (512, 8, 65536)
    layers = 6 if part.level == "fairseq" else 1
    backend = "auto" if results.dry else "fused"  # nothing slower in its place
    setup = Setup(
        width, heads, part.mode, results.device, part.dtype, backend=backend, layers=layers
    )
    quick = Effort(seconds=0.1, sample=0.01, least=2, most=2)
    plan = Plan(
        level=part.level,
        reference=REFERENCES.get(part.level, "multihead"),
        methods=part.methods,
        setup=setup,
        shapes=[(n, max(1, tokens // n)) for n in part.lengths],
        threads=1 if results.dry else 8,  # for the reference forms, which run on the CPU
        effort=quick if results.dry else Effort(seconds=0.5, sample=0.02, least=5, most=30),
        longest=5.0,
        memory_limit=None,
        # Of layers, once: it is much the same in other modes and dtypes.
        with_memory=part.level == "layer" and (part.dtype, part.mode) == (DTYPES[0], "training"),
        methods_module=_FAIRSEQ if part.level == "fairseq" else None,
        give_up=240.0,  # half of the stage
    )
    choose(part.level, part.methods, plan.methods_module)  # a wrong name is no refusal
    kept = 0

    def keep(rows: Sequence[Row]) -> None:
        nonlocal kept
        new = [
            {n: value for n, value in asdict(row).items() if n != "facts"} for row in rows[kept:]
        ]
        results.add(*new)
        kept = len(rows)

    _, refused = sweep(plan, print, keep)
    for row in refused:
        results.add(_keys(part, row["method"]) | row | {"status": "refused"})
