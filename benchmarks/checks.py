"""No numbers for wrong results: what a method must pass before its row is reported."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from .testing import error_ratio, padding_mask, run_with_grads

if TYPE_CHECKING:
    from .method import Method, Setup

# Bounds on the relative error of outputs and gradients of a whole module against float64. The low
# precisions round between the maps too; a wrong formula is off by far more.
BOUNDS = {"float64": 1e-10, "float32": 2e-5, "bfloat16": 4e-2, "float16": 5e-3}
# The reference forms build T x T x D tensors: beyond this length only the other checks are made.
REFERENCE_LENGTH = 130


class CheckFailed(Exception):
    """A method computes something wrong; the message says what."""


def check_module(
    method: Method, setup: Setup, length: int, *, against_reference: bool = True
) -> None:
    """Check a module's results at a length.

    1. Outputs and gradients of its inputs against its reference form in float64, with and without
       padding, up to ``REFERENCE_LENGTH`` tokens.
    2. A sentence's output does not depend on its batch mates and on what lies in the padding.
    3. Outputs and gradients are finite, those of the parameters included; in training, no
       parameter is without a gradient.

    Without ``against_reference`` the first, the slow one, is left out.

    Raises:
        CheckFailed: if one of them does not hold.
    """
    torch.manual_seed(1)
    fresh = method.build(setup)
    fresh.train(setup.mode == "training")
    reference = method.reference(fresh, setup) if against_reference else None
    module = fresh.to(setup.device, setup.torch_dtype)
    if reference is not None:
        for padding in ("none", "right"):
            short = min(length, REFERENCE_LENGTH)
            _against_reference(method, module, reference, setup, short, padding)
    _batch_mates(method, module, setup, length)
    _finite(method, module, setup, length)


def _put(tensors: list[Tensor], setup: Setup) -> list[Tensor]:
    return [t.to(setup.device, setup.torch_dtype) for t in tensors]


def _require(name: str, expected: Tensor, got: Tensor, setup: Setup) -> None:
    error = error_ratio(expected.cpu(), got.cpu())
    if not error <= BOUNDS[setup.dtype]:
        raise CheckFailed(f"{name}: error {error:.1e} is above {BOUNDS[setup.dtype]:.0e}")


def _against_reference(
    method: Method, module: nn.Module, reference: nn.Module, setup: Setup, length: int, padding: str
) -> None:
    inputs = _put(method.inputs(setup, 2, length), setup)
    hidden = padding_mask(padding, 2, length)
    here = None if hidden is None else hidden.to(setup.device)
    # The reference gets what is left of weights and inputs after they were rounded.
    slow = reference.to(setup.torch_dtype).double().cpu()
    with torch.no_grad():
        shape = module(*inputs, here).shape
    upstream = torch.randn(shape).to(setup.torch_dtype).double()
    if hidden is not None:  # the output of a padded query does not matter
        upstream.masked_fill_(_like_output(hidden, upstream), 0.0)
    expected = run_with_grads(
        lambda *leaves: slow(*leaves, hidden), [x.double().cpu() for x in inputs], upstream
    )
    got = run_with_grads(
        lambda *leaves: module(*leaves, here), inputs, upstream.to(setup.device, setup.torch_dtype)
    )
    names = ["output", *(f"gradient of input {i}" for i in range(len(inputs)))]
    for name, truth, found in zip(names, expected, got, strict=True):
        if hidden is not None:
            unseen = _like_output(hidden, truth)
            truth, found = truth.masked_fill(unseen, 0.0), found.cpu().masked_fill(unseen, 0.0)
        _require(f"{name}, padding {padding}, against the reference form", truth, found, setup)


def _like_output(hidden: Tensor, y: Tensor) -> Tensor:
    """``(B, T)`` -> a mask that fits ``(B, T, C)`` or ``(B, H, T, D)``."""
    return hidden[:, :, None] if y.dim() == 3 else hidden[:, None, :, None]


def _batch_mates(method: Method, module: nn.Module, setup: Setup, length: int) -> None:
    real = max(1, length - length // 3)
    pair = method.inputs(setup, 2, length)
    alone = [x[:1].narrow(-2, 0, real).clone() for x in pair]
    for x in pair:
        x[:1].narrow(-2, real, length - real).mul_(method.garbage)
    hidden = torch.zeros(2, length, dtype=torch.bool)
    hidden[0, real:] = True
    with torch.no_grad():
        expected = module(*_put(alone, setup), None)
        together = module(*_put(pair, setup), hidden.to(setup.device))
    found = together[:1].narrow(-2, 0, real)
    _require("output beside another sentence, against the sentence alone", expected, found, setup)


def _finite(method: Method, module: nn.Module, setup: Setup, length: int) -> None:
    leaves = [x.requires_grad_() for x in _put(method.inputs(setup, 1, length), setup)]
    y = module(*leaves, None)
    y.backward(torch.ones_like(y))
    found = [("output", y), *((f"gradient of input {i}", x.grad) for i, x in enumerate(leaves))]
    found += [
        (f"gradient of {name}", p.grad)
        for name, p in module.named_parameters()
        if p.grad is not None or setup.mode == "training"  # ReSA's samplers wait to be trained
    ]
    for name, tensor in found:
        if tensor is None:
            raise CheckFailed(f"{name} is missing")
        if not torch.isfinite(tensor).all():
            raise CheckFailed(f"{name} is not finite")
    module.zero_grad(set_to_none=True)
