"""Self-attention with a score per feature and a positional mask per head, for PyTorch.

The core of the project: operators, masks and layers, on torch alone. The fairseq plugin is a thin
layer on top of it and never the other way round.
"""

from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

if TYPE_CHECKING:
    from .models import swap as swap


def __dir__() -> list[str]:
    return [*globals(), "swap"]  # for completion


def __getattr__(name: str) -> Any:
    """``swap``, late: the version is read without torch."""
    if name == "swap":
        from .models import swap

        return swap
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
