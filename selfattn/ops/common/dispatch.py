"""Which backend computes an operator, and why another one is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ...errors import UserError

# "auto" is not listed: it stands for the first usable backend in this order.
BACKENDS = ("fused", "eager", "reference")


class Operator(NamedTuple):
    """What the registry knows of an operator.

    Attributes:
        eager: its backend ``"eager"``.
        refusal: type of device, dtype, and what else its kernels depend on -> why the kernel for
            that device cannot be used, or None. All but the first two have a default.
    """

    eager: Callable[..., Tensor]
    refusal: Callable[..., str | None]


OPERATORS: dict[str, Operator] = {}


def backends() -> dict[str, str | None]:
    """Usability of each operator's backends on this machine.

    Returns:
        ``"operator, backend and device"`` -> None if it is usable, else the reason why not in one
        sentence.
    """
    found: dict[str, str | None] = {}
    for name, operator in OPERATORS.items():
        found[f"{name}, fused on a CPU"] = operator.refusal("cpu", torch.float32)
        found[f"{name}, fused on a GPU"] = operator.refusal("cuda", torch.float32)
        found[f"{name}, eager"] = found[f"{name}, reference"] = None
    return found


def refusal(name: str, *limits: Any) -> str | None:
    """``Operator.refusal`` by name; asked once for each graph of torch.compile."""
    if torch.compiler.is_compiling():
        from . import compiled

        return compiled.refusal(name, *limits)
    return OPERATORS[name].refusal(*limits)


def eager(name: str, *inputs: Any) -> Tensor:
    """``Operator.eager`` by name, out of torch.compile's graphs: its blocks depend on numbers."""
    if torch.compiler.is_compiling():
        from . import compiled

        return compiled.eager(name, *inputs)
    return OPERATORS[name].eager(*inputs)


def refuse_tracing(name: str) -> None:
    """Refuse torch.jit.trace.

    Raises:
        UserError: if it is under way.
    """
    if torch.jit.is_tracing():
        raise UserError(
            f"attention {name!r} cannot be traced: its blocks depend on the length; run it in "
            f"Python"
        )


def unfit(t: Tensor) -> dict[str, str]:
    """Why backends cannot be used for what PyTorch does with an input, whatever the machine."""
    if t.is_meta:
        return dict.fromkeys(("fused", "eager"), "a tensor on 'meta' holds no numbers")
    if torch.compiler.is_exporting():
        found = {"eager": "its blocks depend on the length, which an export may leave open"}
        if torch.onnx.is_in_onnx_export():
            found["fused"] = "ONNX has no such operator"
        return found
    if not torch.compiler.is_compiling() and forward_ad._current_level >= 0:
        reason = "it has no forward-mode derivative, which torch.func.jvp, jacfwd and hessian take"
        return dict.fromkeys(("fused", "eager"), reason)
    return {}


def choose(backend: str, refused: Mapping[str, str | None]) -> str:
    """Resolve a backend's name.

    Args:
        backend: ``"auto"`` or a name from ``BACKENDS``.
        refused: backend -> why it cannot be used for an input; None or absent if it can.

    Returns:
        A name from ``BACKENDS``.

    Raises:
        UserError: if the backend is unknown or cannot be used here.
    """
    if backend == "auto":
        return next(name for name in BACKENDS if refused.get(name) is None)
    if backend not in BACKENDS:
        allowed = ", ".join(("auto", *BACKENDS))
        raise UserError(f"backend {backend!r} is unknown; allowed are {allowed}")
    reason = refused.get(backend)
    if reason is not None:
        raise UserError(f"backend {backend!r} cannot be used: {reason}")
    return backend
