"""fairseq's Transformer encoder with another attention in its layers."""

from __future__ import annotations

from typing import Any

from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import nn

from selfattn.config import AttentionConfig
from selfattn.errors import UserError
from selfattn.layers import build_attention

from .encoder_attention import EncoderAttention


class AttentionEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's encoder layer; only the attention differs.

    Args:
        cfg: fairseq's Transformer configuration.
        attention_config: configuration of the attention.
        return_fc: see fairseq.
    """

    def __init__(self, cfg: Any, attention_config: AttentionConfig, return_fc: bool = False) -> None:
        self._attention_config = attention_config  # a plain object: set before nn.Module is ready
        super().__init__(cfg, return_fc=return_fc)

    def build_self_attention(self, embed_dim: int, cfg: Any) -> nn.Module:
        """fairseq's hook for the attention of a layer."""
        config = self._attention_config
        layer = build_attention(config, embed_dim, cfg.encoder.attention_heads)
        return EncoderAttention(layer, config.name)


class AttentionEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder with ``AttentionEncoderLayer``.

    Args:
        cfg: fairseq's Transformer configuration.
        dictionary: source dictionary.
        embed_tokens: source embedding.
        attention_config: configuration of the attention.

    Raises:
        UserError: if a feature of fairseq is asked for that would not apply to this attention.
    """

    def __init__(
        self, cfg: Any, dictionary: Any, embed_tokens: nn.Module, attention_config: AttentionConfig
    ) -> None:
        _refuse_unsupported(cfg, attention_config.name)
        self._attention_config = attention_config
        super().__init__(cfg, dictionary, embed_tokens)

    def build_encoder_layer(self, cfg: Any) -> nn.Module:
        """fairseq's hook for one layer, with activation checkpointing and sharding as it has them."""
        layer = AttentionEncoderLayer(cfg, self._attention_config, return_fc=self.return_fc)
        if cfg.checkpoint_activations:
            layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        smallest = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
        return fsdp_wrap(layer, min_num_params=smallest)


def _refuse_unsupported(cfg: Any, name: str) -> None:
    """What wraps or replaces the linear maps of multi-head attention does not see these layers."""
    refused = {
        "--quant-noise-pq": cfg.quant_noise.pq,
        "--quant-noise-scalar": cfg.quant_noise.scalar,
        "--encoder-xformers-att-config": cfg.encoder.xformers_att_config,
    }
    for flag, value in refused.items():
        if value:
            raise UserError(
                f"{flag} {value} does not work with --encoder-attention {name}, whose weights are "
                f"not all linear maps; leave it out or use --encoder-attention multihead"
            )
