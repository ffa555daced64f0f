"""No context at all: each token on its own."""

from torch import Tensor, nn

from ..layers.base import zero_padding
from .base import Context
from .dense import dense


class NoContext(Context):
    """``act(W x + b)`` of each token, the baseline of every context.

    Args:
        embed_dim: width of the input.
        hidden_size: half of the output's width, as for a context of two directions.
        activation: a name in ``selfattn.config.ACTIVATIONS``.
        dropout: on the input of the map.
        input_map: False leaves the embeddings as they are, which is Bi-BloSAN's ablation.
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_size: int,
        *,
        activation: str = "relu",
        dropout: float = 0.0,
        input_map: bool = True,
    ) -> None:
        super().__init__(embed_dim, 2 * hidden_size if input_map else embed_dim)
        self.map: nn.Module = nn.Identity()
        if input_map:
            self.map = dense(embed_dim, self.out_dim, activation, dropout)

    def encode(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        return zero_padding(self.map(x), padding_mask)
