"""The head of sentence classification."""

from torch import Tensor, nn

from .dense import dense, logits


class ClassHead(nn.Module):
    """Classes of a sentence: a dense layer, then logits without a bias (Bi-BloSAN table 6).

    Args:
        dim: width w of a sentence's vector.
        num_classes: number of classes.
        hidden_size: width of the hidden layer.
        activation: a name in ``selfattn.config.ACTIVATIONS``.
        dropout: on the input of both maps.
    """

    def __init__(
        self,
        dim: int,
        num_classes: int,
        hidden_size: int = 300,
        activation: str = "relu",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.dense = dense(dim, hidden_size, activation, dropout)
        self.logits = logits(hidden_size, num_classes, dropout, bias=False)

    def forward(self, s: Tensor) -> Tensor:
        """A sentence's vector ``(B, w)`` -> logits ``(B, num_classes)``."""
        y: Tensor = self.logits(self.dense(s))
        return y
