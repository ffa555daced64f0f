"""The kinds of methods: layers, and operators without weights."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.method import Method, Setup
from selfattn.layers.base import split_heads
from selfattn.masks import head_masks
from selfattn.ops import disa

Build = Callable[[Setup], nn.Module]
Reference = Callable[[nn.Module, Setup], nn.Module]


class LayerMethod(Method):
    """A layer ``(B, T, C)`` -> ``(B, T, C')`` from two functions."""

    def __init__(
        self, name: str, label: str, build: Build, reference: Reference | None = None
    ) -> None:
        super().__init__(name, label)
        self._build = build
        self._reference = reference

    def build(self, setup: Setup) -> nn.Module:
        """See ``Method.build``."""
        return self._build(setup)

    def reference(self, module: nn.Module, setup: Setup) -> nn.Module | None:
        """See ``Method.reference``."""
        return None if self._reference is None else self._reference(module, setup)


class ContextMethod(LayerMethod):
    """A context of sentence encoders, with the published ratios of widths."""

    level = "context"


class OperatorMethod(LayerMethod):
    """An operator without weights on ``count`` tensors, by default ``(B, H, T, C / H)``.

    The tensors are views of ``(B, T, C)`` memory, as a layer's linear maps give them.
    """

    level = "operator"

    def __init__(
        self, name: str, label: str, build: Build, reference: Reference, count: int = 3
    ) -> None:
        super().__init__(name, label, build, reference)
        self.count = count

    def inputs(self, setup: Setup, batch: int, length: int) -> list[Tensor]:
        """See ``Method.inputs``."""
        return [
            split_heads(torch.randn(batch, length, setup.embed_dim), setup.heads)
            for _ in range(self.count)
        ]


class DiSAOperatorMethod(OperatorMethod):
    """The DiSA operator on ``(B, T, 2 C)``: both directions, no heads."""

    def inputs(self, setup: Setup, batch: int, length: int) -> list[Tensor]:
        """See ``Method.inputs``."""
        return [torch.randn(batch, length, 2 * setup.embed_dim) for _ in range(self.count)]


class DiSAOperator(nn.Module):
    """``selfattn.ops.disa`` in two directions, on ``(B, T, 2 C)`` three times."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.backend = backend
        self.masks = head_masks("forward_backward", 2)

    def forward(
        self, x: Tensor, a: Tensor, b: Tensor, padding_mask: Tensor | None = None
    ) -> Tensor:
        """Attend."""
        return disa(x, a, b, masks=self.masks, padding_mask=padding_mask, backend=self.backend)


class MTSAOperator(nn.Module):
    """``selfattn.ops.mtsa`` or a rival with its arguments, on ``(B, H, T, D)`` four times."""

    def __init__(self, operator: Callable[..., Tensor], layout: str, heads: int) -> None:
        super().__init__()
        self.operator = operator
        self.masks = head_masks(layout, heads)

    def forward(
        self, q: Tensor, k: Tensor, v: Tensor, s: Tensor, padding_mask: Tensor | None = None
    ) -> Tensor:
        """Attend."""
        return self.operator(q, k, v, s, masks=self.masks, padding_mask=padding_mask)
