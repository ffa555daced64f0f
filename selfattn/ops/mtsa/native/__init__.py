"""MTSA on a CPU in C: Algorithm 1 a row at a time, everything between in the cache.

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
from ...common.tiling import rows
from ..equation import MTSACall

HERE = Path(__file__).parent
_TENSORS = ("q", "k", "v", "s", "h", "grad", "gq", "gk", "gv", "gs")
_POINTERS = ("inverse", "peak", "shift", "exact", "padding", "left", "right", "bias", "gbias")
_SIZES = ("batch", "heads", "length", "inner", "width", "logsigmoid", "threads")


class _Task(ctypes.Structure):
    """``Task`` in task.h: change both."""

    _fields_ = (
        *((name, native.View) for name in _TENSORS),
        *((name, ctypes.c_void_p) for name in _POINTERS),
        *((name, ctypes.c_int64) for name in _SIZES),
        ("scale", ctypes.c_float),
        ("keep", ctypes.c_float),
        ("seed", ctypes.c_uint64),
    )


class _Options(NamedTuple):
    """What is neither a tensor of the equation nor a size."""

    left: list[int]  # smallest and largest visible ``key - query`` of each head
    right: list[int]
    logsigmoid: bool
    dropout_p: float
    seed: Tensor | None  # None: no dropout


def refusal(dtype: torch.dtype) -> str | None:
    """Why the kernel cannot be used for a type of numbers; None if it can."""
    return native.refusal(HERE, dtype)


def mtsa_native(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None,
    sigma_t: str,
    dropout_p: float,
    distance_bias: Tensor | None = None,
) -> Tensor:
    """Algorithm 1 of the MTSA paper; arguments as in ``mtsa``.

    Half precision is computed in float32 and rounded once at the end. Memory is O(B H T D). The
    result does not depend on the number of threads.
    """
    # A tensor, so that a compiled model draws a new one each time.
    seed = torch.randint(1 << 62, ()) if dropout_p else None
    bias = None if distance_bias is None else distance_bias.to(torch.float32)
    inputs = *(t.to(torch.float32) for t in (q, k, v, s)), bias, padding_mask
    call = _Native(tuple(masks), sigma_t, dropout_p)
    if autograd.is_traced(q):
        found = torch.ops.selfattn.mtsa_native_forward(*inputs, *call.options(q), seed)[0]
    else:
        found = autograd.run(call, *inputs, seed)
    return found.to(q.dtype)


class _Native(MTSACall):
    """The kernel in C."""

    def options(self, q: Tensor) -> tuple[list[int], list[int], bool, float]:
        """What both operators take between tensors and seed."""
        ends = native.offsets(self.masks, q.shape[2])
        return *ends, self.sigma_t == "logsigmoid", self.dropout_p

    def forward(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        """See ``Call.forward``."""
        q, k, v, s, bias, padding, seed = inputs
        return _forward(q, k, v, s, bias, padding, *self.options(q), seed)

    def backward(
        self, grad: Tensor, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> tuple[Tensor, ...]:
        """See ``Call.backward``."""
        q, k, v, s, bias, padding, seed = inputs
        h, inverse, peak, shift, exact = outputs
        saved = (h, inverse, peak, shift, exact, *self.options(q), seed)
        *grads, g_bias = _backward(grad, q, k, v, s, bias, padding, *saved)
        return (*grads, g_bias.sum(0)) if bias is not None else tuple(grads)

    def factors(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        """See ``Call.factors``."""
        return dropout_factors(inputs[2], self.dropout_p, int(inputs[-1]))


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    bias: Tensor | None,
    padding: Tensor | None,
    left: list[int],
    right: list[int],
    logsigmoid: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """H; and for backward: 1 / denominator, row maxima, key maxima, queries computed in double."""
    h, inverse, peak, shift, exact = saved = _room(v)
    tensors = {"q": q, "k": k, "v": v, "s": s, "bias": bias, "padding": padding}
    tensors |= {"h": h, "inverse": inverse, "peak": peak, "shift": shift, "exact": exact}
    _run(tensors, _Options(left, right, logsigmoid, dropout_p, seed), backward=False)
    return saved


_OP = torch.library.custom_op(
    "selfattn::mtsa_native_forward", _forward, mutates_args=(), device_types="cpu"
)


@_OP.register_fake
def _(q: Tensor, k: Tensor, v: Tensor, *_: Any) -> tuple[Tensor, ...]:
    return _room(v)


def _room(v: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Empty tensors for what forward returns."""
    batch, heads, length, width = v.shape
    # H in the memory order of v, so that the heads are side by side as the next layer wants them.
    return (
        rows(torch.empty_like(v)),
        v.new_empty(batch, heads, length, width),
        v.new_empty(batch, heads, length),
        v.new_empty(batch, heads, width),
        v.new_empty(batch, heads, length, dtype=torch.uint8),
    )


