"""From tensors to kernels: memory, grids, and arguments by name."""

import functools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...common import fused as common
from ...common import operators
from ...common.autograd import Outputs
from ...common.tiling import LOG2E, rows
from ..equation import MTSACall
from . import configs


class Forward(NamedTuple):
    """What forward hands to backward; the last six are empty where nothing is saved.

    ``den`` holds denominators relative to the two maxima, and in flagged tiles the logarithm of the
    whole normaliser relative to the row maximum.
    """

    out: Tensor  # (B, H, T, D), in memory (B, T, H, D)
    flags: Tensor  # int32 (B * H, tiles of FLAG_ROWS queries)
    bounds: Tensor  # int32 (B, 3): span of the real keys
    den: Tensor  # float32 (B * H, T, D)
    row_max: Tensor  # float32 (B * H, T), in units of log 2
    shift: Tensor  # float32 (B * H, D): maxima of the features
    e: Tensor  # (B * H, T, D): exp(s - shift), bfloat16 or float32
    u: Tensor  # (B * H, T, D): the same times v


@dataclass(frozen=True)
class Triton(MTSACall):
    """The kernels in Triton; they have no bias by distance."""

    save: bool
    folds = False
    declared = f"{MTSACall.declared}, bool save"

    def room(self, inputs: Sequence[Any]) -> Forward:
        v, padding = inputs[2], inputs[5]
        batch, heads, length, width = v.shape
        lanes = batch * heads
        tiles = -(-length // configs.FLAG_ROWS)
        kept = lanes if self.save else 0

        def new(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.empty(shape, dtype=dtype, device=v.device)

        return Forward(
            out=empty_heads(v),
            flags=new(lanes, tiles, dtype=torch.int32),
            bounds=new(0 if padding is None else batch, 3, dtype=torch.int32),
            den=new(kept, length, width),
            row_max=new(kept, length),
            **_weights(v, kept),
        )

    def gradients(self, inputs: Sequence[Any]) -> Outputs:
        return tuple(empty_heads(t) for t in inputs[:4])

    def forward(self, inputs: Sequence[Any]) -> Forward:
        from ...common import triton_tools
        from . import exact, forward, prepare

        done = self.room(inputs)
        # Where nothing is saved, the weights of keys live as long as this call.
        weights = {} if self.save else _weights(inputs[2], inputs[2].shape[:2].numel())
        call = self._arguments(inputs, done._replace(**weights))
        tiles = self._tiles(inputs)
        with torch.cuda.device_of(inputs[0]):
            if inputs[5] is not None:
                call.launch(triton_tools.bounds_kernel, len(done.bounds))
            call.given["shift_ptr"].fill_(-1e30)  # less than any score
            done.flags.zero_()
            for kernel in (prepare.shift_kernel, prepare.weights_kernel):
                call.launch(kernel, call.programs(configs.PREPARE_ROWS))
            call.run(forward.forward_kernel, tiles.forward, tiles.forward.queries)
            call.run(exact.exact_forward_kernel, tiles.exact, configs.FLAG_ROWS)
        return done

    def backward(self, grad: Tensor, inputs: Sequence[Any], outputs: Sequence[Any]) -> Outputs:
        from . import backward, exact

        # Whoever kept out in between, such as vmap, may have brought it into another order.
        done = Forward(outputs[0].transpose(1, 2).contiguous(), *outputs[1:])
        grad = rows(grad)
        found = dq, dk, dv, ds = self.gradients(inputs)
        dnum = torch.empty_like(done.e)
        own = {"dq_ptr": dq, "dk_ptr": dk, "dv_ptr": dv, "ds_ptr": ds}
        own |= {"dnum_ptr": dnum, "dden_ptr": torch.empty_like(dnum), **_view("g", grad)}
        call = self._arguments(inputs, done, own)
        tiles = self._tiles(inputs)
        with torch.cuda.device_of(inputs[0]):
            call.run(backward.query_kernel, tiles.query, tiles.query.queries)
            call.run(backward.key_kernel, tiles.key, tiles.key.keys)
            call.run(exact.exact_query_kernel, tiles.exact, configs.FLAG_ROWS)
            call.run(exact.exact_key_kernel, tiles.exact, configs.FLAG_ROWS)
        return found

    def factors(self, inputs: Sequence[Any]) -> Outputs:
        return common.dropout_factors(inputs[-1], tuple(inputs[2].shape), self.dropout_p)

    def _tiles(self, inputs: Sequence[Any]) -> configs.Tiles:
        """The tiles of all kernels."""
        q, _, v = inputs[:3]
        switches = (self.sigma_t == "logsigmoid", self.dropout_p > 0)
        tiles = configs.choose(q.dtype, (q.shape[-1], v.shape[-1]), *switches)
        there = q.is_cuda and torch.cuda.is_available()  # not where shapes alone are computed
        small = there and torch.cuda.get_device_capability(q.device) in configs.SMALL
        return configs.small(tiles) if small else tiles

    def _arguments(
        self, inputs: Sequence[Any], done: Forward, own: dict[str, Any] | None = None
    ) -> "_Arguments":
        """The arguments of a call, and its ``own``; None is what is not there."""
        q, k, v, s = (rows(t) for t in inputs[:4])
        padding, seed = inputs[5:]
        heads, length, width = v.shape[1:]
        left, right = (_offsets(tuple(t), q.device) for t in operators.offsets(self.masks))
        key_width = q.shape[-1]
        scores, products = configs.precision(q.dtype)
        return _Arguments(
            **_view("q", q),
            **_view("k", k),
            **_view("v", v),
            **_view("s", s),
            padding_ptr=None if padding is None else padding.contiguous().view(torch.uint8),
            seed_ptr=seed,
            left_ptr=left,
            right_ptr=right,
            out_ptr=done.out,
            flag_ptr=done.flags,
            bounds_ptr=None if padding is None else done.bounds,
            den_ptr=done.den,
            row_max_ptr=done.row_max,
            shift_ptr=done.shift,
            e_ptr=done.e,
            u_ptr=done.u,
            heads=heads,
            length=length,
            scale=key_width**-0.5 * LOG2E,
            gain=key_width**-0.5,  # of eq. 8
            threshold=common.threshold(self.dropout_p),
            # The scale of both factors: v is only set to 0 where it is dropped.
            pair_scale=1.0 / (1.0 - self.dropout_p),
            DK=key_width,
            DV=width,
            SK=configs.padded(key_width),
            SV=configs.padded(width),
            HALF=products == "half",
            SCORES=scores,
            PRODUCTS=products,
            HAS_PADDING=padding is not None,
            LOGSIGMOID=self.sigma_t == "logsigmoid",
            DROPOUT=self.dropout_p > 0,
            SAVE=self.save,
            SIZE=common.KEYS_AT_A_TIME,
            ROWS=configs.PREPARE_ROWS,
            BF=configs.FLAG_ROWS,
            **(own or {}),
        )


class _Arguments(common.Arguments):
    """The same, for kernels with tiles."""

    def programs(self, size: int) -> int:
        """One for each ``size`` rows of each lane."""
        return len(self.given["shift_ptr"]) * -(-self.given["length"] // size)

    def run(self, kernel: Any, tile: configs.Tile, size: int) -> None:
        """Run a kernel with a program for each ``size`` queries or keys."""
        self.launch(
            kernel,
            self.programs(size),
            BM=tile.queries,
            BN=tile.keys,
            num_warps=tile.warps,
            num_stages=tile.stages,
        )


def _weights(v: Tensor, lanes: int) -> dict[str, Tensor]:
    """Room for what ``weights_kernel`` computes."""
    dtype = torch.bfloat16 if v.dtype == torch.bfloat16 else torch.float32
    shape = (lanes, *v.shape[2:])
    return {
        "shift": torch.empty(lanes, v.shape[3], dtype=torch.float32, device=v.device),
        "e": torch.empty(shape, dtype=dtype, device=v.device),
        "u": torch.empty(shape, dtype=dtype, device=v.device),
    }


def _view(name: str, t: Tensor) -> dict[str, Any]:
    """A tensor ``(B, H, T, .)`` and its strides, under the names that kernels give them."""
    t = t if t.stride(2) < 1 << 24 else t.contiguous()  # within a tile they count in 32 bits
    strides = zip("bht", t.stride()[:3], strict=True)
    return {f"{name}_ptr": t, **{f"{name}_{axis}": stride for axis, stride in strides}}


@functools.lru_cache(maxsize=256)
def _offsets(ends: tuple[int, ...], device: torch.device) -> Tensor:
    """Offsets on the device; kept, since a copy to it would break the capture of a CUDA graph."""
    # By another thread: what this one allocates may have to go with a graph of torch.compile.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(torch.tensor, ends, dtype=torch.int32, device=device).result()


def empty_heads(like: Tensor) -> Tensor:
    """Empty ``(B, H, T, D)`` whose heads lie side by side in memory, as ``join_heads`` wants."""
    _, heads, length, width = like.shape
    return like.new_empty_strided(like.shape, (length * heads * width, width, heads * width, 1))


run = operators.register("mtsa_fused", Triton, outputs=len(Forward._fields))
