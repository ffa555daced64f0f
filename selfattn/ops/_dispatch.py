"""Which backend computes an operator, and why another one is refused."""

from __future__ import annotations

from selfattn.errors import UserError

# "auto" is not listed: it stands for the first usable backend of PREFERENCE.
BACKENDS = ("reference", "eager")
PREFERENCE = ("eager", "reference")


def backends() -> dict[str, str | None]:
    """Usability of each backend on this machine.

    Returns:
        Backend name -> None if it is usable, else the reason why not in one sentence.
    """
    return dict.fromkeys(BACKENDS)


def choose(backend: str) -> str:
    """Resolve a backend's name.

    Args:
        backend: ``"auto"`` or a name from ``BACKENDS``.

    Returns:
        A name from ``BACKENDS``.

    Raises:
        UserError: if the backend is unknown or cannot be used here.
    """
    usable = backends()
    if backend == "auto":
        return next(name for name in PREFERENCE if usable[name] is None)
    if backend not in usable:
        allowed = ", ".join(("auto", *BACKENDS))
        raise UserError(f"backend {backend!r} is unknown; allowed are {allowed}")
    reason = usable[backend]
    if reason is not None:
        raise UserError(f"backend {backend!r} cannot be used: {reason}")
    return backend
