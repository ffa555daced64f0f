"""fairseq's Transformer encoder with another attention in its layers."""

from collections.abc import Callable
from typing import Any

import torch
from fairseq.distributed import fsdp_wrap
from fairseq.models.transformer import TransformerEncoderBase
from fairseq.modules import MultiheadAttention
from fairseq.modules.checkpoint_activations import checkpoint_wrapper
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from torch import nn

from selfattn.config import MultiHeadConfig
from selfattn.errors import UserError
from selfattn.layers import SelfAttention, build_attention

from .encoder_attention import EncoderAttention

# (embed_dim, num_heads) -> a new layer; the class of an attention will do.
MakeAttention = Callable[[int, int], SelfAttention]


class AttentionEncoderLayer(TransformerEncoderLayerBase):
    """fairseq's encoder layer; only the attention differs, whose ``name`` is for messages."""

    def __init__(
        self, cfg: Any, make_attention: MakeAttention, name: str, return_fc: bool = False
    ) -> None:
        # Set first, since fairseq's constructor calls build_self_attention.
        self._make_attention = make_attention
        self._attention_name = name
        super().__init__(cfg, return_fc=return_fc)
        for dropout in (self.dropout_module, self.activation_dropout_module):
            dropout.module_name = TransformerEncoderLayerBase.__name__  # --retain-dropout-modules

    def build_self_attention(self, embed_dim: int, cfg: Any) -> nn.Module:
        """fairseq's hook for the attention of a layer.

        Raises:
            UserError: if the attention cannot have these sizes.
        """
        heads = cfg.encoder.attention_heads
        try:
            layer = self._make_attention(embed_dim, heads)
        except UserError as error:
            raise UserError(
                f"the encoder's attention {self._attention_name} with --encoder-embed-dim "
                f"{embed_dim} and --encoder-attention-heads {heads}: {error}"
            ) from None
        return EncoderAttention(layer, self._attention_name)


class AttentionEncoder(TransformerEncoderBase):
    """fairseq's Transformer encoder with ``AttentionEncoderLayer``.

    Args:
        cfg: fairseq's Transformer configuration.
        dictionary: source dictionary.
        embed_tokens: source embedding.
        make_attention: makes a layer's attention from ``embed_dim`` and ``num_heads``, such as
            the class of an attention, or ``functools.partial(build_attention, "mtsa")``.
        name: the attention's name, for messages. Default: that of ``make_attention``.

    Raises:
        UserError: if a feature of fairseq is requested that would not apply to this attention.
    """

    def __init__(
        self,
        cfg: Any,
        dictionary: Any,
        embed_tokens: nn.Module,
        make_attention: MakeAttention,
        name: str | None = None,
    ) -> None:
        self._make_attention = make_attention
        self._attention_name = name or str(getattr(make_attention, "__name__", "of this model"))
        _refuse_unsupported(cfg, self._attention_name)
        super().__init__(cfg, dictionary, embed_tokens)
        self.dropout_module.module_name = "TransformerEncoder"  # as fairseq's, as in each layer

    def build_encoder_layer(self, cfg: Any) -> nn.Module:
        """fairseq's hook for one layer, with its activation checkpointing and sharding."""
        layer = AttentionEncoderLayer(
            cfg, self._make_attention, self._attention_name, return_fc=self.return_fc
        )
        if cfg.checkpoint_activations:
            layer = checkpoint_wrapper(layer, offload_to_cpu=cfg.offload_activations)
        smallest = 0 if cfg.checkpoint_activations else cfg.min_params_to_wrap
        return fsdp_wrap(layer, min_num_params=smallest)


def _refuse_unsupported(cfg: Any, name: str) -> None:
    """Refuse what wraps or replaces the linear maps of fairseq's multi-head attention."""
    refused = {
        "--quant-noise-pq": cfg.quant_noise.pq,
        "--quant-noise-scalar": cfg.quant_noise.scalar,
        "--encoder-xformers-att-config": cfg.encoder.xformers_att_config,
    }
    for flag, value in refused.items():
        if value:
            raise UserError(
                f"{flag} {value} does not work with the encoder's attention {name}, whose maps "
                f"fairseq does not know; leave it out or use --encoder-attention multihead "
                f"without switches"
            )


def build_multihead(config: MultiHeadConfig, embed_dim: int, num_heads: int) -> SelfAttention:
    """Build a layer with the weights that fairseq's own attention draws from the same seed.

    Runs with and without masks thus start from equal models and differ only in the masks.

    Raises:
        UserError: if the sizes do not fit.
    """
    with torch.random.fork_rng(devices=[]):
        layer = build_attention(config, embed_dim, num_heads)
    fairseqs = MultiheadAttention(embed_dim, num_heads, bias=config.bias, self_attention=True)
    layer.load_state_dict(fairseqs.state_dict(), strict=False)  # its names; the rest stays
    return layer
