"""How kernels that know their own gradient meet autograd: twice, and under torch.func.

A kernel is not a PyTorch operator, so autograd sees what a ``Call`` says about it: its output, its
gradient, and the equation that both of them compute. The gradient of the gradient is that of the
equation, some sentences and queries at a time.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor

from ...errors import UserError

# Scores that a second derivative holds at once: some twenty such tensors, 64 MiB each in float64.
PIECE_ELEMENTS = 1 << 23

_TELLS_EXPORTS = torch.__version__ >= "2.13"  # TorchVersion compares numbers
_SYMBOLIC = {"FakeTensor", "FakeTensorMode", "ProxyTorchDispatchMode"}  # not imported for this
Inputs: TypeAlias = Sequence[Tensor | None]
Outputs: TypeAlias = tuple[Tensor, ...]


class Call(ABC):
    """One call of an operator: its settings; tensors are given to its methods.

    Its inputs are tensors ``(B, ...)`` that have a gradient; a distance bias ``(H, T)`` or None,
    which has one, too; masks ``(B, T)`` or None; and the seed of dropout, or None without it.

    Attributes:
        projections: how many inputs come before the bias.
        folds: whether all that ``forward`` returns is ``(B, ...)``.
    """

    projections: int
    folds = True

    @abstractmethod
    def forward(self, inputs: Inputs) -> Outputs:
        """The output ``(B, ...)``, and what ``backward`` needs of the forward pass."""

    @abstractmethod
    def backward(self, grad: Tensor, inputs: Inputs, outputs: Inputs) -> Outputs:
        """The gradient of each projection, and of the bias if there is one."""

    @abstractmethod
    def factors(self, inputs: Inputs) -> Outputs:
        """The dropout factors that ``forward`` draws, as whole tensors ``(B, ...)``."""

    @abstractmethod
    def equation(self, inputs: Inputs, factors: Outputs | None, queries: slice) -> Tensor:
        """The output at some queries, ``(..., queries, features)``, by differentiable operators.

        ``factors`` is what the method of that name returned, or None without dropout.
        """


def run(call: Call, *inputs: Tensor | None) -> Tensor:
    """The output of a call that autograd and ``torch.func`` may differentiate, also twice."""
    function: type[torch.autograd.Function] = _Forward
    if not is_transformed():
        given = torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in inputs)
        if not given:  # autograd would cost a small call a third of its time
            return call.forward(inputs)[0]
        function = _Usual
    out: Tensor = function.apply(call, *inputs)[0]
    return out


def is_traced(t: Tensor) -> bool:
    """Whether operators are being recorded, so that only those of ``torch.library`` are seen."""
    if torch.compiler.is_compiling():
        return True
    keys = torch._C._dispatch_keys(t)
    return torch._C._len_torch_dispatch_stack() > 0 or keys.has(torch._C.DispatchKey.Python)


def is_exporting() -> bool:
    """Whether a graph is recorded by torch.export.

    ``torch.compiler.is_exporting`` is missing in torch 2.6, and says yes to torch.compile until
    some version after 2.9 (pytorch issue 176347).
    """
    if _TELLS_EXPORTS:
        return torch.compiler.is_exporting()
    return bool(getattr(torch.compiler, "_is_exporting_flag", False))


def is_transformed() -> bool:
    """Whether a transformation of torch.func is under way."""
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def is_symbolic(t: Tensor) -> bool:
    """Whether a tensor stands for others, as under FakeTensorMode and make_fx."""
    if torch.compiler.is_compiling():
        return False
    modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    return any(type(part).__name__ in _SYMBOLIC for part in (t, *modes))


def has_values(t: Tensor) -> bool:
    """Whether the values of a tensor can be read: not in a graph, under vmap or on "meta"."""
    return not (torch.compiler.is_compiling() or is_transformed() or t.is_meta or is_symbolic(t))


class _Forward(torch.autograd.Function):
    """The output of a call."""

    @staticmethod
    def forward(call: Call, *inputs: Tensor | None) -> Outputs:
        return tuple(call.forward(inputs))  # autograd takes no named tuple

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
        ctx.call, *tensors = inputs
        ctx.save_for_backward(*tensors, *output)
        ctx.count = len(tensors)
        ctx.mark_non_differentiable(*output[1:])
        ctx.set_materialize_grads(False)  # no zeros for what nobody differentiates

    @staticmethod
    def backward(ctx: Any, grad: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        if grad is None:
            return (None,) * (1 + ctx.count)
        saved, count = ctx.saved_tensors, ctx.count
        if torch.is_grad_enabled() or is_transformed():
            grads = _Backward.apply(ctx.call, count, grad, *saved)
        else:  # nobody differentiates the gradient: a tenth of what a small call costs
            grads = ctx.call.backward(grad, saved[:count], saved[count:])
        return (None, *_fill(grads, count))

    @staticmethod
    def vmap(info: Any, in_dims: Any, call: Call, *inputs: Tensor | None) -> tuple[Any, Any]:
        return _map(_Forward, (call,), info.batch_size, in_dims[1:], inputs, call, inputs)


class _Usual(torch.autograd.Function):
    """The same outside of ``torch.func``: without a ``setup_context`` torch is quicker."""

    backward = staticmethod(_Forward.backward)

    @staticmethod
    def forward(ctx: Any, call: Call, *inputs: Tensor | None) -> Outputs:
        output = tuple(call.forward(inputs))
        _Forward.setup_context(ctx, (call, *inputs), output)
        return output


class _Backward(torch.autograd.Function):
    """The gradient of a call: that of its output comes first, then ``count`` inputs."""

    @staticmethod
    def forward(call: Call, count: int, grad: Tensor, *saved: Tensor | None) -> Outputs:
        return call.backward(grad, saved[:count], saved[count:])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
        ctx.call, ctx.count, grad, *saved = inputs
        ctx.save_for_backward(grad, *saved[: ctx.count])
        ctx.others = len(saved) - ctx.count

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        first, *found = _Second.apply(ctx.call, ctx.count, *ctx.saved_tensors, *grads)
        return (None, None, first, *_fill(found, ctx.count), *(None,) * ctx.others)

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, call: Call, count: int, *tensors: Tensor | None
    ) -> tuple[Any, Any]:
        inputs = tensors[1 : count + 1]
        return _map(_Backward, (call, count), info.batch_size, in_dims[2:], tensors, call, inputs)


class _Second(torch.autograd.Function):
    """The gradient of ``_Backward``: of the first gradient, of each projection, of the bias."""

    @staticmethod
    def forward(call: Call, count: int, *tensors: Tensor | None) -> Outputs:
        grad, inputs, others = tensors[0], tensors[1 : count + 1], tensors[count + 1 :]
        assert grad is not None  # for the type checker
        with torch.autocast(grad.device.type, enabled=False):
            return _second(call, grad, inputs, others)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Outputs) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        raise UserError(
            "this attention has no third derivative on the backends 'eager' and 'fused', only on "
            "backend 'reference'"
        )

    @staticmethod
    def vmap(
        info: Any, in_dims: Any, call: Call, count: int, *tensors: Tensor | None
    ) -> tuple[Any, Any]:
        inputs = tensors[1 : count + 1]
        return _map(_Second, (call, count), info.batch_size, in_dims[2:], tensors, call, inputs)


def _fill(grads: Sequence[Tensor], count: int) -> tuple[Tensor | None, ...]:
    """Gradients of the first inputs, and None for the other ones."""
    return (*grads, *(None,) * (count - len(grads)))


def _map(
    function: Any,
    options: tuple[Any, ...],
    size: int,
    dims: Sequence[int | None],
    tensors: Inputs,
    call: Call,
    inputs: Inputs,
) -> tuple[Outputs, tuple[int, ...]]:
    """``size`` samples as one batch; one by one if a sample has what a batch shares."""
    bias, seed = inputs[call.projections], inputs[-1]
    moved = [
        t if t is None or dim is None else t.movedim(dim, 0)
        for t, dim in zip(tensors, dims, strict=True)
    ]
    pairs = list(zip(moved, dims, strict=True))
    if call.folds and bias is None and seed is None:
        flat = [
            None if t is None else (t.expand(size, *t.shape) if d is None else t).flatten(0, 1)
            for t, d in pairs
        ]
        found = function.apply(*options, *flat)
        outputs = tuple(t.unflatten(0, (size, -1)) for t in found)  # (size, B, ...)
    else:
        rows = [
            function.apply(*options, *(t if t is None or d is None else t[i] for t, d in pairs))
            for i in range(size)
        ]
        outputs = tuple(torch.stack(found) for found in zip(*rows, strict=True))
    return outputs, (0,) * len(outputs)


def _second(call: Call, grad: Tensor, inputs: Inputs, others: Inputs) -> Outputs:
    """With L the product of ``others`` and the gradients: the gradients of L.

    L is a sum over sentences and queries, which are taken some at a time.
    """
    given = [t for t in inputs[: call.projections + 1] if t is not None]
    dtypes = [t.dtype for t in (grad, *given)]
    factors = None if inputs[-1] is None else call.factors(inputs)
    grad, *inputs = (_widen(t) for t in (grad, *inputs))
    batch, length = len(grad), grad.shape[-2]
    pairs = length * (grad[0].numel() or 1)
    sentences = max(1, PIECE_ELEMENTS // pairs)
    step = max(1, PIECE_ELEMENTS * length // pairs)
    totals = [_widen(torch.zeros_like(t)) for t in (grad, *given)]
    for first in range(0, batch, sentences):
        rows = slice(first, first + sentences)

        def of(t: Any, place: int, rows: slice = rows) -> Any:
            """These sentences of an input; all of them share the bias and the seed."""
            shared = t is None or place in (call.projections, len(inputs) - 1)
            return t if shared else t[rows]

        mine = [of(t, place) for place, t in enumerate(inputs)]
        wanted = [of(t, place) for place, t in enumerate(others)]
        targets = [of(t, place - 1) for place, t in enumerate(totals)]
        drawn = None if factors is None else tuple(t[rows] for t in factors)
        for start in range(0, length, step):
            queries = slice(start, min(start + step, length))
            found = _piece(call, grad[rows], mine, wanted, drawn, queries)
            for total, term in zip(targets, found, strict=True):
                total += term
    return tuple(t.to(dtype) for t, dtype in zip(totals, dtypes, strict=True))


def _widen(t: Any) -> Any:
    """Half precision in float32."""
    return t.float() if t is not None and t.dtype in (torch.float16, torch.bfloat16) else t


def _piece(
    call: Call,
    grad: Tensor,
    inputs: Inputs,
    others: Sequence[Tensor],
    factors: Outputs | None,
    queries: slice,
) -> Outputs:
    """``_second`` for some queries of some sentences."""
    detached = [None if t is None else t.detach() for t in inputs]
    leaves = [t.requires_grad_() for t in detached[: call.projections + 1] if t is not None]
    with torch.enable_grad():
        upstream = grad.detach().requires_grad_()
        out = call.equation(detached, factors, queries)
        first = torch.autograd.grad(out, leaves, upstream[..., queries, :], create_graph=True)
        terms = [(a * b).sum() for a, b in zip(first, others, strict=True)]
        product = torch.stack(terms).sum()
        return torch.autograd.grad(product, [upstream, *leaves], materialize_grads=True)
