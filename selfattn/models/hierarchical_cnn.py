"""Hrchy-CNN: gated convolutions on top of each other."""

import torch
from torch import Tensor, nn

from ..layers.base import zero_padding
from ..layers.dropout import Dropout
from .base import Context
from .conv import SameConv


class HierarchicalCNN(Context):
    """Gated convolutions with residual connections from the second one on (Gehring et al. 2017).

    Each is ``a * sigmoid(b)``, where ``a`` and ``b`` are halves of what a ReLU leaves of the
    convolution.

    Args:
        embed_dim: width of the input.
        hidden_size: width of each layer and of the output.
        dropout: on the input of each convolution.
        window: of each convolution in tokens.
        layers: number of convolutions; 3 have the published number of parameters.

    Differs:
        Padded positions are set to 0 before each layer, not only before the first one, so that a
        sentence's output does not depend on its batch mates. Weights and biases start as those of
        ``MultiCNN`` do.
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_size: int,
        *,
        dropout: float = 0.0,
        window: int = 5,
        layers: int = 3,
    ) -> None:
        super().__init__(embed_dim, hidden_size)
        self.dropout = Dropout(dropout)
        self.convs = nn.ModuleList(
            SameConv(hidden_size if depth else embed_dim, 2 * hidden_size, window)
            for depth in range(layers)
        )

    def encode(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        for depth, conv in enumerate(self.convs):
            value, gate = torch.relu(conv(self.dropout(x))).chunk(2, -1)
            y = zero_padding(value * torch.sigmoid(gate), padding_mask)
            x = x + y if depth else y
        return x
