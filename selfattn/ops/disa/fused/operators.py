"""The launches, and the two operators that torch.compile and torch.export see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....masks import PositionalMask
from ...common import fused as common
from ...common.autograd import refuse_derivative
from ...common.dropout import keep_probability
from ...common.tiling import LOG2E, rows, runs

_HIDDEN = "Tensor? padding, Tensor? unseen"
_OPTIONS = "int[] left, int[] right, float c, float dropout_p"


class Tile(NamedTuple):
    """How a kernel cuts its work."""

    tokens: int
    features: int
    warps: int


def choose(dropout: bool) -> Tile:
    """The tile of both kernels; ``report`` shows its registers. Dropout needs some for itself."""
    return Tile(16 if dropout else 32, 64, 4)


class Inputs(NamedTuple):
    """What both passes take."""

    x: Tensor  # (B, T, C)
    a: Tensor  # (B, T, C)
    b: Tensor  # (B, T, C)
    padding: Tensor | None  # bool (B, T), does not attend
    unseen: Tensor | None  # bool (B, T), is no key; None: the same as padding
    seed: Tensor | None  # int64 (1,), of dropout
    left: Sequence[int]  # offsets of each mask
    right: Sequence[int]
    c: float
    dropout_p: float


class Forward(NamedTuple):
    """What forward hands to backward; what is not saved has no elements."""

    out: Tensor  # (B, T, C)
    mean: Tensor  # the same in float32, only if out is rounded
    den: Tensor  # float32 (B, T, C), relative to exp(c)
    change: Tensor  # float32 (B, T, C), den times d out / d b
    bounds: Tensor  # int32 (1 or 2, B, 3): span of the keys, and of the queries where it differs


def forward(inputs: Inputs, save: bool) -> Forward:
    """The output and what backward needs, see ``Forward``."""
    from ...common.triton_tools import bounds_kernel
    from .kernels import forward_kernel

    x = inputs.x
    done = _empty_forward(x, inputs.padding, inputs.unseen, save)
    launch = _launch(inputs, done.bounds[:1])
    with torch.cuda.device_of(x):
        for hidden, bounds in zip(launch.hidden[::-1], done.bounds, strict=False):
            bounds_kernel[(x.shape[0],)](
                padding_ptr=hidden,
                bounds_ptr=bounds,
                length=x.shape[1],
                SIZE=common.KEYS_AT_A_TIME,
            )
        for group in launch.groups():
            forward_kernel[launch.grid(group)](
                **launch.arguments(group),
                **_pointers(group, out=done.out, mean=done.mean, den=done.den, change=done.change),
                **_strides("out", done.out),
                SAVE=save,
                HALF=x.dtype != torch.float32,
            )
    return done


def backward(grad: Tensor, inputs: Inputs, done: Forward) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of x, a and b."""
    from .kernels import key_kernel

    x, padding = inputs.x, inputs.padding
    out = done.out if x.dtype == torch.float32 else done.mean
    scaled = grad.float() / done.den
    gx, ga = torch.empty_like(done.out), torch.empty_like(done.out)
    launch = _launch(inputs, done.bounds[-1:])
    with torch.cuda.device_of(x):
        for group in launch.groups():
            key_kernel[launch.grid(group)](
                **launch.arguments(group),
                **_pointers(group, out=out, grad=scaled, gx=gx, ga=ga),
                **_strides("out", out),
            )
    gb = (scaled * done.change).to(x.dtype)
    if padding is not None:
        gb.masked_fill_(padding[..., None], 0.0)
    return gx, ga, gb


def _empty_forward(x: Tensor, padding: Tensor | None, unseen: Tensor | None, save: bool) -> Forward:
    """The memory that forward fills; what is not saved has no elements."""
    batch, length, features = x.shape

    def new(count: int) -> Tensor:
        return torch.empty(count, length, features, dtype=torch.float32, device=x.device)

    kept = batch if save else 0
    bounds = (0 if padding is None else 1 if unseen is None else 2, batch, 3)
    return Forward(
        x.new_empty(batch, length, features),
        new(0 if x.dtype == torch.float32 else kept),
        new(kept),
        new(kept),
        torch.empty(bounds, dtype=torch.int32, device=x.device),
    )


