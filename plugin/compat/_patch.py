"""Replace attributes of fairseq by wrappers, once per process."""

import functools
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from fairseq import options

_MARK = "_selfattn_wrapped"


def wrap(owner: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: replace ``owner.name`` by a function that gets the original first.

    The replacement is called as ``replacement(original, *args, **kwargs)``. Each replacement is
    applied once per process, so importing the plugin twice is harmless; different ones stack.

    Args:
        owner: module or class that holds the attribute.
        name: the attribute's name.
    """

    def decorate(replacement: Callable[..., Any]) -> Callable[..., Any]:
        is_static = isinstance(vars(owner).get(name), staticmethod)
        original = getattr(owner, name)
        key = f"{replacement.__module__}.{replacement.__qualname__}"
        applied = getattr(original, _MARK, ())
        if key in applied:
            return replacement

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return replacement(original, *args, **kwargs)

        setattr(wrapper, _MARK, (*applied, key))
        setattr(owner, name, staticmethod(wrapper) if is_static else wrapper)
        return replacement

    return decorate


def check_flags(check: Callable[[Namespace], None]) -> None:
    """Have a function check the flags of fairseq's commands as soon as they are parsed.

    Args:
        check: gets the flags; it may change them, or raise an error.
    """

    @wrap(options, "parse_args_and_arch")
    @functools.wraps(check)
    def parse_args_and_arch(original: Any, *args: Any, **kwargs: Any) -> Any:
        parsed = original(*args, **kwargs)
        check(parsed[0] if isinstance(parsed, tuple) else parsed)
        return parsed
