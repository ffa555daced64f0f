"""The encoder: embeddings with positions, and Transformer layers with the attention of choice."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import can_return_tuple

from ..errors import UserError
from ..layers import build_attention
from ..layers.dropout import Dropout
from ..models.timing import places, sines
from .base import SelfattnPreTrainedModel, padding_of, refuse_types
from .config import SelfattnConfig


class Embeddings(nn.Module):
    """Embeddings of tokens and positions, for encoder and decoder.

    Args:
        config: sizes and switches.
    """

    def __init__(self, config: SelfattnConfig) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.tokens = nn.Embedding(config.vocab_size, width, config.pad_token_id)
        nn.init.normal_(self.tokens.weight, std=width**-0.5)
        if config.pad_token_id is not None:
            nn.init.zeros_(self.tokens.weight[config.pad_token_id])
        self.positions: nn.Embedding | None = None
        if config.positions == "learned":
            numbers = config.first_position + config.max_position_embeddings
            self.positions = nn.Embedding(numbers, width)
            nn.init.normal_(self.positions.weight, std=width**-0.5)
        self.norm = nn.LayerNorm(width) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.scale = math.sqrt(width) if config.scale_embedding else 1.0

    def forward(self, embedded: Tensor, place: Tensor, most: int) -> Tensor:
        """Complete embeddings of tokens.

        Args:
            embedded: ``self.tokens`` of the input, ``(B, T, C)``.
            place: each token's place in its sequence from 0, ``(B, T)`` or ``(1, T)``.
            most: no place is above it.

        Raises:
            UserError: if a place is beyond the last learned position.
        """
        x = self.scale * embedded
        position = place + self.config.first_position
        if self.positions is not None:
            longest = self.config.max_position_embeddings
            may_be_too_long = most >= longest and not torch.compiler.is_compiling()
            if may_be_too_long and place.numel() and (last := int(place.max())) >= longest:
                raise UserError(
                    f"a sequence has {last + 1} tokens, but learned positions end at "
                    f"max_position_embeddings, {longest}"
                )
            x = x + self.positions(position)
        elif self.config.positions == "sinusoidal":
            x = x + sines(position, x.shape[-1]).to(x)
        y: Tensor = self.dropout(self.norm(x))
        return y


class FeedForward(nn.Module):
    """The two linear maps of a layer; the caller adds the residual.

    Args:
        config: sizes and dropout.
        inner: width between the maps.
    """

    def __init__(self, config: SelfattnConfig, inner: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(config.hidden_size, inner)
        self.fc2 = nn.Linear(inner, config.hidden_size)
        self.activation = ACT2FN[config.hidden_act]
        self.dropout = Dropout(config.activation_dropout)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, C)``."""
        y: Tensor = self.fc2(self.dropout(self.activation(self.fc1(x))))
        return y


class EncoderLayer(GradientCheckpointingLayer):  # type: ignore[misc]
    """A Transformer encoder layer as fairseq computes it, with any attention.

    Args:
        config: sizes and switches.

    Raises:
        UserError: if the attention changes the width of its input.
    """

    def __init__(self, config: SelfattnConfig) -> None:
        super().__init__()
        width = config.hidden_size
        attention = build_attention(config.attention_config, width, config.num_attention_heads)
        if attention.output_dim != width:
            raise UserError(
                f"the switches of {config.attention} turn width {width} into "
                f"{attention.output_dim}, but an encoder layer must keep its width"
            )
        self.self_attn, self.self_attn_norm = attention, nn.LayerNorm(width)
        self.feed_forward = FeedForward(config, config.intermediate_size)
        self.final_norm = nn.LayerNorm(width)
        self.dropout = Dropout(config.dropout)
        self.norm_first = config.norm_first

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, C)``; the bool mask ``(B, T)`` has True at padding."""
        if self.norm_first:
            x = x + self.dropout(self.self_attn(self.self_attn_norm(x), padding_mask))
            return x + self.dropout(self.feed_forward(self.final_norm(x)))
        x = self.self_attn_norm(x + self.dropout(self.self_attn(x, padding_mask)))
        y: Tensor = self.final_norm(x + self.dropout(self.feed_forward(x)))
        return y


class SelfattnModel(SelfattnPreTrainedModel):
    """The encoder without a head.

    Args:
        config: sizes and switches.
    """

    def __init__(self, config: SelfattnConfig) -> None:
        super().__init__(config)
        self.embeddings = Embeddings(config)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = nn.LayerNorm(config.hidden_size) if config.norm_first else nn.Identity()
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        """See ``PreTrainedModel``."""
        return self.embeddings.tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        """See ``PreTrainedModel``."""
        self.embeddings.tokens = value

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        **unused: Any,
    ) -> BaseModelOutput:
        """Encode a batch.

        Args:
            input_ids: tokens ``(B, T)``.
            attention_mask: ``(B, T)``, 1 for tokens to keep, 0 for padding. Default: padding is
                where ``input_ids`` has the padding token.
            inputs_embeds: embeddings ``(B, T, C)`` instead of tokens.
            output_hidden_states: also return the input of each layer, and ``last_hidden_state``.
            **unused: what pipelines and trainers pass on.

        Returns:
            ``last_hidden_state`` ``(B, T, C)``; what it holds at padding has no meaning.

        Raises:
            UserError: if both or neither of tokens and embeddings are given, the mask is wrong or
                has another name, token types are not all 0, or attention weights are asked for.
        """
        self.refuse(unused)
        refuse_types(unused.get("token_type_ids"))
        if (input_ids is None) == (inputs_embeds is None):
            raise UserError("give either input_ids or inputs_embeds")
        x = self.embeddings.tokens(input_ids) if inputs_embeds is None else inputs_embeds
        if x.dim() != 3:
            raise UserError(
                f"the embeddings have shape {tuple(x.shape)}, but must be (B, T, C); give "
                "input_ids (B, T) or inputs_embeds (B, T, C)"
            )
        padding = padding_of(input_ids, attention_mask, self.config.pad_token_id, x)
        x = self.embeddings(x, places(x, padding), x.shape[1] - 1)
        if padding is not None:
            x = x.masked_fill(padding[..., None], 0.0)
        if output_hidden_states is None:
            output_hidden_states = self.config.output_hidden_states
        states = []
        for layer in self.layers:
            if output_hidden_states:
                states.append(x)
            x = layer(x, padding)
        x = self.norm(x)
        hidden = (*states, x) if output_hidden_states else None
        return BaseModelOutput(last_hidden_state=x, hidden_states=hidden)
