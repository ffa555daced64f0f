"""The Fast-DiSA layer: MTSA with the inputs of its own note."""

from ..config import FastDiSAConfig
from .mtsa import MTSA


class FastDiSA(MTSA):
    """Fast directional self-attention (Shen et al. 2018, arXiv 1805.00912, eq. 1-6).

    For each head ``v = W x`` (``act(W x + b)`` in the authors' code), then MTSA's operator with
    queries and keys projected from v, scores of v, and v itself as values; the output is the heads
    side by side.

    Args:
        config: the switches; ``FastDiSAConfig.make("paper")`` is the note's form.
        embed_dim: width C of the input.
        num_heads: number of heads H.

    Raises:
        UserError: if the heads do not divide the width, or the masks do not fit the heads.

    Example:
        >>> import torch
        >>> from selfattn.config import FastDiSAConfig
        >>> layer = FastDiSA(FastDiSAConfig.make("code"), embed_dim=64, num_heads=4)
        >>> layer(torch.randn(2, 7, 64)).shape
        torch.Size([2, 7, 64])
    """

    config_class = FastDiSAConfig
