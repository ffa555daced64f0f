"""Compare a run with an older one: which rows got worse by more than the noise."""

from collections.abc import Sequence
from pathlib import Path

from selfattn.errors import UserError

from .table import Row, number

# On a shared machine, medians of the same code differ by up to so much between two runs.
NOISE = 0.10
# Small peaks are a few allocations: MiB by which one must grow to count.
LEAST_MIB = 1.0


def regressions(rows: Sequence[Row], old: Sequence[Row], path: Path) -> list[str]:
    """A sentence for each row that got worse.

    Time counts as worse if the ratio to the reference grew by more than ``NOISE`` and the quartiles
    of both runs do not overlap; memory if its ratio grew by more than ``NOISE`` and its own peak by
    more than ``LEAST_MIB``. A row that was measured before and now is out of memory or skipped is
    worse too. Rows are compared where everything but machine, versions and commit is the same.

    Args:
        rows: of this run.
        old: of the older run.
        path: where the older run was read from, for messages.

    Raises:
        UserError: if the two runs have no row in common.
    """
    before = {row.key: row for row in old}
    both = [(row, before[row.key]) for row in rows if row.key in before]
    if not both:
        raise UserError(
            f"--compare is {path}, but none of its rows has a method, length and setting of this "
            f"run"
        )
    found = []
    for row, earlier in both:
        name = f"{row.method}, {row.level} {row.mode}, length {row.length}"
        if earlier.status == "ok" and row.status != "ok":
            found.append(f"{name}: now {row.status}")
        if _slower(row, earlier):
            found.append(f"{name}: time {_change(row.ratio, earlier.ratio)} of {row.reference}")
        if _larger(row, earlier):
            change = _change(row.memory_ratio, earlier.memory_ratio)
            found.append(f"{name}: memory {change} of {row.reference}")
    return found


def _slower(row: Row, old: Row) -> bool:
    if row.ratio is None or old.ratio is None:
        return False
    apart = (row.ratio_low or row.ratio) > (old.ratio_high or old.ratio)
    return apart and row.ratio > old.ratio * (1 + NOISE)


def _larger(row: Row, old: Row) -> bool:
    if row.memory_ratio is None or old.memory_ratio is None:
        return False
    grown = (row.memory_mib or 0.0) - (old.memory_mib or 0.0)
    return grown > LEAST_MIB and row.memory_ratio > old.memory_ratio * (1 + NOISE)


def _change(new: float | None, old: float | None) -> str:
    return f"{number(old or 0.0)} -> {number(new or 0.0)}"
