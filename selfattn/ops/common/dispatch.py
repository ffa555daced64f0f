"""Which backend computes an operator, and why another one is refused."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ...errors import UserError, check_choice, check_rate
from . import autograd

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
        ``"operator, backend and device"`` -> None if it is usable, else one sentence that says why
        not.
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
    """Refuse torch.jit.trace, if it is under way."""
    if torch.jit.is_tracing():
        raise UserError(
            f"the operator {name!r} cannot be traced: what it runs may depend on the length; use "
            "torch.export instead of torch.jit.trace, or run it in Python"
        )


def unfit(t: Tensor) -> dict[str, str]:
    """Why backends cannot be used for what PyTorch does with an input, whatever the machine."""
    if t.is_meta:
        return dict.fromkeys(("fused", "eager"), "a tensor on 'meta' has no values")
    if autograd.is_symbolic(t):
        return {"eager": "its blocks depend on numbers, which a tracer of PyTorch leaves open"}
    if autograd.is_exporting():
        found = {"eager": "its blocks depend on the length, which an export may leave open"}
        if torch.onnx.is_in_onnx_export():
            found["fused"] = "ONNX has no such operator"
        return found
    if not torch.compiler.is_compiling() and forward_ad._current_level >= 0:
        reason = "it has no forward-mode derivative, which torch.func.jvp, jacfwd and hessian take"
        return dict.fromkeys(("fused", "eager"), reason)
    return {}


def backend_for(
    name: str, t: Tensor, backend: str, limits: Sequence[Any], lacking: str | None = None
) -> str:
    """The backend that computes an operator for an input ``t``; the choice is that of ``choose``.

    ``limits`` is what ``Operator.refusal`` takes beside type of device and dtype; ``lacking`` says
    why the kernel cannot be used whatever the machine, or is None.
    """
    refused = unfit(t)
    if backend in ("auto", "fused"):
        reason = lacking or refusal(name, t.device.type, t.dtype, *limits)
        refused |= {} if reason is None else {"fused": reason}
    return choose(backend, refused)


def check_inputs(dropout_p: float, **inputs: Tensor) -> None:
    """Refuse inputs of different dtypes, and dropout that is not a probability below 1."""
    dtypes = [t.dtype for t in inputs.values()]
    if len(set(dtypes)) > 1 or not dtypes[0].is_floating_point:
        names, found = ", ".join(inputs), ", ".join(map(str, dtypes))
        raise UserError(f"{names} have dtypes {found}; they must have one floating dtype")
    check_rate("dropout_p", dropout_p)


def choose(backend: str, refused: Mapping[str, str | None]) -> str:
    """The name from ``BACKENDS`` that a caller's choice means, ``"auto"`` or one of them.

    ``refused`` holds for each backend why it cannot be used; None or absent if it can.

    Raises:
        UserError: if the backend is unknown or cannot be used here.
    """
    if backend == "auto":
        return next(name for name in BACKENDS if refused.get(name) is None)
    check_choice("backend", backend, ("auto", *BACKENDS))
    reason = refused.get(backend)
    if reason is not None:
        raise UserError(f"backend {backend!r} cannot be used: {reason}")
    return backend
