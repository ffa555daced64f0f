"""torch's encoder with attentions of this project."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from torch import Tensor, nn

from ..config import AttentionConfig
from ..errors import UserError, check_integer
from ..layers.linear import has_hooks
from .encoder_layer import EncoderLayer
from .swapping import SwapReport, swap

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..config.switches import Switches


class Encoder(nn.TransformerEncoder):
    """``torch.nn.TransformerEncoder``, without nested tensors; masks stay bool between layers.

    As in torch, all layers start as copies of one.

    Args:
        encoder_layer: an ``EncoderLayer``, or one of torch.
        num_layers: how many copies of it.
        norm: after the last layer.
        enable_nested_tensor: without effect.
        mask_check: without effect.

    Raises:
        UserError: if the layer is no module or the number of layers no whole number.

    Attributes:
        swapped: after ``from_torch``, which weights were copied; else None.

    Example:
        >>> import torch
        >>> encoder = Encoder(EncoderLayer(64, 4, batch_first=True), num_layers=2)
        >>> padding = torch.tensor([[False] * 7, [False] * 5 + [True] * 2])
        >>> encoder(torch.randn(2, 7, 64), src_key_padding_mask=padding).shape
        torch.Size([2, 7, 64])
    """

    swapped: SwapReport | None = None

    def __init__(
        self,
        encoder_layer: nn.TransformerEncoderLayer,
        num_layers: int,
        norm: nn.Module | None = None,
        enable_nested_tensor: bool = False,
        mask_check: bool = True,
    ) -> None:
        if not isinstance(encoder_layer, nn.Module):
            raise UserError(f"encoder_layer is {encoder_layer!r}; it must be an EncoderLayer")
        check_integer("num_layers", num_layers, 0)
        super().__init__(encoder_layer, num_layers, norm, False, mask_check)

    @classmethod
    def from_torch(
        cls,
        encoder: nn.TransformerEncoder,
        attention: str | AttentionConfig = "mtsa",
        *,
        preset: str | None = None,
        **switches: Unpack[Switches],
    ) -> Encoder:
        """A copy of an encoder of torch with another attention; see ``selfattn.swap``.

        Args:
            encoder: what to copy; it stays as it is.
            attention: see ``EncoderLayer``.
            preset: see ``EncoderLayer``.
            **switches: of the attention.

        Returns:
            An encoder with all weights that fit; ``swapped`` says which did not.

        Raises:
            UserError: if it is no ``nn.TransformerEncoder``, or nothing can be replaced.
        """
        if not isinstance(encoder, nn.TransformerEncoder):
            raise UserError(
                f"encoder is a {type(encoder).__name__}; it must be an nn.TransformerEncoder: "
                "selfattn.swap takes any module"
            )
        known = type(encoder).forward in (nn.TransformerEncoder.forward, cls.forward)
        if not known or "forward" in vars(encoder) or has_hooks(encoder):
            raise UserError(
                f"{type(encoder).__name__} computes in a way of its own, or has hooks; "
                "selfattn.swap replaces its attentions in place"
            )
        if not encoder.layers:
            raise UserError("encoder has no layers; it must have at least 1")
        own = cls(encoder.layers[0], 0, copy.deepcopy(encoder.norm))
        own.layers, own.num_layers = copy.deepcopy(encoder.layers), encoder.num_layers
        for layer in own.layers:
            if type(layer) is nn.TransformerEncoderLayer:  # has all that an EncoderLayer has
                layer.__class__ = EncoderLayer
        if attention != "multihead" or preset is not None or switches:
            own.swapped = swap(own, attention, preset=preset, **switches)
        return own.train(encoder.training)

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """See ``EncoderLayer.forward``."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, bool(is_causal))
        return src if self.norm is None else self.norm(src)
