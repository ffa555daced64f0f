"""The highway layer that MTSA, ReSAN and the released code have in front of the logits."""

import torch
from torch import Tensor, nn

from .dense import dense, logits


class Highway(nn.Module):
    """``g t + (1 - g) h`` with ``t = act(W h + b)`` and ``g = sigmoid(Wg h + bg)``.

    Srivastava et al. 2015; the papers do not mention it, their parameter counts have it.

    Args:
        width: of the input and of the output.
        activation: a name in ``selfattn.config.ACTIVATIONS``.
        dropout: on the input of both maps.
    """

    def __init__(self, width: int, activation: str = "relu", dropout: float = 0.0) -> None:
        super().__init__()
        self.transform = dense(width, width, activation, dropout)
        self.gate = logits(width, width, dropout)

    def forward(self, h: Tensor) -> Tensor:
        """``(B, width)`` -> ``(B, width)``."""
        y: Tensor = h + torch.sigmoid(self.gate(h)) * (self.transform(h) - h)
        return y
