"""The launches, and the two operators that torch.compile and torch.export see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from selfattn.masks import PositionalMask
from selfattn.ops.common import fused as common
from selfattn.ops.common.autograd import refuse_derivative
from selfattn.ops.common.dropout import keep_probability
from selfattn.ops.common.tiling import LOG2E, rows, runs

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


class Forward(NamedTuple):
    """What forward hands to backward; what is not saved has no elements."""

    out: Tensor  # (B, T, C)
    mean: Tensor  # the same in float32, only if out is rounded
    den: Tensor  # float32 (B, T, C), relative to exp(c)
    change: Tensor  # float32 (B, T, C), den times d out / d b
    bounds: Tensor  # int32 (1 or 2, B, 3): span of the keys, and of the queries where it differs


def forward(
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
    """The output and what backward needs, see ``Forward``."""
    from selfattn.ops.common.triton_tools import bounds_kernel
    from selfattn.ops.disa.fused.kernels import forward_kernel

    done = _empty_forward(x, padding, unseen, save)
    call = _Call((x, a, b), padding, unseen, done.bounds[:1], seed, left, right, c, dropout_p)
    with torch.cuda.device_of(x):
        for hidden, bounds in zip(call.hidden[::-1], done.bounds, strict=False):
            bounds_kernel[(x.shape[0],)](hidden, bounds, x.shape[1], SIZE=common.KEYS_AT_A_TIME)
        for group in call.groups():
            forward_kernel[call.grid(group)](
                *call.inputs(group), *(t[..., group.features] for t in done[:4]),
                *call.strides, *done.out.stride()[:2], *call.numbers(group),
                **call.switches(), SAVE=save, HALF=x.dtype != torch.float32,
            )  # fmt: skip
    return done


def backward(
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
    """Gradients of x, a and b."""
    from selfattn.ops.disa.fused.kernels import key_kernel

    done = Forward(*saved)
    out = done.out if x.dtype == torch.float32 else done.mean
    scaled = grad.float() / done.den
    gx, ga = torch.empty_like(done.out), torch.empty_like(done.out)
    call = _Call((x, a, b), padding, unseen, done.bounds[-1:], seed, left, right, c, dropout_p)
    with torch.cuda.device_of(x):
        for group in call.groups():
            tensors = (t[..., group.features] for t in (out, scaled, gx, ga))
            key_kernel[call.grid(group)](
                *call.inputs(group), *tensors,
                *call.strides, *out.stride()[:2], *call.numbers(group), **call.switches(),
            )  # fmt: skip
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


fused_forward = torch.library.custom_op(
    "selfattn::disa_fused_forward",
    mutates_args=(),
    schema=f"(Tensor x, Tensor a, Tensor b, {_HIDDEN}, Tensor? seed, {_OPTIONS}, bool save)"
    " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)(forward)
fused_backward = torch.library.custom_op(
    "selfattn::disa_fused_backward",
    mutates_args=(),
    schema=f"(Tensor grad, Tensor x, Tensor a, Tensor b, {_HIDDEN}, Tensor? seed, "
    f"Tensor[] saved, {_OPTIONS}) -> (Tensor, Tensor, Tensor)",
)(backward)


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
def _(grad: Tensor, x: Tensor, *rest: Any) -> tuple[Tensor, Tensor, Tensor]:
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


class _Call:
    """The arguments that the kernels of a call share."""

    def __init__(
        self,
        tensors: Sequence[Tensor],
        padding: Tensor | None,
        unseen: Tensor | None,
        bounds: Tensor,
        seed: Tensor | None,
        left: Sequence[int],
        right: Sequence[int],
        c: float,
        dropout_p: float,
    ) -> None:
        self._tensors = [rows(t) for t in tensors]
        self._shape = tensors[0].shape
        self._offsets = list(zip(left, right, strict=True))
        both = (padding, padding if unseen is None else unseen)
        self.hidden = [t.contiguous().view(torch.uint8) for t in both if t is not None]
        # x stands for what is not there
        others = (*(self.hidden or both), bounds, seed)
        self._others = [self._tensors[0] if t is None else t for t in others]
        self.strides = [stride for t in self._tensors for stride in t.stride()[:2]]
        self._exponents = (2.0 / c * LOG2E, -2.0 * c * LOG2E)
        self._dropout = common.threshold(dropout_p), 1.0 / keep_probability(dropout_p)
        self._tile = choose(dropout_p > 0)

    def groups(self) -> list[_Group]:
        """The groups of features, one launch each."""
        width = self._shape[2] // len(self._offsets)
        return [
            _Group(parts.start, slice(parts.start * width, parts.stop * width), *offsets)
            for offsets, parts in runs(self._offsets)
        ]

    def grid(self, group: _Group) -> tuple[int]:
        """One program for each tile."""
        batch, length, _ = self._shape
        width = group.features.stop - group.features.start
        return (batch * -(-length // self._tile.tokens) * -(-width // self._tile.features),)

    def inputs(self, group: _Group) -> list[Tensor]:
        """x, a, b of a group, and what says which keys are seen and which terms dropped."""
        return [t[..., group.features] for t in self._tensors] + self._others

    def numbers(self, group: _Group) -> list[float]:
        """What the kernels take by value."""
        first, last = group.features.start, group.features.stop
        seen = (self._shape[1], last - first, group.left, group.right)
        lane = (len(self._offsets), group.part, first)
        return [*seen, *lane, *self._exponents, *self._dropout]

    def switches(self) -> dict[str, Any]:
        """Compile-time arguments."""
        return {
            "BT": self._tile.tokens,
            "BF": self._tile.features,
            "HAS_PADDING": bool(self.hidden),
            "DROPOUT": self._dropout[0] > 0,
            "num_warps": self._tile.warps,
        }
