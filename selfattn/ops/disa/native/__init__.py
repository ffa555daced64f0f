"""DiSA on a CPU in C: a vector of features at a time, everything between in the cache.

Two operators of ``torch.library`` are what ``torch.compile`` and ``torch.export`` see; to call one
of them imports the compiler, so that nothing else does. The C side is ``kernel.c``; the structure
``_Task`` mirrors the one in ``task.h``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....masks import PositionalMask
from ...common import autograd, native
from ...common.dropout import keep_probability
from ...common.native import dropout
from ...common.tiling import LOG2E, rows, runs
from ..eager import LARGEST_C_FLOAT32
from ..equation import DiSACall

HERE = Path(__file__).parent
_TENSORS = ("x", "a", "b", "out", "grad", "gx", "ga", "gb", "inverse")
_POINTERS = ("padding", "unseen", "left", "right", "begin", "mask")
_SIZES = ("batch", "length", "groups", "masks", "threads")
_FLOATS = ("gain", "low", "keep")


class _Task(ctypes.Structure):
    """``Task`` in task.h: change both."""

    _fields_ = (
        *((name, native.View) for name in _TENSORS),
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int64) for name in _SIZES),
        *((name, ctypes.c_float) for name in _FLOATS),
        ("seed", ctypes.c_uint64),
    )


class _Options(NamedTuple):
    """What is neither a tensor of the equation nor a size."""

    left: list[int]  # smallest and largest visible ``key - query`` of each mask
    right: list[int]
    c: float
    dropout_p: float
    seed: Tensor | None  # None: no dropout


def refusal(dtype: torch.dtype, c: float = 5.0) -> str | None:
    """Why the kernel cannot be used for a type of numbers and a bound of scores, or None."""
    reason = native.refusal(HERE, dtype)
    if reason is None and c > LARGEST_C_FLOAT32:
        reason = f"c {c} is above {LARGEST_C_FLOAT32}, the largest that float32 sums allow"
    return reason


def disa_native(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None,
    c: float,
    dropout_p: float,
    hidden_keys: Tensor | None = None,
) -> Tensor:
    """Equations 9 and 10 of the Bi-BloSAN paper; arguments as in ``disa``.

    ``padding_mask`` hides queries, and keys unless ``hidden_keys`` says which of them are hidden.
    Half precision is computed in float32 and rounded once at the end. Memory is O(B T C). The
    result does not depend on the number of threads.
    """
    # A tensor, so that a compiled model draws a new one each time.
    seed = torch.randint(1 << 62, ()) if dropout_p else None
    inputs = tuple(t.to(torch.float32) for t in (x, a, b))
    hidden = (padding_mask, hidden_keys)
    call = _Native(tuple(masks), c, dropout_p)
    if autograd.is_traced(x):
        options = (*call.options(x), seed)
        found = torch.ops.selfattn.disa_native_forward(*inputs, *hidden, *options)[0]
    else:
        found = autograd.run(call, *inputs, None, *hidden, seed)
    return found.to(x.dtype)


class _Native(DiSACall):
    """The kernel in C."""

    def options(self, x: Tensor) -> tuple[list[int], list[int], float, float]:
        """What both operators take between tensors and seed."""
        return *native.offsets(self.masks, x.shape[1]), self.c, self.dropout_p

    def forward(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        """See ``Call.forward``."""
        x, a, b, _, hidden, unseen, seed = inputs
        return _forward(x, a, b, hidden, unseen, *self.options(x), seed)

    def backward(
        self, grad: Tensor, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> tuple[Tensor, ...]:
        """See ``Call.backward``."""
        x, a, b, _, hidden, unseen, seed = inputs
        out, inverse = outputs
        return _backward(grad, x, a, b, hidden, unseen, out, inverse, *self.options(x), seed)

    def factors(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        """See ``Call.factors``."""
        return dropout_factors(inputs[0], self.masks, self.dropout_p, int(inputs[-1]))


def _forward(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    padding: Tensor | None,
    unseen: Tensor | None,
    left: list[int],
    right: list[int],
    c: float,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The output, and 1 / denominator for backward."""
    out, inverse = x.new_zeros(x.shape), x.new_zeros(x.shape)
    tensors = {"x": x, "a": a, "b": b, "out": out, "inverse": inverse}
    _run(tensors, padding, unseen, _Options(left, right, c, dropout_p, seed), backward=False)
    return out, inverse


