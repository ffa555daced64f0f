"""Sentences as vectors: a context, then a pool."""

from typing import Any

from torch import Tensor, nn

from ..errors import UserError, check_choice
from ..layers.inspection import looking_into
from ..layers.source2token import Source2Token
from .context import build_context
from .pool import POOLS, build_pool


class SentenceEncoder(nn.Module):
    """The sentence encoders of the papers: a context of each token, then source2token pooling.

    Embeddings are not dropped out; the input of every linear map is. One object encodes both
    sentences of a pair.

    Args:
        embed_dim: width d of the embeddings.
        context: a name in ``selfattn.models.CONTEXTS``.
        hidden_size: width of one direction of the context; published for SNLI are 300, and 240 for
            Bi-BloSA.
        pool: ``"source2token"`` (Bi-BloSAN, eq. 8), ``"max"`` or ``"mean"``; a context that pools
            itself has no other pool.
        activation: of the context and of the pool. Published: elu for SNLI with mtsa, fast_disa,
            disa, biblosa and resa, relu for all others.
        dropout: on the input of every linear map.
        **switches: of the context; see ``build_context``.

    Raises:
        UserError: if a name, a switch or a value is unknown, or the sizes do not fit.

    Attributes:
        out_dim: width of a sentence's vector.

    Example:
        >>> import torch
        >>> encoder = SentenceEncoder(50, context="lstm", hidden_size=100)
        >>> encoder(torch.randn(2, 7, 50)).shape
        torch.Size([2, 200])
    """

    def __init__(
        self,
        embed_dim: int,
        *,
        context: str = "mtsa",
        hidden_size: int = 300,
        pool: str = "source2token",
        activation: str = "relu",
        dropout: float = 0.0,
        **switches: Any,
    ) -> None:
        super().__init__()
        check_choice("pool", pool, POOLS)
        options = {"activation": activation, "dropout": dropout, **switches}
        self.context = build_context(context, embed_dim, hidden_size, **options)
        self.out_dim = self.context.out_dim
        self.pool: nn.Module | None = None
        if not self.context.pools:
            self.pool = build_pool(pool, self.out_dim, activation, dropout)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Encode sentences.

        Args:
            x: embeddings ``(B, T, d)``.
            padding_mask: bool ``(B, T)``, True = padding.

        Returns:
            ``(B, out_dim)``; 0 for a sentence without a token.

        Raises:
            UserError: if x is not ``(B, T, d)`` or the mask not bool ``(B, T)``.
        """
        y: Tensor = self.context(x, padding_mask)
        if self.pool is None:
            return y
        pooled: Tensor = self.pool(y, self.context.left_out(padding_mask))
        return pooled

    def weights(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """How much of each feature source2token takes from each token, without dropout.

        Returns:
            ``(B, T, out_dim)``; sums to 1 over a sentence's tokens.

        Raises:
            UserError: if the pool is another.
        """
        if not isinstance(self.pool, Source2Token):
            raise UserError("the encoder has no source2token pool, whose weights could be shown")
        with looking_into(self):
            y = self.context(x, padding_mask)
            return self.pool.weights(y, self.context.left_out(padding_mask))
