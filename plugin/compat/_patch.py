"""Replace attributes of fairseq by wrappers."""

import functools
from argparse import Namespace
from collections.abc import Callable
from typing import Any, TypeVar

from fairseq import options

F = TypeVar("F", bound=Callable[..., Any])


def wrap(owner: Any, name: str) -> Callable[[F], F]:
    """Decorator: replace ``owner.name`` by a function that gets the original first.

    The replacement is called as ``replacement(original, *args, **kwargs)``. Several of one
    attribute stack.
    """

    def decorate(replacement: F) -> F:
        original = getattr(owner, name)

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return replacement(original, *args, **kwargs)

        is_static = isinstance(vars(owner).get(name), staticmethod)
        setattr(owner, name, staticmethod(wrapper) if is_static else wrapper)
        return replacement

    return decorate


def check_flags(check: Callable[[Namespace], None]) -> Callable[[Namespace], None]:
    """Decorator: have a function check, or change, the flags once a command has parsed them."""

    @wrap(options, "parse_args_and_arch")
    def parse_args_and_arch(original: Any, *args: Any, **kwargs: Any) -> Any:
        parsed = original(*args, **kwargs)
        check(parsed[0] if isinstance(parsed, tuple) else parsed)
        return parsed

    return check
