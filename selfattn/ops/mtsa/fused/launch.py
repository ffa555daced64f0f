"""From tensors to kernels: memory, grids and arguments."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from selfattn.ops.common import fused as common
from selfattn.ops.common.tiling import LOG2E, rows
from selfattn.ops.mtsa.fused import configs


class Options(NamedTuple):
    """What is not a tensor: the offsets ``key - query`` of each head, and the switches."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    logsigmoid: bool
    dropout_p: float


class Forward(NamedTuple):
    """What forward hands to backward; the last five are empty where nothing is saved.

    ``den`` holds denominators relative to the two maxima, and in flagged tiles the logarithm of the
    whole normaliser relative to the row maximum.
    """

    out: Tensor  # (B, H, T, D), in memory (B, T, H, D)
    flags: Tensor  # int32 (B * H, query tiles)
    bounds: Tensor  # int32 (B, 3): span of the real keys
    den: Tensor  # float32 (B * H, T, D)
    row_max: Tensor  # float32 (B * H, T), in units of log 2
    shift: Tensor  # float32 (B * H, query tiles, D): maxima of the features


def empty_forward(
    q: Tensor, v: Tensor, padding: Tensor | None, options: Options, save: bool
) -> Forward:
    """The memory that forward fills."""
    batch, heads, length, width = v.shape
    lanes = batch * heads
    tile = _tiles(q, v, options).forward.queries
    tiles = -(-length // tile)
    kept = lanes if save else 0

    def new(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=v.device)

    return Forward(
        empty_heads(v),
        new(lanes, tiles, dtype=torch.int32),
        new(0 if padding is None else batch, 3, dtype=torch.int32),
        new(kept, length, width),
        new(kept, length),
        new(kept, tiles, width),
    )


def forward(
    tensors: Sequence[Tensor],
    padding: Tensor | None,
    seed: Tensor | None,
    options: Options,
    save: bool,
) -> Forward:
    """Run the forward kernels on q, k, v, s."""
    from selfattn.ops.common import triton_tools
    from selfattn.ops.mtsa.fused import exact as exact_kernels
    from selfattn.ops.mtsa.fused import forward as kernels

    call = _Call(tensors, padding, seed, options)
    done = empty_forward(tensors[0], tensors[2], padding, options, save)
    tiles = call.tiles
    with call.device():
        if call.padding is not None:
            triton_tools.bounds_kernel[(len(call.padding),)](
                call.padding, done.bounds, call.length, SIZE=common.KEYS_AT_A_TIME
            )
        inputs = call.inputs(done.bounds)
        kernels.forward_kernel[call.grid(tiles.forward.queries)](
            *inputs, done.out, done.den, done.row_max, done.shift, done.flags,
            *call.strides, *call.sizes, *call.dropout,
            **call.switches(tiles.forward), **call.precision, SAVE=save,
        )  # fmt: skip
        exact_kernels.exact_forward_kernel[call.grid(tiles.exact.queries)](
            *inputs, done.out, done.den, done.row_max, done.flags,
            *call.strides, *call.sizes, *call.dropout,
            **call.switches(tiles.exact), BF=tiles.forward.queries, SAVE=save,
        )  # fmt: skip
    return done


def backward(
    grad: Tensor,
    tensors: Sequence[Tensor],
    padding: Tensor | None,
    seed: Tensor | None,
    options: Options,
    done: Forward,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the backward kernels; returns the gradients of q, k, v, s."""
    from selfattn.ops.mtsa.fused import backward as kernels
    from selfattn.ops.mtsa.fused import exact as exact_kernels
    from selfattn.ops.mtsa.fused import prepare

    call = _Call(tensors, padding, seed, options)
    grad = rows(grad)
    dq, dk, dv, ds = (empty_heads(t) for t in tensors)
    half = tensors[0].dtype == torch.bfloat16
    dnum = torch.empty_like(done.den, dtype=torch.bfloat16 if half else torch.float32)
    dden = torch.empty_like(dnum)
    tiles, size = call.tiles, configs.PREPARE_ROWS
    unit = (*call.sizes, call.gain)
    with call.device():
        inputs = call.inputs(done.bounds)
        prepare.ratio_kernel[call.grid(size)](
            grad, done.out, done.den, done.row_max, done.flags, dnum, dden,
            *grad.stride()[:3], call.heads, call.length,
            DV=call.widths["DV"], SV=call.widths["SV"], BM=tiles.forward.queries, ROWS=size,
        )  # fmt: skip
        ratio = (dnum, dden, done.row_max, done.shift)
        kernels.query_kernel[call.grid(tiles.query.queries)](
            *inputs, *ratio, dq, *call.strides, *unit, *call.dropout,
            **call.switches(tiles.query), **call.precision, BF=tiles.forward.queries,
        )  # fmt: skip
        kernels.key_kernel[call.grid(tiles.key.keys)](
            *inputs, *ratio, dk, *call.strides, *unit, *call.dropout,
            **call.switches(tiles.key), **call.precision, BF=tiles.forward.queries,
            SC=min(tiles.key.features, call.widths["SV"]),
        )  # fmt: skip
        kernels.value_kernel[call.grid(tiles.value.keys)](
            *inputs, *ratio, dv, ds, *call.strides, *unit, *call.dropout,
            **call.switches(tiles.value), **call.precision, BF=tiles.forward.queries,
        )  # fmt: skip
        saved = (grad, done.out, done.den, done.row_max, done.flags)
        strides = (*call.strides, *grad.stride()[:3])
        switches = call.switches(tiles.exact) | {"BF": tiles.forward.queries}
        exact_kernels.exact_query_kernel[call.grid(tiles.exact.queries)](
            *inputs, *saved, dq, *strides, *unit, *call.dropout, **switches
        )
        exact_kernels.exact_key_kernel[call.grid(tiles.exact.keys)](
            *inputs, *saved, dk, dv, ds, *strides, *unit, *call.dropout, **switches
        )
    return dq, dk, dv, ds


class _Call:
    """The arguments that all kernels of a call share."""

    def __init__(
        self,
        tensors: Sequence[Tensor],
        padding: Tensor | None,
        seed: Tensor | None,
        options: Options,
    ) -> None:
        self.tensors = [rows(t) for t in tensors]
        q, _, v, _ = self.tensors
        self.batch, self.heads, self.length, width = v.shape
        key_width = q.shape[-1]
        self.tiles = _tiles(q, v, options)
        self.options = options
        self.padding = None if padding is None else padding.contiguous().view(torch.uint8)
        self.seed = seed
        self.gain = key_width**-0.5
        # heads, length, and the scale of eq. 8 in units of log 2
        self.sizes = (self.heads, self.length, self.gain * LOG2E)
        p = options.dropout_p
        if seed is not None:
            self.tensors[2] = dropped_values(v, seed, p)
        self.strides = [stride for t in self.tensors for stride in t.stride()[:3]]
        # The scale of both factors: v is only set to 0 where it is dropped.
        self.dropout = (common.threshold(p), 1.0 / (1.0 - p))
        self.widths = {
            "DK": key_width,
            "DV": width,
            "SK": configs.padded(key_width),
            "SV": configs.padded(width),
        }
        scores, products = configs.precision(q.dtype)
        half = products == "half"
        self.precision = {"HALF": half, "SCORES": scores, "PRODUCTS": products}

    def device(self) -> Any:
        """The device that the kernels are launched on."""
        return torch.cuda.device_of(self.tensors[0])

    def grid(self, size: int) -> tuple[int]:
        """One program for each tile of that many rows."""
        return (self.batch * self.heads * -(-self.length // size),)

    def inputs(self, bounds: Tensor) -> list[Tensor]:
        """q, k, v, s and what says which keys are seen; q stands for what is not there."""
        q = self.tensors[0]
        left, right = _offsets(self.options.left, self.options.right, q.device)
        padding = q if self.padding is None else self.padding
        seed = q if self.seed is None else self.seed
        return [*self.tensors, padding, bounds, left, right, seed]

    def switches(self, tile: configs.Tile) -> dict[str, Any]:
        """Compile-time arguments."""
        return {
            **self.widths,
            "BM": tile.queries,
            "BN": tile.keys,
            "HAS_PADDING": self.padding is not None,
            "LOGSIGMOID": self.options.logsigmoid,
            "DROPOUT": self.options.dropout_p > 0,
            "num_warps": tile.warps,
            "num_stages": tile.stages,
            "enable_fp_fusion": True,
        }


def _tiles(q: Tensor, v: Tensor, options: Options) -> configs.Tiles:
    """The tiles of a call."""
    widths = (q.shape[-1], v.shape[-1])
    dropped = options.dropout_p > 0
    return configs.choose(q.dtype, widths, options.logsigmoid, dropped)


@functools.lru_cache(maxsize=256)
def _offsets(
    left: tuple[int, ...], right: tuple[int, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Offsets on the device; kept, since a copy to it would break the capture of a CUDA graph."""
    first = torch.tensor(left, dtype=torch.int32, device=device)
    return first, torch.tensor(right, dtype=torch.int32, device=device)


def dropped_values(v: Tensor, seed: Tensor, dropout_p: float) -> Tensor:
    """v ``(B, H, T, D)`` with 0 where its factor is 0, not scaled: so it stays exact."""
    from selfattn.ops.mtsa.fused.prepare import drop_kernel

    batch, heads, length, width = v.shape
    size = configs.PREPARE_ROWS
    out = empty_heads(v)
    with torch.cuda.device_of(v):
        drop_kernel[(batch * heads * -(-length // size),)](
            v, out, seed, *v.stride()[:3], heads, length, common.threshold(dropout_p),
            DV=width, SV=configs.padded(width), ROWS=size,
        )  # fmt: skip
    return out


def empty_heads(like: Tensor) -> Tensor:
    """Empty ``(B, H, T, D)`` whose heads lie side by side in memory, as ``join_heads`` wants."""
    batch, heads, length, width = like.shape
    shape = (batch, length, heads, width)
    return torch.empty(shape, dtype=like.dtype, device=like.device).transpose(1, 2)