@torch.library.custom_op(
    "selfattn::disa_fused_forward",
    mutates_args=(),
    schema=f"(Tensor x, Tensor a, Tensor b, {_HIDDEN}, Tensor? seed, {_OPTIONS}, bool save)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)
def fused_forward(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    padding: Tensor | None,
    unseen: Tensor | None,
    seed: Tensor | None,
    left: Sequence[int],
    right: Sequence[int],
    c: float,
    dropout_p: float,
    save: bool,
) -> Forward:
    """``forward`` as torch sees it."""
    return forward(Inputs(x, a, b, padding, unseen, seed, left, right, c, dropout_p), save)


@torch.library.custom_op(
    "selfattn::disa_fused_backward",
    mutates_args=(),
    schema=f"(Tensor grad, Tensor x, Tensor a, Tensor b, {_HIDDEN}, Tensor? seed, "
    f"Tensor[] saved, {_OPTIONS}) -> (Tensor, Tensor, Tensor)",
)
def fused_backward(
    grad: Tensor,
    x: Tensor,
    a: Tensor,
    b: Tensor,
    padding: Tensor | None,
    unseen: Tensor | None,
    seed: Tensor | None,
    saved: Sequence[Tensor],
    left: Sequence[int],
    right: Sequence[int],
    c: float,
    dropout_p: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """``backward`` as torch sees it."""
    inputs = Inputs(x, a, b, padding, unseen, seed, left, right, c, dropout_p)
    return backward(grad, inputs, Forward(*saved))


@fused_forward.register_fake
def _(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    padding: Tensor | None,
    unseen: Tensor | None,
    seed: Tensor | None,
    left: Sequence[int],
    right: Sequence[int],
    c: float,
    dropout_p: float,
    save: bool,
) -> Forward:
    return _empty_forward(x, padding, unseen, save)


@fused_backward.register_fake
def _(grad: Tensor, x: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape), x.new_empty(x.shape)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    x, a, b, padding, unseen, seed, *options, _ = inputs
    ctx.save_for_backward(x, a, b, padding, unseen, seed, *output)
    ctx.options = options


def _backward(ctx: Any, grad: Tensor, *_: Tensor | None) -> tuple[Any, ...]:
    x, a, b, padding, unseen, seed, *saved = ctx.saved_tensors
    grads = fused_backward(grad, x, a, b, padding, unseen, seed, saved, *ctx.options)
    return (*grads, *(None,) * 8)


fused_forward.register_autograd(_backward, setup_context=_setup)
refuse_derivative(fused_backward)


def dropout_factors(
    x: Tensor, masks: Sequence[PositionalMask], dropout_p: float, seed: Tensor
) -> tuple[Tensor, Tensor]:
    """The factors that the kernels draw from a seed ``(1,)``, as whole tensors, for references.

    Returns:
        The factor on (query, key) pairs ``(B, G, T, T)``, one for each mask, and the one on
        (key, feature) pairs ``(B, T, C)``; both float32.
    """
    batch, length, features = x.shape
    pairs, _ = common.dropout_factors(seed, (batch, len(masks), length, 1), dropout_p)
    for _, parts in runs(masks):
        pairs[:, parts] = pairs[:, parts.start, None]
    return pairs, common.dropout_factors(seed, (batch, 1, length, features), dropout_p)[1][:, 0]


class _Group(NamedTuple):
    """Neighbouring features under one mask."""

    part: int  # place of its first part among all masks
    features: slice
    left: int
    right: int


@dataclass(frozen=True)
class _Launch:
    """The arguments that the kernels of a call share, by the names that the kernels give them."""

    inputs: Inputs
    tensors: dict[str, Tensor]  # x, a and b
    hidden: list[Tensor]  # padding and unseen, uint8, if there are any
    others: dict[str, Tensor]  # which keys are seen, and which terms dropped

    @property
    def _tile(self) -> Tile:
        return choose(self.inputs.dropout_p > 0)

    def groups(self) -> list[_Group]:
        """The groups of features, one launch each."""
        offsets = list(zip(self.inputs.left, self.inputs.right, strict=True))
        width = self.inputs.x.shape[2] // len(offsets)
        return [
            _Group(parts.start, slice(parts.start * width, parts.stop * width), *ends)
            for ends, parts in runs(offsets)
        ]

    def grid(self, group: _Group) -> tuple[int]:
        """One program for each tile."""
        batch, length, _ = self.inputs.x.shape
        width = group.features.stop - group.features.start
        return (batch * -(-length // self._tile.tokens) * -(-width // self._tile.features),)

    def arguments(self, group: _Group) -> dict[str, Any]:
        """What both kernels take for a group."""
        c, dropout_p = self.inputs.c, self.inputs.dropout_p
        return {
            **_pointers(group, **self.tensors),
            **self.others,
            **_strides("x", self.tensors["x"]),
            **_strides("a", self.tensors["a"]),
            **_strides("b", self.tensors["b"]),
            "length": self.inputs.x.shape[1],
            "width": group.features.stop - group.features.start,
            "left": group.left,
            "right": group.right,
            "groups": len(self.inputs.left),
            "group": group.part,
            "column": group.features.start,
            "gain": 2.0 / c * LOG2E,
            "low": -2.0 * c * LOG2E,
            "threshold": common.threshold(dropout_p),
            "inverse_keep": 1.0 / keep_probability(dropout_p),
            "BT": self._tile.tokens,
            "BF": self._tile.features,
            "HAS_PADDING": bool(self.hidden),
            "DROPOUT": dropout_p > 0,
            "num_warps": self._tile.warps,
        }


def _launch(inputs: Inputs, bounds: Tensor) -> _Launch:
    """The arguments of a call; x stands for what is not there."""
    x, a, b = (rows(t) for t in (inputs.x, inputs.a, inputs.b))
    padding, unseen, seed = inputs.padding, inputs.unseen, inputs.seed
    both = (padding, padding if unseen is None else unseen)
    hidden = [t.contiguous().view(torch.uint8) for t in both if t is not None]
    others = {
        "padding_ptr": hidden[0] if hidden else x,
        "unseen_ptr": hidden[-1] if hidden else x,
        "bounds_ptr": bounds,
        "seed_ptr": x if seed is None else seed,
    }
    return _Launch(inputs, {"x": x, "a": a, "b": b}, hidden, others)


def _pointers(group: _Group, **tensors: Tensor) -> dict[str, Tensor]:
    """The features of a group ``(B, T, width)`` under the names that kernels give them."""
    return {f"{name}_ptr": t[..., group.features] for name, t in tensors.items()}


def _strides(name: str, t: Tensor) -> dict[str, int]:
    """Strides of ``(B, T, .)`` under the names that kernels give them."""
    return {f"{name}_b": t.stride(0), f"{name}_t": t.stride(1)}
