"""The contract of contexts: what an encoder computes of each token before it pools them."""

from abc import ABC, abstractmethod

from torch import Tensor, nn

from ..errors import check_integer
from ..layers.base import check_tokens, zero_padding
from ..ops.common.tiling import with_graph


class Context(nn.Module, ABC):
    """Embeddings in, contexts of tokens out, or a sentence's vector where the context pools itself.

    Args:
        embed_dim: width d of the input in features.
        out_dim: width w of the output.

    Raises:
        UserError: if a width is no whole number of at least 1.

    Attributes:
        pools: whether the output is ``(B, w)`` instead of ``(B, T, w)``.
    """

    pools = False

    def __init__(self, embed_dim: int, out_dim: int) -> None:
        super().__init__()
        self.embed_dim = check_integer("embed_dim", embed_dim)
        self.out_dim = check_integer("out_dim", out_dim)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Encode a batch.

        Args:
            x: ``(B, T, d)``.
            padding_mask: bool ``(B, T)``, True = padding.

        Returns:
            ``(B, T, w)``, 0 at padding; ``(B, w)`` from a context that pools, 0 for a sentence
            without a token. No sentence depends on its batch mates.

        Raises:
            UserError: if x is not ``(B, T, d)`` or the mask not bool ``(B, T)``.
        """
        check_tokens(x, self.embed_dim)
        x = zero_padding(x, padding_mask)  # whatever is there, also NaN
        if not x.numel():
            nothing = x.sum((1, 2) if self.pools else 2)[..., None]
            return with_graph(nothing.expand(*nothing.shape[:-1], self.out_dim), *self.parameters())
        return self.encode(x, padding_mask)

    @abstractmethod
    def encode(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        """``forward`` with at least one sentence and one token, x 0 at padding."""

    def left_out(self, padding_mask: Tensor | None) -> Tensor | None:
        """What a pool has to leave out after a forward, bool ``(B, T)``: padding, or more."""
        return padding_mask
