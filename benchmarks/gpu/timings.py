"""Stage 3: operators, layers and encoder layers against flash, FlexAttention and Algorithm 1."""

from collections.abc import Iterator
from dataclasses import asdict

from ..method import REFERENCES, Plan, Setup
from ..methods import choose
from ..sweep import run as sweep
from ..timing import Effort
from .results import Results

SHOWN = ("level", "mode", "dtype", "method", "length", "status", "ratio", "memory_ratio", "reason")
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
DTYPES = ("bfloat16", "float16", "float32")
METHODS = {
    "operator": (
        "sdpa", "sdpa:directed", "mtsa", "mtsa:undirected", "mtsa:flex", "flex", "flex:directed",
        "mtsa:algorithm1", "disa",
    ),
    "layer": ("multihead", "multihead:layer", "multihead:masks", "mtsa:srl", "mtsa:paper",
              "mtsa:flex"),
    "encoder": ("multihead:layer", "multihead:masks", "mtsa:paper", "mtsa:srl"),
}  # fmt: skip


def run(results: Results) -> None:
    """Measure the methods that are not done yet, the most wanted first."""
    for level, dtype, mode in [("operator", "float32", "inference")] if results.dry else _order():
        for name in ("mtsa",) if results.dry else METHODS[level]:
            if not results.find(level=level, dtype=dtype, mode=mode, method=name):
                _measure(results, level, dtype, mode, name)


def _order() -> Iterator[tuple[str, str, str]]:
    """Level, dtype and mode: bfloat16 in training of all levels before anything else."""
    for dtype in DTYPES:
        for mode in ("training", "inference"):
            for level in METHODS:
                if level != "encoder" or mode == "training":  # an encoder's step is an update
                    yield level, dtype, mode


def _measure(results: Results, level: str, dtype: str, mode: str, name: str) -> None:
    width, heads, tokens = (32, 2, 32) if results.dry else (512, 8, 65536)
    # FlexAttention compiles for each length, and more for each check.
    lengths = (16,) if results.dry else LENGTHS[:: 2 if "flex" in name else 1]
    setup = Setup(width, heads, mode=mode, device=results.device, dtype=dtype)
    quick = Effort(seconds=0.1, sample=0.01, least=2, most=2)
    plan = Plan(
        level=level,
        reference=REFERENCES[level],
        methods=[name],
        setup=setup,
        shapes=[(n, max(1, tokens // n)) for n in lengths],
        threads=1,
        effort=quick if results.dry else Effort(seconds=1.0, sample=0.02, least=5, most=30),
        longest=5.0,
        memory_limit=None,
        with_memory=dtype == DTYPES[0] and mode == "training",  # the same for the others
        methods_module=None,
    )
    choose(level, [name])  # a name that is wrong must not look like a refusal
    rows, refused = sweep(plan, print, lambda rows: None)
    found = [{n: value for n, value in asdict(row).items() if n != "facts"} for row in rows]
    keys = {"level": level, "dtype": dtype, "mode": mode, "method": name, "status": "refused"}
    results.add(*found, *({**keys, "reason": sentence} for sentence in refused))
