"""A mechanism with a kernel of its own, as small as the list in CONTRIBUTING allows."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selfattn.config.base import AttentionConfig, switch
from selfattn.layers.base import SelfAttention, xavier_linear
from selfattn.layers.inspection import Inspection, mask_names, visible_softmax
from selfattn.masks import PositionalMask
from selfattn.ops.common import autograd, dispatch, native

from .reference import decay_reference

HERE = Path(__file__).parent


@dataclass(frozen=True)
class DecayCall(autograd.Call):
    """The kernel in C; inputs are the values, no bias, hidden positions and no seed."""

    rate: float
    projections = 1

    def forward(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        return (self._run(inputs[0], inputs[2], backward=False),)

    def backward(
        self, grad: Tensor, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> tuple[Tensor, ...]:
        return (self._run(grad, inputs[2], backward=True),)

    def factors(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        raise NotImplementedError  # only asked where there is a seed

    def equation(self, inputs: Sequence[Any], factors: Any, queries: slice) -> Tensor:
        return decay_reference(inputs[0], inputs[2], self.rate, queries)

    def _run(self, t: Tensor, hidden: Tensor | None, *, backward: bool) -> Tensor:
        t = t.contiguous()
        out = torch.zeros_like(t)
        hidden = None if hidden is None else hidden.contiguous()
        run = native.library(HERE).decay_run
        pointers = (0 if x is None else x.data_ptr() for x in (t, out, hidden))
        sizes = map(ctypes.c_int64, t.shape)
        run(*map(ctypes.c_void_p, pointers), *sizes, ctypes.c_float(self.rate), int(backward))
        return out


def decay(v: Tensor, padding_mask: Tensor | None, rate: float, backend: str = "auto") -> Tensor:
    """Decay attention: the kernel on a CPU, or the reference."""
    refused = dispatch.unfit(v) | {"eager": "decay has no such form"}
    device = None if v.device.type == "cpu" else "the kernel runs on a CPU"
    reason = device or native.refusal(HERE, v.dtype)
    refused |= {} if reason is None else {"fused": reason}
    if dispatch.choose(backend, refused) == "reference":
        return decay_reference(v, padding_mask, rate)
    return autograd.run(DecayCall(rate), v.float(), None, padding_mask, None).to(v.dtype)


@dataclass(frozen=True)
class DecayConfig(AttentionConfig):
    """The switches of decay attention."""

    name = "decay"
    presets = {"paper": {}, "slow": {"rate": 0.1}}
    default_preset = "paper"

    rate: float = switch(1.0, "how fast a key fades, for each token")


class Decay(SelfAttention):
    """A map of the values, and decay attention over them."""

    def __init__(self, config: DecayConfig, embed_dim: int, num_heads: int) -> None:
        super().__init__(embed_dim, num_heads)
        self.config = config
        self.v_proj = xavier_linear(embed_dim, embed_dim)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        x = self.check_input(x, padding_mask)
        v = F.dropout(self.v_proj(x), self.config.attention_dropout, self.training)
        return decay(v, padding_mask, self.config.rate)

    def inspect(self, x: Tensor, padding_mask: Tensor | None = None) -> Inspection:
        x = self.check_input(x, padding_mask)
        batch, length, _ = x.shape
        place = torch.arange(length, device=x.device)
        score = -self.config.rate * (place[:, None] - place).abs().to(x.dtype)
        seen = torch.ones(batch, length, dtype=torch.bool, device=x.device)
        seen = (seen if padding_mask is None else ~padding_mask)[:, None, None]
        score = score.expand(batch, self.num_heads, length, length)
        masks = mask_names([PositionalMask()] * self.num_heads)
        return Inspection(masks, visible_softmax(score, seen))
