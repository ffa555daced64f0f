"""The fusion gate of the papers: how much of a token to keep next to its context."""

import torch
from torch import Tensor, nn

from ..errors import check_integer, check_rate
from .dropout import Dropout
from .linear import PerHeadLinear


class FusionGate(nn.Module):
    """``g = sigmoid(W [v; s] + b)``, then ``g * v + (1 - g) * s``, for each head on its own.

    Args:
        num_heads: number of heads H.
        width: width D of a head.
        dropout: dropout on the input of the linear map.
        biases: how many biases are summed. The authors' code of DiSA has 3: those of the maps of
            v and of s, and one more; it needs them only to have the published parameter counts.
        maps: matrices that W is drawn as: 1, or 2 where v and s have a matrix each (BB eq. 14).

    Raises:
        UserError: if a number is out of range.
    """

    def __init__(
        self, num_heads: int, width: int, dropout: float = 0.0, *, biases: int = 1, maps: int = 1
    ) -> None:
        super().__init__()
        num_heads, width = check_integer("num_heads", num_heads), check_integer("width", width)
        self.dropout = Dropout(check_rate("dropout", dropout))
        self.linear = PerHeadLinear(num_heads, 2 * width, width)
        if check_integer("maps", maps, most=2) == 2:
            for part in self.linear.weight.data.view(-1, width, width):
                nn.init.xavier_uniform_(part)
        more = torch.zeros(check_integer("biases", biases) - 1, num_heads, 1, width)
        self.more_biases = nn.Parameter(more) if biases > 1 else None

    def forward(self, v: Tensor, s: Tensor, share_only: bool = False) -> Tensor:
        """Fuse values and contexts, ``(B, H, T, D)`` each, to ``(B, H, T, D)``.

        ``share_only``: return the share g of each value that is kept, in [0, 1], instead.
        """
        both = torch.cat([v, s], -1)  # (B, H, T, 2 D)
        logits: Tensor = self.linear(self.dropout(both))  # (B, H, T, D)
        if self.more_biases is not None:
            logits = logits + self.more_biases.sum(0)
        gate = torch.sigmoid(logits)
        if share_only:
            return gate
        if v.dtype is s.dtype is gate.dtype:
            return torch.lerp(s, v, gate)
        return gate * v + (1 - gate) * s  # autocast may give them different types
