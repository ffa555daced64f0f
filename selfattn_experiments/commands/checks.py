"""What several commands refuse before they read or write anything."""

import argparse

from selfattn.errors import UserError
from selfattn_tasks.files import check_output

MOST_WORKERS = 1024


def check_least(args: argparse.Namespace, **least: int) -> None:
    """Refuse numbers that are too small.

    Args:
        args: the parsed flags; a flag that was not given may be None.
        least: name of a flag to the smallest number that is allowed.

    Raises:
        UserError: for the first flag below it.
    """
    for name, allowed in least.items():
        value = getattr(args, name)
        if value is not None and value < allowed:
            raise UserError(f"--{name.replace('_', '-')} is {value}, but must be {allowed} or more")


def check_workers(workers: int) -> None:
    """Refuse more processes than any machine has cores for: they would take all its memory.

    Raises:
        UserError: if there are more than MOST_WORKERS.
    """
    if workers > MOST_WORKERS:
        raise UserError(f"--workers is {workers}, but must be {MOST_WORKERS} or less")


def check_outputs(args: argparse.Namespace, *names: str) -> None:
    """Refuse files that could not be written, of the flags that were given.

    Raises:
        UserError: for the first of them.
    """
    for name in names:
        if (path := getattr(args, name)) is not None:
            check_output(f"--{name}", path)
