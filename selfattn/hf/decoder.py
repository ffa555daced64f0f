"""The decoder: causal self-attention, attention on the source, and a cache of both."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.cache_utils import EncoderDecoderCache
from transformers.modeling_layers import GradientCheckpointingLayer

from ..errors import UserError, check_integer
from ..layers.base import join_heads, split_heads, xavier_linear
from ..layers.dropout import Dropout
from .cache import CACHE
from .config import SelfattnConfig
from .encoder import Embeddings, FeedForward


class DecoderAttention(nn.Module):
    """Multi-head attention of a decoder layer (Vaswani et al. 2017, section 3.2).

    Args:
        config: sizes and dropout.
        index: number of the layer, for the cache.
        crossed: attend to the source instead of to the target.

    Raises:
        UserError: if the heads do not divide the width.
    """

    def __init__(self, config: SelfattnConfig, index: int, crossed: bool) -> None:
        super().__init__()
        width, gain = config.hidden_size, 1 / math.sqrt(2)  # fairseq's initialisation
        self.heads, self.index, self.crossed = config.decoder_attention_heads, index, crossed
        if width % check_integer("decoder_attention_heads", self.heads):
            raise UserError(
                f"decoder_attention_heads {self.heads} does not divide hidden_size {width}; choose "
                f"a divisor of it"
            )
        self.dropout = config.attention_dropout
        self.q_proj, self.k_proj, self.v_proj = (
            xavier_linear(width, width, gain=gain) for _ in range(3)
        )
        self.out_proj = xavier_linear(width, width)

    def forward(
        self,
        x: Tensor,
        source: Tensor,
        visible: Tensor | None = None,
        cache: EncoderDecoderCache | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Attend.

        Args:
            x: queries ``(B, T, C)``.
            source: what keys and values are made of, ``(B, S, C)``; x in self-attention.
            visible: bool, broadcast to ``(B, H, T, S)``, True = attend.
            cache: keys and values of earlier tokens, which those of x are added to; of the source
                they are made once. With a ``BeamCache``, source and ``visible`` of the
                attention to it have a row for each source, x one for each beam.
            is_causal: without ``visible``, attend to no later token.
        """
        q = split_heads(self.q_proj(x), self.heads)
        beams = getattr(cache, "beams", 1) if self.crossed else 1
        if beams > 1:
            # (B / beams, H, beams T, D)
            q = q.unflatten(0, (-1, beams)).transpose(1, 2).flatten(2, 3)
        if self.crossed and cache is not None and cache.is_updated.get(self.index):
            made = cache.cross_attention_cache.layers[self.index]
            k, v = made.keys, made.values
        else:
            k, v = (split_heads(f(source), self.heads) for f in (self.k_proj, self.v_proj))
            if cache is not None:
                kept = cache.cross_attention_cache if self.crossed else cache.self_attention_cache
                k, v = kept.update(k, v, self.index)
                if self.crossed:
                    cache.is_updated[self.index] = True
        if cache is not None:  # a static one may have more room, which is not to be attended to
            length = None if visible is None else visible.shape[-1]
            k, v = (t[:, :, : source.shape[1] if self.crossed else length] for t in (k, v))
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=visible, dropout_p=dropout, is_causal=is_causal
        )
        if beams > 1:
            y = y.unflatten(2, (beams, -1)).transpose(1, 2).flatten(0, 1)
        z: Tensor = self.out_proj(join_heads(y))
        return z


class DecoderLayer(GradientCheckpointingLayer):  # type: ignore[misc]
    """A Transformer decoder layer as fairseq computes it.

    Args:
        config: sizes and switches.
        index: number of the layer, for the cache.
    """

    def __init__(self, config: SelfattnConfig, index: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.self_attn = DecoderAttention(config, index, crossed=False)
        self.encoder_attn = DecoderAttention(config, index, crossed=True)
        self.feed_forward = FeedForward(config, config.decoder_ffn_dim)
        self.self_attn_norm, self.encoder_attn_norm, self.final_norm = (
            nn.LayerNorm(width) for _ in range(3)
        )
        self.dropout = Dropout(config.dropout)
        self.norm_first = config.decoder_norm_first

    def forward(
        self,
        x: Tensor,
        source: Tensor,
        visible: Tensor | None,
        source_visible: Tensor | None,
        is_causal: bool,
        **kept: EncoderDecoderCache | None,
    ) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, C)``; see ``DecoderAttention.forward``."""
        # Under transformers' own name, by which gradient checkpointing finds and drops it.
        cache = kept.get(CACHE)
        for norm, sublayer in (
            (self.self_attn_norm, lambda y: self.self_attn(y, y, visible, cache, is_causal)),
            (self.encoder_attn_norm, lambda y: self.encoder_attn(y, source, source_visible, cache)),
            (self.final_norm, self.feed_forward),
        ):
            y = self.dropout(sublayer(norm(x) if self.norm_first else x))
            x = x + y if self.norm_first else norm(x + y)
        return x


class Decoder(nn.Module):
    """The stack of decoder layers.

    Args:
        config: sizes and switches.
    """

    def __init__(self, config: SelfattnConfig) -> None:
        super().__init__()
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(DecoderLayer(config, i) for i in range(config.decoder_layers))
        self.norm = nn.LayerNorm(config.hidden_size) if config.decoder_norm_first else nn.Identity()

    def forward(
        self,
        input_ids: Tensor,
        source: Tensor,
        source_padding: Tensor | None,
        cache: EncoderDecoderCache | None = None,
        states: list[Tensor] | None = None,
    ) -> Tensor:
        """Decode.

        Args:
            input_ids: tokens ``(B, T)`` after those in the cache; padding, if any, on the right.
            source: the encoder's output ``(B, S, C)``.
            source_padding: bool ``(B, S)``, True = padding.
            cache: of earlier calls; filled here.
            states: filled with the input of each layer and the result, ``(B, T, C)``.

        Returns:
            ``(B, T, C)``.
        """
        past = 0 if cache is None else cache.self_attention_cache.get_seq_length()
        if isinstance(past, Tensor):  # of a static cache, in older versions of transformers
            past = int(past)
        length, device = input_ids.shape[1], input_ids.device
        place = torch.arange(past, past + length, device=device)
        tokens = self.embeddings.tokens(input_ids)
        x = self.embeddings(tokens, place[None], past + length - 1)
        visible: Any = None
        # A static cache has room for tokens to come.
        has_room = cache is not None and cache.is_compileable
        is_causal = length > 1 and not past and not has_room  # without a matrix
        if has_room or (length > 1 and past):
            visible = place[:, None] >= torch.arange(past + length, device=device)  # (T, past + T)
        source_visible = None if source_padding is None else ~source_padding[:, None, None]
        for layer in self.layers:
            if states is not None:
                states.append(x)
            x = layer(x, source, visible, source_visible, is_causal, **{CACHE: cache})
        y: Tensor = self.norm(x)
        if states is not None:
            states.append(y)
        return y
