"""Source2token: a sequence pooled into one vector, each feature with weights of its own."""

import torch
from torch import Tensor, nn

from ..errors import UserError, check_integer
from ..masks import check_padding_mask
from .base import check_tokens, join_heads, split_heads, zero_padding
from .inspection import visible_softmax
from .source2token_scores import Source2TokenScores


class Source2Token(nn.Module):
    """``s = sum_i p_i x_i``, p the softmax over time of ``W2 act(W1 x_i + b1) + b2`` (BB eq. 8).

    BB is the Bi-BloSAN paper (Shen et al. 2018). Scores and softmax are per feature.

    Args:
        inputs: width C of the input and of the output.
        heads: equal parts of the features, each with a network of its own.
        hidden: hidden width of a head with two layers; None takes ``inputs / heads``.
        layers: 2, or 1 for ``W x + b``, which the released Bi-BloSA code uses for its blocks.
        activation_name: a name in ``selfattn.config.ACTIVATIONS``, between two layers.
        dropout: dropout on the input of each linear map; the pooled input is not dropped.

    Raises:
        UserError: if a number is out of range, the heads do not divide the width, or the
            activation is unknown.

    Differs:
        A sentence of padding only gives 0; the authors' code gives its mean.

    Example:
        >>> Source2Token(64)(torch.randn(2, 7, 64)).shape
        torch.Size([2, 64])
    """

    def __init__(
        self,
        inputs: int,
        *,
        heads: int = 1,
        hidden: int | None = None,
        layers: int = 2,
        activation_name: str = "elu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_integer("inputs", inputs)
        if inputs % check_integer("heads", heads):
            raise UserError(f"heads {heads} does not divide inputs {inputs}; choose a divisor")
        self.inputs, self.heads = inputs, heads
        self.scores = Source2TokenScores(
            heads,
            inputs // heads,
            inputs // heads,
            layers=layers,
            hidden=hidden,
            activation_name=activation_name,
            dropout=dropout,
        )

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Pool over time.

        Args:
            x: ``(B, T, C)``.
            padding_mask: bool ``(B, T)``, True = padding.

        Returns:
            ``(B, C)``; 0 for a sentence without a real token.

        Raises:
            UserError: if x is not ``(B, T, C)`` or the mask not bool ``(B, T)``.
        """
        x = self._cleared(x, padding_mask)
        return (self._weights(x, padding_mask) * x).sum(1)

    def weights(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """How much of each feature the sum takes from each token; arguments as in ``forward``.

        Returns:
            ``(B, T, C)``; sums to 1 over the real tokens of a sentence and is 0 at padding.
        """
        return self._weights(self._cleared(x, padding_mask), padding_mask)

    def _cleared(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        check_tokens(x, self.inputs)
        return zero_padding(x, padding_mask)  # whatever is there, also NaN

    def _weights(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        scores = join_heads(self.scores(split_heads(x, self.heads)))  # (B, T, C)
        return softmax_over_time(scores, padding_mask)


def softmax_over_time(scores: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Softmax of ``(B, T, C)`` over the real tokens of each sentence, 0 at padding."""
    check_padding_mask(padding_mask, scores.shape[:2])
    if padding_mask is None:
        return torch.softmax(scores, 1)
    return visible_softmax(scores, ~padding_mask[..., None], 1)
