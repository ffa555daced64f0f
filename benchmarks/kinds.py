"""The kinds of methods: layers, operators without weights, and stacks of encoder layers."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.layers.base import split_heads
from selfattn.masks import head_masks

from .method import Method, Setup

Build = Callable[[Setup], nn.Module]
Reference = Callable[[nn.Module, Setup], nn.Module]


class LayerMethod(Method):
    """A layer ``(B, T, C)`` -> ``(B, T, C')`` from two functions."""

    def __init__(
        self,
        name: str,
        label: str,
        build: Build,
        reference: Reference | None = None,
        *,
        gpu_only: bool = False,
        garbage: float = 100.0,
    ) -> None:
        super().__init__(name, label)
        self._build = build
        self._reference = reference
        self.gpu_only, self.garbage = gpu_only, garbage

    def build(self, setup: Setup) -> nn.Module:
        return self._build(setup)

    def reference(self, module: nn.Module, setup: Setup) -> nn.Module | None:
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
        self, name: str, label: str, build: Build, reference: Reference, count: int = 3, **how: Any
    ) -> None:
        super().__init__(name, label, build, reference, **how)
        self.count = count

    def inputs(self, setup: Setup, batch: int, length: int) -> list[Tensor]:
        return [
            split_heads(torch.randn(batch, length, setup.embed_dim), setup.heads)
            for _ in range(self.count)
        ]


class DiSAOperatorMethod(OperatorMethod):
    """The DiSA operator on ``(B, T, 2 C)``: both directions, no heads."""

    def inputs(self, setup: Setup, batch: int, length: int) -> list[Tensor]:
        return [torch.randn(batch, length, 2 * setup.embed_dim) for _ in range(self.count)]


class MaskedOperator(nn.Module):
    """An operator of ``selfattn.ops``, or a rival with its arguments, under masks.

    Args:
        operator: takes the tensors, ``masks`` and ``padding_mask``.
        layout: a name from ``selfattn.masks.MASK_LAYOUTS``.
        count: of masks.
    """

    def __init__(self, operator: Callable[..., Tensor], layout: str, count: int) -> None:
        super().__init__()
        self.operator = operator
        self.masks = head_masks(layout, count)

    def forward(self, *inputs: Any) -> Tensor:
        """Attend; the inputs are the operator's tensors and a padding mask or None."""
        return self.operator(*inputs[:-1], masks=self.masks, padding_mask=inputs[-1])


class PreNormLayer(nn.Module):
    """A Transformer encoder layer, layer norm first, without dropout."""

    def __init__(self, attention: nn.Module, embed_dim: int, ffn_dim: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(embed_dim)
        self.attention = attention
        self.ffn_norm = nn.LayerNorm(embed_dim)
        self.ffn = nn.Sequential(
            nn.Linear(embed_dim, ffn_dim), nn.ReLU(), nn.Linear(ffn_dim, embed_dim)
        )

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, C)``."""
        x = x + self.attention(self.attention_norm(x), padding_mask)
        y: Tensor = x + self.ffn(self.ffn_norm(x))
        return y


class Encoder(nn.Module):
    """A stack of encoder layers."""

    def __init__(self, layers: list[PreNormLayer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, C)``."""
        for layer in self.layers:
            x = layer(x, padding_mask)
        return x


class EncoderMethod(Method):
    """Encoder layers with the attention of another method; a step is a whole update with Adam."""

    level = "encoder"
    updates = True

    def __init__(self, attention: Method) -> None:
        super().__init__(attention.name, attention.label)
        self.attention = attention
        self.gpu_only = attention.gpu_only

    def build(self, setup: Setup) -> nn.Module:
        return Encoder(
            [
                PreNormLayer(self.attention.build(setup), setup.embed_dim, setup.ffn_dim)
                for _ in range(setup.layers)
            ]
        )

    def reference(self, module: nn.Module, setup: Setup) -> nn.Module | None:
        """See ``Method.reference``; both are smooth from here on.

        At the kink of ReLU, one rounding of any attention is another gradient.
        """
        for layer in module.layers:  # type: ignore[union-attr]
            layer.ffn[1] = nn.GELU()
        slow = copy.deepcopy(module)
        for layer in slow.layers:  # type: ignore[union-attr]
            layer.attention = self.attention.reference(layer.attention, setup)
        return slow
