"""Vanilla attention pooling: one weight a token."""

from torch import Tensor, nn

from ..layers.source2token import softmax_over_time
from .base import Context
from .dense import dense, logits


class VanillaPool(Context):
    """``sum_i p_i x_i``, p the softmax over time of ``w act(W x_i + b)`` (Bi-BloSAN eq. 1-5).

    The last row of Bi-BloSAN's ablations: no context, and a score for each token instead of one for
    each of its features.

    Args:
        embed_dim: width of the input and of the output.
        hidden_size: not used: the network is as wide as its input.
        activation: a name in ``selfattn.config.ACTIVATIONS``.
        dropout: on the input of both maps.
    """

    pools = True

    def __init__(
        self,
        embed_dim: int,
        hidden_size: int = 0,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__(embed_dim, embed_dim)
        first = dense(embed_dim, embed_dim, activation, dropout)
        self.scores = nn.Sequential(first, logits(embed_dim, 1, dropout, bias=False))

    def encode(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        return (self.weights(x, padding_mask) * x).sum(1)

    def weights(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Each token's weight ``(B, T, 1)``; sums to 1 over a sentence's tokens, 0 at padding."""
        return softmax_over_time(self.scores(x), padding_mask)
