"""The head of semantic relatedness."""

import torch
from torch import Tensor, nn

from ..layers.base import activation as activation_of
from ..layers.base import xavier_linear
from ..layers.dropout import Dropout
from .dense import logits


class RelatednessHead(nn.Module):
    """How related a pair is: ``act(Wa (s1 * s2) + Wb |s1 - s2| + b)``, then logits.

    Tai et al. 2015 and Bi-BloSAN eq. 25 and 26 (SICK). The score is the mean of the classes 1, 2,
    ... under the softmax of the logits. It does not matter which sentence comes first.

    Args:
        dim: width w of a sentence's vector.
        num_classes: number of whole scores, 1 to ``num_classes``.
        hidden_size: width of the hidden layer.
        activation: a name in ``selfattn.config.ACTIVATIONS``.
        dropout: on the input of every linear map.
    """

    def __init__(
        self,
        dim: int,
        num_classes: int = 5,
        hidden_size: int = 300,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.product = xavier_linear(dim, hidden_size, bias=False)  # Wa
        self.difference = xavier_linear(dim, hidden_size)  # Wb and b
        self.activation = activation_of(activation)
        self.logits = logits(hidden_size, num_classes, dropout)

    def forward(self, s1: Tensor, s2: Tensor) -> Tensor:
        """Vectors of both sentences ``(B, w)`` -> logits of the scores ``(B, num_classes)``."""
        h = self.product(self.dropout(s1 * s2)) + self.difference(self.dropout((s1 - s2).abs()))
        y: Tensor = self.logits(self.activation(h))
        return y

    @staticmethod
    def score(logits: Tensor) -> Tensor:
        """Logits ``(B, K)`` -> expected scores ``(B,)``, from 1 to K."""
        return expected_score(torch.softmax(logits.float(), -1))


def expected_score(probabilities: Tensor, lowest: float = 1.0) -> Tensor:
    """The mean of distributions, the score that they predict (Bi-BloSAN eq. 25).

    Args:
        probabilities: ``(B, K)``.
        lowest: the score of the first class.

    Returns:
        ``(B,)``.
    """
    classes = probabilities.shape[-1]
    steps = torch.arange(classes, device=probabilities.device, dtype=probabilities.dtype) + lowest
    return probabilities @ steps  # eq. 25


def distribution(scores: Tensor, lowest: float = 1.0, highest: float = 5.0) -> Tensor:
    """The distribution over ``lowest, lowest + 1, ..., highest`` whose mean is the score.

    All of it lies on the two whole numbers beside the score (Tai et al. 2015, section
    4.2, which Bi-BloSAN takes over): 3.7 is [0, 0, 0.3, 0.7, 0], and the highest score has no upper
    neighbour.

    Args:
        scores: ``(B,)``, from ``lowest`` to ``highest``.
        lowest: of the scale.
        highest: of the scale, a whole number of steps above.

    Returns:
        ``(B, classes)``; each row sums to 1.
    """
    steps = torch.arange(lowest, highest + 1, device=scores.device, dtype=scores.dtype)
    # 1 - distance to the score, where that is positive: eq. 15 without its case distinction.
    return (1 - (scores.unsqueeze(-1) - steps).abs()).clamp(min=0)
