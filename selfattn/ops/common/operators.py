"""Kernels as operators of ``torch.library``: what ``torch.compile`` and ``torch.export`` see.

To call such an operator imports the compiler, so that nothing else does.
"""

import functools
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from ...errors import UserError
from ...masks import LONGEST_WINDOW, PositionalMask
from . import autograd
from .autograd import Inputs, Outputs
from .tiling import rows


class KernelCall(autograd.Call):
    """A call of a kernel, which offsets and a few numbers describe.

    Attributes:
        tensors: the inputs as a schema of torch declares them.
        declared: the same of ``options``; the class has the fields in this order.
        masks: positional masks of the kernel.
    """

    tensors: ClassVar[str]
    declared: ClassVar[str]
    masks: tuple[PositionalMask, ...]

    def options(self) -> tuple[Any, ...]:
        """What ``declared`` names: offsets of the masks, left and right, then other fields."""
        _, _, *names = (argument.split()[1] for argument in self.declared.split(", "))
        return *offsets(self.masks), *(getattr(self, name) for name in names)

    @abstractmethod
    def room(self, inputs: Inputs) -> Outputs:
        """The memory that ``forward`` fills."""

    def gradients(self, inputs: Inputs) -> Outputs:
        """The memory that ``backward`` fills: for each projection, and the bias if there is one."""
        given = (t for t in inputs[: self.projections + 1] if t is not None)
        return tuple(rows(torch.empty_like(t)) for t in given)


def register(
    name: str, kind: type[KernelCall], outputs: int, device: str | None = None
) -> Callable[..., Tensor]:
    """Make a kernel known to torch, as ``selfattn::{name}_forward`` and ``..._backward``.

    The result is a function of a call of that kind and its inputs. It gives the call's output, the
    first of the ``outputs`` of ``forward``, by the operator where something records operators.
    """
    count = kind.tensors.count("Tensor")
    others = kind.declared.count(",") + 1
    arguments = f"{kind.tensors}, {kind.declared}"
    returned = ", ".join(["Tensor"] * outputs)
    define = functools.partial(torch.library.custom_op, mutates_args=(), device_types=device)

    def call_of(given: Sequence[Any]) -> KernelCall:
        left, right, *numbers = given[count:]
        masks = tuple(mask_of(*ends) for ends in zip(left, right, strict=True))
        return kind(masks, *numbers)  # type: ignore[call-arg]

    @define(f"selfattn::{name}_forward", schema=f"({arguments}) -> ({returned})")
    def forward(*given: Any) -> Outputs:
        return tuple(call_of(given).forward(given[:count]))

    @define(
        f"selfattn::{name}_backward",
        schema=f"(Tensor grad, Tensor[] outputs, {arguments}) -> Tensor[]",
    )
    def backward(grad: Tensor, saved: Sequence[Tensor], *given: Any) -> list[Tensor]:
        return list(call_of(given).backward(grad, given[:count], saved))

    @forward.register_fake
    def _(*given: Any) -> Outputs:
        return tuple(call_of(given).room(given[:count]))

    @backward.register_fake
    def _(grad: Tensor, saved: Sequence[Tensor], *given: Any) -> list[Tensor]:
        return list(call_of(given).gradients(given[:count]))

    def save(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
        ctx.save_for_backward(*inputs[:count], *output)
        ctx.options = inputs[count:]

    def differentiate(ctx: Any, grad: Tensor, *_: Any) -> tuple[Tensor | None, ...]:
        everything = ctx.saved_tensors  # read once: a recomputing checkpoint gives it once
        inputs, saved = everything[:count], everything[count:]
        found = iter(backward(grad, list(saved), *inputs, *ctx.options))
        grads = [None if t is None else next(found) for t in inputs[: kind.projections + 1]]
        return *grads, *(None,) * (count + others - len(grads))

    forward.register_autograd(differentiate, setup_context=save)
    _refuse_derivative(backward)

    def run(call: KernelCall, *inputs: Any) -> Tensor:
        if autograd.is_traced(inputs[0]):
            out: Tensor = forward(*inputs, *call.options())[0]
            return out
        return autograd.run(call, *inputs)

    return run


def offsets(masks: Sequence[PositionalMask]) -> tuple[list[int], list[int]]:
    """Smallest and largest visible ``key - query`` of each mask; huge where there is no bound."""
    ends = [mask.offsets for mask in masks]
    left = [-LONGEST_WINDOW if end is None else end for end, _ in ends]
    right = [LONGEST_WINDOW if end is None else end for _, end in ends]
    return left, right


@functools.lru_cache(maxsize=256)
def mask_of(left: int, right: int) -> PositionalMask:
    """A mask with these offsets, the reverse of ``offsets``."""
    if right <= 0:
        direction, own, window = "forward", right == 0, -left
    elif left >= 0:
        direction, own, window = "backward", left == 0, right
    else:
        direction, own, window = "none", True, right
    return PositionalMask(direction, own, None if window >= LONGEST_WINDOW else window)


def _refuse_derivative(backward: torch.library.CustomOpDef) -> None:
    """Refuse to differentiate the gradient that torch.compile sees."""

    def refuse(*_: Any) -> Any:
        raise UserError(
            "an attention kernel has no second derivative where operators are recorded; call the "
            "layer outside of torch.compile and dispatch modes, or choose backend 'reference'"
        )

    backward.register_autograd(refuse)
