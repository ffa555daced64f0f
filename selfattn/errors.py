"""The one exception for mistakes that a user can fix, and checks that raise it."""

import difflib
import importlib
import re
import shlex
from collections.abc import Collection, Iterable
from numbers import Integral, Real
from typing import Any

# Sizes and lengths above it fit into no memory.
LARGEST = 2**31 - 1

# A word of a file may have a million characters; paths have fewer.
_LONG_WORD = re.compile(r"\S{1000,}")
_LONGEST = 4000


class UserError(ValueError):
    """A mistake in a flag, a file or an argument.

    The message is one sentence that names the thing, its value and what is allowed. Commands print
    it without a traceback and exit with a code that is not 0. What a bad file made endless in it
    is shortened.
    """

    def __init__(self, message: str = "") -> None:
        text = _LONG_WORD.sub(lambda word: shortened(word[0], 60), message)
        super().__init__(shortened(text, _LONGEST))


def shortened(text: str, length: int) -> str:
    """Beginning and end of a text that is longer than that."""
    if len(text) <= 2 * length:
        return text
    return f"{text[:length]} ... ({len(text):,} characters) ... {text[-length:]}"


def needed(module: str, package: str = "") -> Any:
    """Import a module of a package that only a part of the project needs.

    Args:
        module: its name, such as ``scipy.stats``.
        package: what pip calls it. Default: the first part of that name.

    Raises:
        UserError: if it is not installed or cannot be imported.
    """
    name = package or module.partition(".")[0]
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:  # OSError: of a library that it loads
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and f"{module}.".startswith(f"{missing}."):
            raise UserError(
                f"{name} is not installed: install it with `pip install {shlex.quote(name)}`"
            ) from None
        # Broken, of a version that does not fit the others, or without what it needs itself.
        reason = str(error).partition("\n")[0]
        raise UserError(f"{module} cannot be imported: {reason}") from error


def check_integer(name: str, value: Any, least: int = 1, most: int = LARGEST) -> int:
    """An integer of any type, as an int.

    Args:
        name: of the flag or argument.
        value: what a caller gave.
        least: smallest value that is allowed.
        most: largest value that is allowed.

    Raises:
        UserError: if it is not an integer, or out of range.
    """
    if not isinstance(value, Integral) or isinstance(value, bool):
        wanted = "a whole number"
    elif int(value) < least:
        wanted = f"at least {least}"
    elif int(value) > most:
        wanted = f"at most {most}"
    else:
        return int(value)
    raise UserError(f"{name} {value!r} is not allowed; it must be {wanted}")


def check_rate(name: str, value: Any) -> float:
    """A share or probability, of any type of number, as a float.

    Args:
        name: of the flag or argument.
        value: what a caller gave.

    Raises:
        UserError: if it is not a number from 0 up to, but not including, 1.
    """
    if not isinstance(value, Real) or not 0 <= float(value) < 1:
        raise UserError(f"{name} {value!r} is not allowed; it must be in [0, 1)")
    return float(value)


def check_boolean(name: str, value: Any) -> None:
    """Refuse what is no bool: ``"false"`` and 0 would be taken for something else.

    Raises:
        UserError: if it is no bool.
    """
    if not isinstance(value, bool):
        raise UserError(f"{name} {value!r} is not allowed; it must be True or False")


def check_choice(name: str, value: Any, allowed: Collection[str]) -> None:
    """Refuse a value of the flag or argument ``name`` that is none of the names ``allowed``.

    Raises:
        UserError: if it is another name, or no name at all.
    """
    if not isinstance(value, str) or value not in allowed:
        raise UserError(f"{name} {value!r} is unknown; allowed are {', '.join(allowed)}")


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that a misspelt one is nearest to; None where none is near."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
    return near[0] if near else None
