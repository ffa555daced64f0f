"""The head of natural language inference."""

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


class PairHead(nn.Module):
    """Classes of a pair from ``[s1; s2; s1 - s2; s1 * s2]`` (MTSA section 4.1; Bowman et al. 2016).

    A dense layer, a highway layer if asked for, and the logits. The published tables mix both: only
    with the highway have MTSA, ReSAN and Hrchy-CNN their published parameter counts, and only
    without it all other models.

    Args:
        dim: width w of a sentence's vector.
        num_classes: number of classes.
        hidden_size: width of the hidden layer.
        activation: a name in ``selfattn.config.ACTIVATIONS``.
        dropout: on the input of every linear map.
        highway: put a highway layer in front of the logits.
    """

    def __init__(
        self,
        dim: int,
        num_classes: int,
        hidden_size: int = 300,
        activation: str = "relu",
        dropout: float = 0.0,
        highway: bool = False,
    ) -> None:
        super().__init__()
        self.dense = dense(4 * dim, hidden_size, activation, dropout)
        self.highway = Highway(hidden_size, activation, dropout) if highway else None
        self.logits = logits(hidden_size, num_classes, dropout)

    def forward(self, s1: Tensor, s2: Tensor) -> Tensor:
        """Vectors of both sentences ``(B, w)`` -> logits ``(B, num_classes)``."""
        h: Tensor = self.dense(torch.cat([s1, s2, s1 - s2, s1 * s2], -1))
        if self.highway is not None:
            h = self.highway(h)
        y: Tensor = self.logits(h)
        return y