def _backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    bias: Tensor | None,
    padding: Tensor | None,
    h: Tensor,
    inverse: Tensor,
    peak: Tensor,
    shift: Tensor,
    exact: Tensor,
    left: list[int],
    right: list[int],
    logsigmoid: bool,
    dropout_p: float,
    seed: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v, s, and of the bias for each sentence ``(B, H, T)``, if there is one."""
    gq, gk, gv, gs, gbias = _gradients(q, k, v, s, bias)
    tensors = {"q": q, "k": k, "v": v, "s": s, "bias": bias, "padding": padding}
    tensors |= {"h": h, "inverse": inverse, "peak": peak, "shift": shift, "exact": exact}
    tensors |= {"grad": grad, "gq": gq, "gk": gk, "gv": gv, "gs": gs, "gbias": gbias}
    _run(tensors, _Options(left, right, logsigmoid, dropout_p, seed), backward=True)
    return gq, gk, gv, gs, gbias


_BACKWARD_OP = torch.library.custom_op(
    "selfattn::mtsa_native_backward", _backward, mutates_args=(), device_types="cpu"
)


@_BACKWARD_OP.register_fake
def _(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, s: Tensor, bias: Tensor | None, *_: Any
) -> tuple[Tensor, ...]:
    return _gradients(q, k, v, s, bias)


def _gradients(
    q: Tensor, k: Tensor, v: Tensor, s: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Room for what backward returns; C adds to the last one."""
    gq, gk, gv, gs = (rows(torch.empty_like(t)) for t in (q, k, v, s))
    return gq, gk, gv, gs, q.new_zeros(q.shape[:3] if bias is not None else 0)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    q, k, v, s, bias, padding, left, right, logsigmoid, dropout_p, seed = inputs
    ctx.save_for_backward(q, k, v, s, bias, padding, *output, seed)
    ctx.options = (left, right, logsigmoid, dropout_p)


def _differentiate(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
    *tensors, seed = ctx.saved_tensors
    *grads, gbias = torch.ops.selfattn.mtsa_native_backward(grad, *tensors, *ctx.options, seed)
    total = gbias.sum(0) if gbias.dim() == 3 else None
    return *grads, total, None, None, None, None, None, None


_OP.register_autograd(_differentiate, setup_context=_save)
autograd.refuse_derivative(_BACKWARD_OP)


def _run(tensors: dict[str, Tensor | None], options: _Options, *, backward: bool) -> None:
    """Hand everything to C; tensors have the names of the fields in ``_Task``."""
    given = {name: t for name, t in tensors.items() if t is not None}
    batch, heads, length, inner = given["q"].shape
    task = _Task(
        batch=batch,
        heads=heads,
        length=length,
        inner=inner,
        width=given["v"].shape[-1],
        logsigmoid=options.logsigmoid,
        threads=torch.get_num_threads(),
        scale=inner**-0.5,
        keep=keep_probability(options.dropout_p),
        seed=0 if options.seed is None else int(options.seed),
    )
    given |= {"left": torch.tensor(options.left), "right": torch.tensor(options.right)}
    # Kept until C returns: some are copies.
    held = {n: rows(t) if n in _TENSORS else t.contiguous() for n, t in given.items()}
    for name, t in held.items():
        value = native.View.of(t) if name in _TENSORS else t.data_ptr()
        setattr(task, name, value)
    if native.library(HERE).mtsa_run(ctypes.byref(task), backward):
        raise MemoryError("the MTSA kernel found no memory for its buffers")


def dropout_factors(v: Tensor, dropout_p: float, seed: int) -> tuple[Tensor, Tensor]:
    """The factors that the kernel draws from a seed, as whole tensors, for references.

    Returns:
        The factor on (query, key) pairs ``(B, H, T, T)`` and the one on (key, feature) pairs
        ``(B, H, T, D)``, float32.
    """
    lines = v.shape[:3]
    pairs = dropout.factors(lines, v.shape[2], dropout.PAIRS, dropout_p, seed)
    return pairs, dropout.factors(lines, v.shape[3], dropout.FEATURES, dropout_p, seed)
