"""From tensors to kernels: memory, grids, and arguments by name."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...common import fused as common
from ...common.tiling import LOG2E, rows
from . import configs


class Options(NamedTuple):
    """What is not a tensor: the offsets ``key - query`` of each head, and the switches."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    logsigmoid: bool
    dropout_p: float


class Inputs(NamedTuple):
    """What both passes take."""

    q: Tensor  # (B, H, T, D_i)
    k: Tensor  # (B, H, T, D_i)
    v: Tensor  # (B, H, T, D)
    s: Tensor  # (B, H, T, D)
    padding: Tensor | None  # bool (B, T)
    seed: Tensor | None  # int64 (1,), of dropout
    options: Options

    @property
    def tiles(self) -> configs.Tiles:
        """The tiles of all kernels."""
        widths = (self.q.shape[-1], self.v.shape[-1])
        dropped = self.options.dropout_p > 0
        return configs.choose(self.q.dtype, widths, self.options.logsigmoid, dropped)


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

    def saved(self, *names: str) -> dict[str, Tensor]:
        """Some of them as arguments of a kernel."""
        return {f"{name}_ptr": getattr(self, name) for name in names}


def empty_forward(inputs: Inputs, save: bool) -> Forward:
    """The memory that forward fills."""
    v = inputs.v
    batch, heads, length, width = v.shape
    lanes = batch * heads
    tiles = -(-length // inputs.tiles.forward.queries)
    kept = lanes if save else 0

    def new(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=v.device)

    return Forward(
        out=empty_heads(v),
        flags=new(lanes, tiles, dtype=torch.int32),
        bounds=new(0 if inputs.padding is None else batch, 3, dtype=torch.int32),
        den=new(kept, length, width),
        row_max=new(kept, length),
        shift=new(kept, tiles, width),
    )


def forward(inputs: Inputs, save: bool) -> Forward:
    """Run the forward kernels."""
    from ...common import triton_tools
    from . import exact, forward

    done = empty_forward(inputs, save)
    launch = _launch(inputs, done.bounds)
    tiles = inputs.tiles
    given = launch.pointers | launch.strides | launch.sizes | launch.dropout
    with torch.cuda.device_of(inputs.q):
        if inputs.padding is not None:
            triton_tools.bounds_kernel[(len(inputs.padding),)](
                padding_ptr=launch.pointers["padding_ptr"],
                bounds_ptr=done.bounds,
                length=launch.length,
                SIZE=common.KEYS_AT_A_TIME,
            )
        forward.forward_kernel[launch.grid(tiles.forward.queries)](
            **given,
            **done.saved("out", "den", "row_max", "shift"),
            flag_ptr=done.flags,
            **launch.switches(tiles.forward),
            **launch.precision,
            SAVE=save,
        )
        exact.exact_forward_kernel[launch.grid(tiles.exact.queries)](
            **given,
            **done.saved("out", "den", "row_max"),
            flag_ptr=done.flags,
            **launch.switches(tiles.exact),
            BF=tiles.forward.queries,
            SAVE=save,
        )
    return done


def backward(grad: Tensor, inputs: Inputs, done: Forward) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Run the backward kernels; returns the gradients of q, k, v, s."""
    from . import backward, exact, prepare

    launch = _launch(inputs, done.bounds)
    grad = rows(grad)
    dq, dk, dv, ds = (empty_heads(t) for t in (inputs.q, inputs.k, inputs.v, inputs.s))
    half = inputs.q.dtype == torch.bfloat16
    dnum = torch.empty_like(done.den, dtype=torch.bfloat16 if half else torch.float32)
    dden = torch.empty_like(dnum)
    tiles = inputs.tiles
    queries = tiles.forward.queries  # of the tiles that flags and shifts belong to
    given = launch.pointers | launch.strides | launch.sizes | launch.dropout
    given |= {"gain": launch.gain}
    ratio = {"dnum_ptr": dnum, "dden_ptr": dden, **done.saved("row_max", "shift")}
    fast = {**launch.precision, "BF": queries}
    grad_strides = _strides("g", grad)
    saved = {"grad_ptr": grad, "flag_ptr": done.flags, **done.saved("out", "den", "row_max")}
    with torch.cuda.device_of(inputs.q):
        prepare.ratio_kernel[launch.grid(configs.PREPARE_ROWS)](
            **saved,
            dnum_ptr=dnum,
            dden_ptr=dden,
            **grad_strides,
            heads=launch.heads,
            length=launch.length,
            DV=launch.widths["DV"],
            SV=launch.widths["SV"],
            BM=queries,
            ROWS=configs.PREPARE_ROWS,
        )
        backward.query_kernel[launch.grid(tiles.query.queries)](
            **given, **ratio, dq_ptr=dq, **launch.switches(tiles.query), **fast
        )
        backward.key_kernel[launch.grid(tiles.key.keys)](
            **given,
            **ratio,
            dk_ptr=dk,
            **launch.switches(tiles.key),
            **fast,
            SC=min(tiles.key.features, launch.widths["SV"]),
        )
        backward.value_kernel[launch.grid(tiles.value.keys)](
            **given, **ratio, dv_ptr=dv, ds_ptr=ds, **launch.switches(tiles.value), **fast
        )
        flagged = {**saved, **grad_strides, **launch.switches(tiles.exact), "BF": queries}
        exact.exact_query_kernel[launch.grid(tiles.exact.queries)](**given, **flagged, dq_ptr=dq)
        exact.exact_key_kernel[launch.grid(tiles.exact.keys)](
            **given, **flagged, dk_ptr=dk, dv_ptr=dv, ds_ptr=ds
        )
    return dq, dk, dv, ds


@dataclass(frozen=True)
class _Launch:
    """The arguments that all kernels of a call share, by the names that the kernels give them."""

    batch: int
    heads: int
    length: int
    gain: float  # of eq. 8, 1 / sqrt(D_i)
    pointers: dict[str, Tensor]
    strides: dict[str, int]
    sizes: dict[str, float]  # heads, length, and the gain in units of log 2
    dropout: dict[str, float]
    widths: dict[str, int]  # of heads, and the same rounded up
    precision: dict[str, Any]
    padded: bool
    options: Options

    def grid(self, size: int) -> tuple[int]:
        """One program for each tile of that many rows."""
        return (self.batch * self.heads * -(-self.length // size),)

    def switches(self, tile: configs.Tile) -> dict[str, Any]:
        """Compile-time arguments."""
        return {
            **self.widths,
            "BM": tile.queries,
            "BN": tile.keys,
            "HAS_PADDING": self.padded,
            "LOGSIGMOID": self.options.logsigmoid,
            "DROPOUT": self.options.dropout_p > 0,
            "num_warps": tile.warps,
            "num_stages": tile.stages,
            "enable_fp_fusion": True,
        }


def _launch(inputs: Inputs, bounds: Tensor) -> _Launch:
    """The arguments of a call; q stands for what is not there."""
    q, k, v, s = (rows(t) for t in (inputs.q, inputs.k, inputs.v, inputs.s))
    padding, seed, options = inputs.padding, inputs.seed, inputs.options
    batch, heads, length, width = v.shape
    if seed is not None:
        v = dropped_values(v, seed, options.dropout_p)
    left, right = _offsets(options.left, options.right, q.device)
    key_width = q.shape[-1]
    scores, products = configs.precision(q.dtype)
    return _Launch(
        batch=batch,
        heads=heads,
        length=length,
        gain=key_width**-0.5,
        pointers={
            "q_ptr": q,
            "k_ptr": k,
            "v_ptr": v,
            "s_ptr": s,
            "padding_ptr": q if padding is None else padding.contiguous().view(torch.uint8),
            "bounds_ptr": bounds,
            "left_ptr": left,
            "right_ptr": right,
            "seed_ptr": q if seed is None else seed,
        },
        strides=_strides("q", q) | _strides("k", k) | _strides("v", v) | _strides("s", s),
        sizes={"heads": heads, "length": length, "scale": key_width**-0.5 * LOG2E},
        # The scale of both factors: v is only set to 0 where it is dropped.
        dropout={
            "threshold": common.threshold(options.dropout_p),
            "pair_scale": 1.0 / (1.0 - options.dropout_p),
        },
        widths={
            "DK": key_width,
            "DV": width,
            "SK": configs.padded(key_width),
            "SV": configs.padded(width),
        },
        precision={"HALF": products == "half", "SCORES": scores, "PRODUCTS": products},
        padded=padding is not None,
        options=options,
    )


def _strides(name: str, t: Tensor) -> dict[str, int]:
    """Strides of ``(B, H, T, .)`` under the names that kernels give them."""
    return {f"{name}_{axis}": stride for axis, stride in zip("bht", t.stride()[:3], strict=True)}


@functools.lru_cache(maxsize=256)
def _offsets(
    left: tuple[int, ...], right: tuple[int, ...], device: torch.device
) -> tuple[Tensor, Tensor]:
    """Offsets on the device; kept, since a copy to it would break the capture of a CUDA graph."""
    first = torch.tensor(left, dtype=torch.int32, device=device)
    return first, torch.tensor(right, dtype=torch.int32, device=device)


def dropped_values(v: Tensor, seed: Tensor, dropout_p: float) -> Tensor:
    """v ``(B, H, T, D)`` with 0 where its factor is 0, not scaled: so it stays exact."""
    from .prepare import drop_kernel

    batch, heads, length, width = v.shape
    size = configs.PREPARE_ROWS
    out = empty_heads(v)
    with torch.cuda.device_of(v):
        drop_kernel[(batch * heads * -(-length // size),)](
            v_ptr=v,
            out_ptr=out,
            seed_ptr=seed,
            **_strides("v", v),
            heads=heads,
            length=length,
            threshold=common.threshold(dropout_p),
            DV=width,
            SV=configs.padded(width),
            ROWS=size,
        )
    return out


def empty_heads(like: Tensor) -> Tensor:
    """Empty ``(B, H, T, D)`` whose heads lie side by side in memory, as ``join_heads`` wants."""
    batch, heads, length, width = like.shape
    shape = (batch, length, heads, width)
    return torch.empty(shape, dtype=like.dtype, device=like.device).transpose(1, 2)
