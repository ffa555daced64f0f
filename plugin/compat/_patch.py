"""Replace one attribute of fairseq by a wrapper, once a process."""

import functools
from collections.abc import Callable
from typing import Any

_MARK = "_selfattn_wrapped"


def wrap(owner: Any, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: replace ``owner.name`` by a function that gets the original first.

    The replacement is called as ``replacement(original, *args, **kwargs)``. A second call for the
    same attribute changes nothing, so importing the plugin twice is harmless.

    Args:
        owner: module or class that holds the attribute.
        name: the attribute's name.
    """

    def decorate(replacement: Callable[..., Any]) -> Callable[..., Any]:
        is_static = isinstance(vars(owner).get(name), staticmethod)
        original = getattr(owner, name)
        if hasattr(original, _MARK):
            return replacement

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return replacement(original, *args, **kwargs)

        setattr(wrapper, _MARK, True)
        setattr(owner, name, staticmethod(wrapper) if is_static else wrapper)
        return replacement

    return decorate
