"""Our multi-head layer with fairseq's weights."""

from __future__ import annotations

import torch
from fairseq.modules import MultiheadAttention

from selfattn.config import MultiHeadConfig
from selfattn.layers import SelfAttention, build_attention


def build_multihead(config: MultiHeadConfig, embed_dim: int, num_heads: int) -> SelfAttention:
    """Build a layer with the weights that fairseq's own attention draws from the same seed.

    Trainings with and without masks thus start from equal models and differ only in the masks.

    Args:
        config: the switches.
        embed_dim: width C of the input.
        num_heads: number of heads.

    Raises:
        UserError: if the sizes do not fit.
    """
    with torch.random.fork_rng(devices=[]):
        layer = build_attention(config, embed_dim, num_heads)
    fairseqs = MultiheadAttention(embed_dim, num_heads, bias=config.bias, self_attention=True)
    layer.load_state_dict(fairseqs.state_dict(), strict=False)  # its names; the rest stays
    return layer
