"""From tensors to kernels: memory, grids, and arguments by name."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ....masks import PositionalMask
from ...common import fused as common
from ...common import operators
from ...common.autograd import Outputs
from ...common.dropout import keep_probability
from ...common.tiling import LOG2E, rows
from ..equation import DiSACall
from ..tiling import groups


class Tile(NamedTuple):
    """How a kernel cuts its work."""

    tokens: int
    features: int
    warps: int


# Of both kernels, without dropout and with it, which needs registers for itself; no time was
# measured: ``benchmarks/gpu.sh tiles`` does, and writes the fastest here.
TILES = {False: Tile(32, 64, 4), True: Tile(16, 64, 4)}


class Forward(NamedTuple):
    """What forward hands to backward; what is not saved has no elements."""

    out: Tensor  # (B, T, C)
    mean: Tensor  # the same in float32, only if out is rounded
    den: Tensor  # float32 (B, T, C), relative to exp(c)
    change: Tensor  # float32 (B, T, C), den times d out / d b
    bounds: Tensor  # int32 (1 or 2, B, 3): span of the keys, and of the queries where it differs


@dataclass(frozen=True)
class Triton(DiSACall):
    """The kernels in Triton; they have no bias by distance."""

    save: bool
    folds = False
    declared = f"{DiSACall.declared}, bool save"

    def room(self, inputs: Sequence[Any]) -> Forward:
        x, padding, unseen = inputs[0], inputs[4], inputs[5]
        batch, length, features = x.shape

        def new(count: int) -> Tensor:
            return torch.empty(count, length, features, dtype=torch.float32, device=x.device)

        kept = batch if self.save else 0
        bounds = (0 if padding is None else 1 if unseen is None else 2, batch, 3)
        return Forward(
            x.new_empty(batch, length, features),
            new(0 if x.dtype == torch.float32 else kept),
            new(kept),
            new(kept),
            torch.empty(bounds, dtype=torch.int32, device=x.device),
        )

    def gradients(self, inputs: Sequence[Any]) -> Outputs:
        x = inputs[0]
        return x.new_empty(x.shape), x.new_empty(x.shape), x.new_empty(x.shape)

    def forward(self, inputs: Sequence[Any]) -> Forward:
        from ...common.triton_tools import bounds_kernel
        from .kernels import forward_kernel

        x, _, _, _, padding, unseen, _ = inputs
        done = self.room(inputs)
        arguments = self._arguments(inputs) | {"SIZE": common.KEYS_AT_A_TIME}
        # Keys first: queries have bounds of their own only where other tokens are hidden.
        hidden = (padding if unseen is None else unseen, padding)
        with torch.cuda.device_of(x):
            for mask, bounds in zip(hidden, done.bounds, strict=False):
                spans = {**arguments, "padding_ptr": _bytes(mask), "bounds_ptr": bounds}
                common.Arguments(**spans).launch(bounds_kernel, len(x))
            tensors = {"out": done.out, "mean": done.mean, "den": done.den, "change": done.change}
            arguments |= {"bounds_ptr": done.bounds[:1], "HALF": x.dtype != torch.float32}
            self._launch(forward_kernel, inputs, tensors, arguments)
        return done

    def backward(self, grad: Tensor, inputs: Sequence[Any], outputs: Sequence[Any]) -> Outputs:
        from .kernels import key_kernel

        x, padding = inputs[0], inputs[4]
        done = Forward(*outputs)
        scaled = (grad.float() / done.den).contiguous()  # the kernel reads it by out's strides
        gx, ga, gb = found = self.gradients(inputs)
        out = done.out if x.dtype == torch.float32 else done.mean
        tensors = {"out": out, "grad": scaled, "gx": gx, "ga": ga}
        arguments = self._arguments(inputs) | {"bounds_ptr": done.bounds[-1:]}
        with torch.cuda.device_of(x):
            self._launch(key_kernel, inputs, tensors, arguments)
        torch.mul(scaled, done.change, out=scaled)
        gb.copy_(scaled)
        if padding is not None:
            gb.masked_fill_(padding[..., None], 0.0)
        return found

    def factors(self, inputs: Sequence[Any]) -> Outputs:
        return dropout_factors(inputs[0], self.masks, self.dropout_p, inputs[-1])

    def _arguments(self, inputs: Sequence[Any]) -> dict[str, Any]:
        """What all groups of features share, by the names of the kernels; x where nothing is."""
        x, _, _, _, padding, unseen, seed = inputs
        tile = TILES[self.dropout_p > 0]
        return {
            "padding_ptr": x if padding is None else _bytes(padding),
            "unseen_ptr": x if padding is None else _bytes(padding if unseen is None else unseen),
            "seed_ptr": x if seed is None else seed,
            "length": x.shape[1],
            "groups": len(self.masks),
            "gain": 2.0 / self.c * LOG2E,
            "low": -2.0 * self.c * LOG2E,
            "threshold": common.threshold(self.dropout_p),
            "inverse_keep": 1.0 / keep_probability(self.dropout_p),
            "BT": tile.tokens,
            "BF": tile.features,
            "HAS_PADDING": padding is not None,
            "DROPOUT": self.dropout_p > 0,
            "SAVE": self.save,
        }

    def _launch(
        self,
        kernel: Any,
        inputs: Sequence[Any],
        tensors: dict[str, Tensor],
        arguments: dict[str, Any],
    ) -> None:
        """Run a kernel for each group of features; ``tensors`` are those beside x, a, b."""
        x, a, b = (rows(t) for t in inputs[:3])
        tensors = {"x": x, "a": a, "b": b, **tensors}
        tile = TILES[self.dropout_p > 0]
        batch, length, _ = x.shape
        for mask, parts, features in groups(self.masks, x.shape[2], apart=self.dropout_p > 0):
            width = features.stop - features.start
            (left,), (right,) = operators.offsets([mask])
            own = {"width": width, "group": parts.start, "column": features.start}
            own |= {"left": left, "right": right}
            for name, t in tensors.items():
                own[f"{name}_ptr"] = t[..., features]
                own[f"{name}_b"], own[f"{name}_t"] = t.stride()[:2]
            programs = batch * -(-length // tile.tokens) * -(-width // tile.features)
            common.Arguments(**arguments, **own).launch(kernel, programs, num_warps=tile.warps)


def dropout_factors(
    x: Tensor, masks: Sequence[PositionalMask], dropout_p: float, seed: Tensor
) -> tuple[Tensor, Tensor]:
    """What ``tiling.dropout_factors`` gives, of the kernels with a seed ``(1,)``; float32."""
    batch, length, features = x.shape
    pairs, _ = common.dropout_factors(seed, (batch, len(masks), length, 1), dropout_p)
    _, scales = common.dropout_factors(seed, (batch, 1, length, features), dropout_p)
    return pairs, scales[:, 0]


def _bytes(mask: Tensor) -> Tensor:
    """A bool tensor as kernels read it."""
    return mask.contiguous().view(torch.uint8)


run = operators.register("disa_fused", Triton, outputs=len(Forward._fields))
