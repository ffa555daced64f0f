"""Read hypotheses and references, and refuse what cannot be compared."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks import registry
from selfattn_tasks.folder import digest_of

from .runs import Found

# What --task takes.
TASKS = ("auto", *registry.TASKS)


def read_gold(path: Path, task: str) -> tuple[str, list[Any]]:
    """The task and the references or gold sentences; ``auto`` asks each task whose file it is.

    Raises:
        UserError: if it cannot be read.
    """
    if task != "auto":
        return task, registry.TASKS[task].read_gold(path)
    for name, asked in reversed(registry.TASKS.items()):
        gold = asked.recognise(path)
        if gold is not None:
            return name, gold
    raise AssertionError("the first task takes any text")


def tested_elsewhere(
    runs: Iterable[Found], references: Path, gold: Sequence[Any], sha256: str
) -> list[str]:
    """A warning if records of runs say that they were tested with other references than these.

    Records have the hash of the file, newer ones also that of what was read from it.
    """
    others, ours = [], {sha256, digest_of(gold)}
    for run in runs:
        test, read = run.record.get("test"), run.record.get("gold")
        tested = test.get("tests") if isinstance(test, dict) else None
        if not isinstance(tested, dict) or not tested:
            continue
        known = [*tested.values(), *(read.values() if isinstance(read, dict) else ())]
        if not any(digest in known for digest in ours):
            others.append(run.path)
    if not others:
        return []
    return [
        f"{references} is not what {len(others)} run{'s were' if len(others) > 1 else ' was'} "
        f"tested with, as their records say, such as that of {others[0]}: is it --ref?"
    ]


def check_distinct(systems: Mapping[str, Sequence[tuple[Found, str]]]) -> list[str]:
    """Refuse what would count twice: one output as two runs, one file in two compared systems.

    Two runs may give one output, of few or easy sentences: if records or logs state different
    seeds, it is a warning. A system compared with itself is no mistake: there all outputs are the
    same.

    Args:
        systems: name, the baseline first, to its runs and what `digest_of` said of each.

    Returns:
        Warnings: of two files of a system, or of one of it and one of the baseline, that differ in
        name alone.

    Raises:
        UserError: naming the files.
    """
    warnings = []
    for name, runs in systems.items():
        for (one, output), (two, other) in combinations(runs, 2):
            if output != other:
                continue
            both = f"{name}: {one.path} and {two.path} hold the same output"
            stated = one.stated and two.stated and one.seed != two.seed
            if not stated or one.path.samefile(two.path):
                raise UserError(
                    f"{both}, so they are one run (fairseq uses seed 1 when no --seed is given), "
                    "unless their run.json or train.log state different seeds; leave one out"
                )
            warnings.append(f"{both}, though they state the seeds {one.seed} and {two.seed}")
    baseline = next(iter(systems))
    for (name, first), (other, runs) in combinations(systems.items(), 2):
        itself = {digest for _, digest in first} == {digest for _, digest in runs}
        for run, digest in runs:
            same = [known.path for known, output in first if output == digest]
            if any(run.path.samefile(path) for path in same):
                if itself and name == baseline:
                    continue
                raise UserError(
                    f"{run.path} is a run of {name} and of {other}: a file belongs to one "
                    "system; give patterns that do not overlap (or that of the baseline twice, "
                    "for a system against itself)"
                )
            if same and name == baseline:
                warnings.append(
                    f"{baseline}: {same[-1]} and {other}: {run.path} hold the same output; if that "
                    "is one run, the systems are not independent"
                )
    return warnings
