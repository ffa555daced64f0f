"""The two operators that torch knows: what torch.compile and torch.export see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...common.autograd import refuse_derivative
from . import launch

_OPTIONS = "int[] left, int[] right, bool logsigmoid, float dropout_p"


@torch.library.custom_op(
    "selfattn::mtsa_fused_forward",
    mutates_args=(),
    schema=f"(Tensor q, Tensor k, Tensor v, Tensor s, Tensor? padding, Tensor? seed, {_OPTIONS}, "
    "bool save) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def fused_forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    padding: Tensor | None,
    seed: Tensor | None,
    left: Sequence[int],
    right: Sequence[int],
    logsigmoid: bool,
    dropout_p: float,
    save: bool,
) -> launch.Forward:
    """H and what backward needs, see ``launch.Forward``."""
    options = launch.Options(tuple(left), tuple(right), logsigmoid, dropout_p)
    return launch.forward(launch.Inputs(q, k, v, s, padding, seed, options), save)


@torch.library.custom_op(
    "selfattn::mtsa_fused_backward",
    mutates_args=(),
    schema="(Tensor grad, Tensor q, Tensor k, Tensor v, Tensor s, Tensor? padding, Tensor? seed, "
    f"Tensor[] saved, {_OPTIONS}) -> (Tensor, Tensor, Tensor, Tensor)",
)
def fused_backward(
    grad: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    padding: Tensor | None,
    seed: Tensor | None,
    saved: Sequence[Tensor],
    left: Sequence[int],
    right: Sequence[int],
    logsigmoid: bool,
    dropout_p: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of q, k, v and s."""
    options = launch.Options(tuple(left), tuple(right), logsigmoid, dropout_p)
    inputs = launch.Inputs(q, k, v, s, padding, seed, options)
    return launch.backward(grad, inputs, launch.Forward(*saved))


@fused_forward.register_fake
def _(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    padding: Tensor | None,
    seed: Tensor | None,
    left: Sequence[int],
    right: Sequence[int],
    logsigmoid: bool,
    dropout_p: float,
    save: bool,
) -> launch.Forward:
    options = launch.Options(tuple(left), tuple(right), logsigmoid, dropout_p)
    return launch.empty_forward(launch.Inputs(q, k, v, s, padding, seed, options), save)


@fused_backward.register_fake
def _(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, s: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    dq, dk, dv, ds = (launch.empty_heads(t) for t in (q, k, v, s))
    return dq, dk, dv, ds


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    q, k, v, s, padding, seed, *options, _ = inputs
    ctx.save_for_backward(q, k, v, s, padding, seed, *output)
    ctx.options = options


def _backward(ctx: Any, grad: Tensor, *_: Tensor | None) -> tuple[Any, ...]:
    q, k, v, s, padding, seed, *saved = ctx.saved_tensors
    grads = fused_backward(grad, q, k, v, s, padding, seed, saved, *ctx.options)
    return (*grads, *(None,) * 7)


fused_forward.register_autograd(_backward, setup_context=_setup)
refuse_derivative(fused_backward)
