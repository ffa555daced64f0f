"""What several commands do with their flags, and refuse before they read or write anything."""

import argparse
import math
import os
from collections.abc import Iterable
from dataclasses import fields
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from selfattn.errors import UserError
from selfattn_tasks.cli import option
from selfattn_tasks.files import check_output
from selfattn_tasks.model_folder import WEIGHTS

Options = TypeVar("Options")
# Patterns of what else a Hugging Face folder needs.
_BESIDE_WEIGHTS = ("*config.json", "tokenizer*", "spm.model")


def from_flags(kind: type[Options], args: argparse.Namespace, /, **others: Any) -> Options:
    """Make options of the flags that have the names of their fields.

    Args:
        kind: a dataclass.
        args: the parsed flags; a field without a flag keeps its default.
        others: fields of other names or values.
    """
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: getattr(args, name) for name in names if hasattr(args, name)} | others)


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
        if value is not None and not allowed <= value < math.inf:
            more = "or more, and finite" if value == math.inf else "or more"
            raise UserError(f"{option(name)} is {value}, but must be {allowed} {more}")


def first_given(args: argparse.Namespace, names: Iterable[str]) -> str | None:
    """The first of some flags that was given, 0 included, as it is typed."""
    for name in names:
        if (value := getattr(args, name)) is not None and value is not False:
            return option(name)
    return None


def check_outputs(
    args: argparse.Namespace, *names: str, inputs: Iterable[str | os.PathLike[str]] = ()
) -> None:
    """Refuse files that could not be written, of the flags that were given, or would be lost.

    Args:
        args: the parsed flags.
        names: flags of files to write.
        inputs: files that the command reads; the weights of a Hugging Face folder stand for all
            that it needs.

    Raises:
        UserError: for the first of them, one of the inputs, or a file that two flags name.
    """
    read = [Path(path) for path in inputs]
    for folder in [path.parent for path in read if path.name == WEIGHTS]:
        read += chain.from_iterable(map(folder.glob, _BESIDE_WEIGHTS))
    taken = dict.fromkeys(map(os.path.realpath, read), "one of the inputs, which would be lost")
    for name in names:
        if (path := getattr(args, name)) is None:
            continue
        check_output(f"--{name}", path)
        real = os.path.realpath(path)
        if os.path.exists(real) and not os.path.isfile(real):
            continue  # a terminal is input and output, and nothing in it is lost
        if real in taken:
            raise UserError(f"--{name} {path} is {taken[real]}")
        taken[real] = f"the file of --{name}, too; give another one"


def by_part(**parts: Any) -> dict[str, Any]:
    """Name of each part of a corpus to its files: train, valid, and test, test1 and so on.

    Args:
        parts: what --train and --valid name, None if nothing, and a list of what each --test does.
    """
    tests = parts.pop("test") or []
    given = {name: files for name, files in parts.items() if files}
    return given | {f"test{number or ''}": files for number, files in enumerate(tests)}
