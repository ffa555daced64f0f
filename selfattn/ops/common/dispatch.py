"""Which backend computes an operator, and why another one is refused."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.autograd import forward_ad

from selfattn.errors import UserError

# "auto" is not listed: it stands for the first usable backend in this order.
BACKENDS = ("fused", "eager", "reference")


def backends() -> dict[str, str | None]:
    """Usability of each backend on this machine.

    Returns:
        Backend and device -> None if it is usable, else the reason why not in one sentence.
    """
    from selfattn.ops.mtsa import fused, native  # here: operators import this module

    return {
        "fused on a CPU": native.refusal(torch.float32),
        "fused on a GPU": fused.refusal(torch.device("cuda"), torch.float32, (64,)),
        "eager": None,
        "reference": None,
    }


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
