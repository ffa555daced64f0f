"""A Transformer whose encoder attends in a way of your own: change ``MyAttention.forward``."""

from functools import partial

import torch
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer.transformer_legacy import base_architecture
from torch import nn

from selfattn.layers import SelfAttention

from .. import AttentionEncoder


class MyAttention(SelfAttention):
    """Dot-product attention in which each head prefers near tokens, as strongly as it learns to."""

    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__(embed_dim, num_heads)
        self.qkv_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.nearness = nn.Parameter(torch.zeros(num_heads, 1, 1))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, padding_mask=None):
        """(B, T, C) -> (B, T, C); padding_mask (B, T) is True at padding."""
        x = self.check_input(x, padding_mask)
        split = (3, self.num_heads, self.head_width(None))
        q, k, v = self.qkv_proj(x).unflatten(-1, split).permute(2, 0, 3, 1, 4)  # each (B, H, T, D)
        position = torch.arange(x.shape[1], device=x.device)
        distance = (position[:, None] - position).abs()  # (T, T)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 - self.nearness * distance
        if padding_mask is not None:
            lowest = torch.finfo(scores.dtype).min
            scores = scores.masked_fill(padding_mask[:, None, None, :], lowest)
        weights = self.dropout(scores.softmax(-1))
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2))


@register_model("my_transformer")
class MyTransformer(TransformerModel):
    """fairseq's Transformer; its encoder uses MyAttention."""

    @classmethod
    def build_encoder(cls, args, src_dict, embed_tokens):
        """fairseq's hook for the encoder."""
        make_attention = partial(MyAttention, dropout=args.attention_dropout)
        return AttentionEncoder(args, src_dict, embed_tokens, make_attention, "my attention")


@register_model_architecture("my_transformer", "my_transformer")
def my_transformer(args):
    """The sizes where no flag gives another."""
    base_architecture(args)