_OP = torch.library.custom_op(
    "selfattn::disa_native_forward", _forward, mutates_args=(), device_types="cpu"
)


@_OP.register_fake
def _(x: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape)


def _backward(
    grad: Tensor,
    x: Tensor,
    a: Tensor,
    b: Tensor,
    padding: Tensor | None,
    unseen: Tensor | None,
    out: Tensor,
    inverse: Tensor,
    left: list[int],
    right: list[int],
    c: float,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, a, b."""
    gx, ga, gb = (x.new_zeros(x.shape) for _ in range(3))
    tensors = {"x": x, "a": a, "b": b, "out": out, "inverse": inverse}
    tensors |= {"grad": grad, "gx": gx, "ga": ga, "gb": gb}
    _run(tensors, padding, unseen, _Options(left, right, c, dropout_p, seed), backward=True)
    return gx, ga, gb


_BACKWARD_OP = torch.library.custom_op(
    "selfattn::disa_native_backward", _backward, mutates_args=(), device_types="cpu"
)


@_BACKWARD_OP.register_fake
def _(grad: Tensor, x: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape), x.new_empty(x.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, a, b, padding, unseen, left, right, c, dropout_p, seed = inputs
    ctx.save_for_backward(x, a, b, padding, unseen, *output, seed)
    ctx.options = (left, right, c, dropout_p)


def _differentiate(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    *tensors, seed = ctx.saved_tensors
    grads = torch.ops.selfattn.disa_native_backward(grad, *tensors, *ctx.options, seed)
    return *grads, *(None,) * 7


_OP.register_autograd(_differentiate, setup_context=_save)
autograd.refuse_derivative(_BACKWARD_OP)


def _run(
    tensors: dict[str, Tensor],
    padding: Tensor | None,
    unseen: Tensor | None,
    options: _Options,
    *,
    backward: bool,
) -> None:
    """Hand everything to C; tensors have the names of the fields in ``_Task``."""
    left, right, c, dropout_p, seed = options
    batch, length, features = tensors["x"].shape
    width = features // len(left)
    groups = list(runs(list(zip(left, right, strict=True))))
    begin = [parts.start * width for _, parts in groups]
    pointers = {
        "left": torch.tensor([offsets[0] for offsets, _ in groups]),
        "right": torch.tensor([offsets[1] for offsets, _ in groups]),
        "begin": torch.tensor([*begin, features]),
        "mask": torch.tensor([parts.start for _, parts in groups]),
    }
    for name, hidden in (("padding", padding), ("unseen", padding if unseen is None else unseen)):
        if hidden is not None:
            pointers[name] = hidden.contiguous()
    task = _Task(
        batch=batch,
        length=length,
        groups=len(groups),
        masks=len(left),
        threads=torch.get_num_threads(),
        gain=2.0 / c * LOG2E,
        low=-2.0 * c * LOG2E,
        keep=keep_probability(dropout_p),
        seed=0 if seed is None else int(seed),
    )
    views = {name: rows(t) for name, t in tensors.items()}
    for name, t in views.items():
        setattr(task, name, native.View.of(t[:, None]))
    for name, t in pointers.items():
        setattr(task, name, t.data_ptr())
    if native.library(HERE).disa_run(ctypes.byref(task), backward):
        raise MemoryError("the DiSA kernel found no memory for its buffers")


def dropout_factors(
    x: Tensor, masks: Sequence[PositionalMask], dropout_p: float, seed: int
) -> tuple[Tensor, Tensor]:
    """The factors that the kernel draws from a seed, as whole tensors, for references.

    Returns:
        The factor on (query, key) pairs ``(B, G, T, T)``, one for each mask, and the one on
        (key, feature) pairs ``(B, T, C)``; both float32.
    """
    batch, length, features = x.shape
    pairs = dropout.factors((batch, len(masks), length), length, dropout.PAIRS, dropout_p, seed)
    for _, parts in runs(masks):
        pairs[:, parts] = pairs[:, parts.start, None]
    return pairs, dropout.factors((batch, length), features, dropout.FEATURES, dropout_p, seed)
