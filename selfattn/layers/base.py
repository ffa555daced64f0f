"""The one contract of all attention layers."""

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UserError, check_choice, check_integer
from ..masks import check_padding_mask
from .inspection import Inspection


class SelfAttention(nn.Module, ABC):
    """A self-attention layer: tokens in, tokens out.

    Args:
        embed_dim: width C of the input in features.
        num_heads: number of heads H.

    Raises:
        UserError: if one of them is not an integer of at least 1.

    Attributes:
        embed_dim: width of the input.
        num_heads: number of heads.
        output_dim: width of the output, ``embed_dim`` unless a layer says otherwise.
    """

    def __init__(self, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.embed_dim = check_integer("embed_dim", embed_dim)
        self.num_heads = check_integer("num_heads", num_heads)
        self.output_dim = self.embed_dim

    @abstractmethod
    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Attend.

        Args:
            x: ``(B, T, C)``.
            padding_mask: bool ``(B, T)``, True = padding.

        Returns:
            ``(B, T, output_dim)``. A real token's output does not depend on padding.

        Raises:
            UserError: if x is not ``(B, T, C)`` or the mask not bool ``(B, T)``.
        """

    def inspect(self, x: Tensor, padding_mask: Tensor | None = None) -> Inspection:
        """What the layer does with x, for pictures; builds ``T x T`` tensors.

        Args:
            x: ``(B, T, C)``.
            padding_mask: bool ``(B, T)``, True = padding.

        Raises:
            UserError: if the mechanism has nothing to show.
        """
        raise UserError(
            f"{type(self).__name__} cannot be inspected; give the layer a method inspect()"
        )

    def policy_parameters(self) -> list[nn.Parameter]:
        """Parameters that only a policy gradient trains: the output's gradient there is 0."""
        return []

    def extra_repr(self) -> str:
        """Sizes and switches, for ``print(module)``."""
        sizes = f"embed_dim={self.embed_dim}, num_heads={self.num_heads}"
        return f"{sizes}, config={self.config}" if hasattr(self, "config") else sizes

    def head_width(self, width: int | None) -> int:
        """``width``, or ``embed_dim / num_heads`` where it is None.

        Raises:
            UserError: if the heads do not divide the width.
        """
        if width is not None:
            return width
        if self.embed_dim % self.num_heads:
            raise UserError(
                f"num_heads {self.num_heads} does not divide embed_dim {self.embed_dim}; choose a "
                f"divisor of it"
            )
        return self.embed_dim // self.num_heads

    def check_input(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        """x with 0 at padding, whatever was there: a NaN would reach gradients of weights.

        Inputs of another shape are refused, and masks that are not bool or not where x is.

        Raises:
            UserError: if x is not ``(B, T, C)`` or the mask not bool ``(B, T)`` on its device.
        """
        check_tokens(x, self.embed_dim)
        check_padding_mask(padding_mask, x.shape[:2])
        if padding_mask is not None and padding_mask.device != x.device:
            raise UserError(f"padding_mask is on {padding_mask.device}; it must be on {x.device}")
        return zero_padding(x, padding_mask)


def check_tokens(x: Tensor, width: int) -> None:
    """Refuse all but ``(B, T, width)``."""
    if not isinstance(x, Tensor):
        raise UserError(f"x is a {type(x).__name__}; it must be a tensor (B, T, {width})")
    if x.is_nested:
        raise UserError("x is a nested tensor; it must be a padded batch, with its padding_mask")
    if x.dim() != 3 or x.shape[-1] != width:
        raise UserError(f"x has shape {tuple(x.shape)}; it must be (B, T, {width})")


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """``(B, T, H * D)`` -> ``(B, H, T, D)``, a view."""
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """``(B, H, T, D)`` -> ``(B, T, H * D)``."""
    return x.transpose(1, 2).flatten(2)


def working(x: Tensor) -> Tensor:
    """Upcast half precision to float32: it cannot hold a sum of many numbers."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def scaled_products(q: Tensor, k: Tensor) -> Tensor:
    """``q_i k_j^T / sqrt(D)``, ``(B, H, T, T)``, in float32 also where autocast would round it."""
    with torch.autocast(q.device.type, enabled=False):
        return working(q) @ working(k).transpose(-1, -2) * q.shape[-1] ** -0.5


def zero_padding(x: Tensor, padding_mask: Tensor | None) -> Tensor:
    """``(B, T, C)`` with 0 at padded positions, by a padding mask ``(B, T)``."""
    check_padding_mask(padding_mask, x.shape[:2])
    return x if padding_mask is None else x.masked_fill(padding_mask[..., None], 0.0)


def activation(name: str) -> nn.Module:
    """A module from a name in ``selfattn.config.ACTIVATIONS``."""
    modules: dict[str, nn.Module] = {
        "none": nn.Identity(),
        "relu": nn.ReLU(),
        "elu": nn.ELU(),
        "gelu": nn.GELU(),
        "tanh": nn.Tanh(),
    }
    check_choice("activation", name, modules)
    return modules[name]


def output_map(config: Any, joined: int, embed_dim: int) -> nn.Module | None:
    """The linear map after the heads are joined to so many features, if a configuration has it."""
    if not config.output_projection:
        return None
    return xavier_linear(joined, embed_dim, config.output_bias)


def xavier_linear(
    inputs: int, outputs: int, bias: bool = True, gain: float = 1.0, heads: int = 1
) -> nn.Linear:
    """A linear map with Xavier (Glorot) uniform weights and a zero bias, as in the papers.

    ``heads`` > 1 draws the equal parts of the outputs as that many matrices of their own.
    """
    linear = nn.Linear(inputs, outputs, bias=bias)
    for part in linear.weight.data.chunk(heads):
        nn.init.xavier_uniform_(part, gain)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear
