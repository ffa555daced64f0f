"""torch's encoder layer with an attention of this project."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import torch.nn.functional as F
from torch import Tensor, nn

from ..config import AttentionConfig, attention_config
from ..errors import UserError, check_integer, check_rate
from ..layers import build_attention
from ..masks import check_padding_mask, from_additive
from .as_multihead import AsMultihead

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..config.switches import LayerSwitches, Switches


class EncoderLayer(nn.TransformerEncoderLayer):
    """``torch.nn.TransformerEncoderLayer`` with another self-attention.

    Args:
        d_model: width C of the input in features.
        nhead: number of heads.
        dim_feedforward: width of the feed-forward network.
        dropout: probability of dropping a feature, and an attention weight unless a switch or a
            configuration says otherwise.
        activation: of the feed-forward network, ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: added to variances.
        batch_first: whether tensors are ``(B, T, C)`` instead of ``(T, B, C)``.
        norm_first: whether attention and network are preceded by their norms instead of followed.
        bias: biases of the network, of the norms and of multi-head attention; other attentions have
            switches for theirs.
        device: of the parameters.
        dtype: of the parameters.
        attention: a name in ``selfattn.layers.ATTENTIONS`` or a configuration. ``"multihead"``
            without switches is torch's own attention, with its names of weights.
        preset: a published form of the attention, see ``selfattn.config``.
        **switches: of the attention. Its own ``activation`` goes into a configuration.

    Raises:
        UserError: if a name, a switch or a value is unknown, or the sizes do not fit.

    Example:
        >>> import torch
        >>> layer = EncoderLayer(64, 4, batch_first=True, attention="mtsa", preset="nmt")
        >>> layer(torch.randn(2, 7, 64)).shape
        torch.Size([2, 7, 64])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        attention: str | AttentionConfig = "mtsa",
        preset: str | None = None,
        **switches: Unpack[LayerSwitches],
    ) -> None:
        check_integer("d_model", d_model)
        check_integer("dim_feedforward", dim_feedforward)
        check_rate("dropout", dropout)
        if isinstance(activation, str) and activation not in ("relu", "gelu"):
            raise UserError(
                f"activation {activation!r} is unknown; allowed are relu, gelu and a function"
            )
        plain = attention == "multihead" and preset is None and not switches
        if plain and d_model % check_integer("nhead", nhead):
            raise UserError(f"nhead {nhead} does not divide d_model {d_model}; choose a divisor")
        super().__init__(
            d_model, nhead if plain else 1, dim_feedforward, dropout, activation, layer_norm_eps,
            batch_first, norm_first, bias, device, dtype,
        )  # fmt: skip
        if plain:
            return
        own = cast("Switches", dict(switches))
        if isinstance(attention, str):
            own.setdefault("attention_dropout", dropout)
            if attention == "multihead":
                own.setdefault("bias", bias)
        config = attention_config(attention, preset, **own)
        layer = build_attention(config, d_model, nhead).to(device=device, dtype=dtype)
        self.self_attn = AsMultihead(layer, batch_first)  # type: ignore[assignment]

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Encode.

        Args:
            src: ``(B, T, C)``, or ``(T, B, C)`` without ``batch_first``, or ``(T, C)``.
            src_mask: ``(T, T)`` or ``(B * H, T, T)``, True or -inf = hidden; see ``AsMultihead``.
            src_key_padding_mask: ``(B, T)`` or ``(T,)``, bool with True = padding, or floating with
                -inf = padding and 0 elsewhere.
            is_causal: whether src_mask hides what comes after a token; without a src_mask, it
                stands for one that does, which torch's own attention refuses.

        Returns:
            A tensor of src's shape. A sentence of padding alone gives no NaN.

        Raises:
            UserError: if a mask is of another kind or shape, or hides what the attention sees.
        """
        if not isinstance(self.self_attn, AsMultihead):
            padding, hidden = src_key_padding_mask, from_additive(src_key_padding_mask)
            if padding is not None and hidden is not None:
                shape = src.shape[:-1] if self.self_attn.batch_first else src.shape[-2::-1]
                check_padding_mask(hidden, shape, "(B, T)" if src.dim() == 3 else "(T,)")
                # torch's kernels make NaN of a sentence of padding, and warn of mixed dtypes.
                padding = padding.masked_fill(hidden.all(-1, keepdim=True), 0)
            return super().forward(src, src_mask, padding, is_causal)
        masks = src_mask, src_key_padding_mask, is_causal
        if self.norm_first:
            x = src + self._sa_block(self.norm1(src), *masks)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(src + self._sa_block(src, *masks))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(
        self,
        x: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        """torch's hook. FSDP would cast a query, key and value each, which were no longer one."""
        if not isinstance(self.self_attn, AsMultihead):
            return super()._sa_block(x, attn_mask, key_padding_mask, is_causal)
        masks = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask}
        y: Tensor = self.self_attn(x, **masks, is_causal=is_causal, need_weights=False)[0]
        return self.dropout1(y)
