"""Bi-GRU, the other recurrent baseline."""

import torch
from torch import Tensor, nn

from ..layers.dropout import Dropout
from .base import Context
from .directions import Directions, glorot_parts


class BiGRU(Context):
    """A gated recurrent unit in each direction (Cho et al. 2014), side by side.

    ``r, u = sigmoid(W [x; h] + b)``, ``c = tanh(Wc [x; r h] + bc)`` and ``h = u h + (1 - u) c``, as
    in TensorFlow: the reset gate comes before the matrix and a gate has one bias, the first value
    of which is 1. PyTorch's own layer resets after the matrix and has two, so that its kernels are
    of no use here: tokens are read one after the other, both directions at once.

    Args:
        embed_dim: width of the input.
        hidden_size: width of a direction; the output is twice as wide.
        dropout: on the input, drawn anew for each token.

    Differs:
        One draw of dropout serves both directions; in the authors' code each has its own.
    """

    def __init__(self, embed_dim: int, hidden_size: int, *, dropout: float = 0.0) -> None:
        super().__init__(embed_dim, 2 * hidden_size)
        self.dropout = Dropout(dropout)
        gates = [glorot_parts(embed_dim, hidden_size, 2 * hidden_size) for _ in range(2)]
        candidates = [glorot_parts(embed_dim, hidden_size, hidden_size) for _ in range(2)]
        parts = [torch.cat([g[0], c[0]], -1) for g, c in zip(gates, candidates, strict=True)]
        self.weight_x = nn.Parameter(torch.stack(parts))  # (2, d, 3 h): r, u and c
        self.weight_gates = nn.Parameter(torch.stack([g[1] for g in gates]))  # (2, h, 2 h)
        self.weight_candidate = nn.Parameter(torch.stack([c[1] for c in candidates]))  # (2, h, h)
        first = torch.cat([torch.ones(2 * hidden_size), torch.zeros(hidden_size)])
        self.bias = nn.Parameter(first.repeat(2, 1))  # (2, 3 h)

    def kept_parameters(self) -> list[nn.Parameter]:
        """What an initialiser of the whole model leaves as it is."""
        return [self.bias]

    def encode(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        order = Directions(x, padding_mask)
        mapped = order.project(self.dropout(x), self.weight_x, self.bias)  # (T, 2, B, 3 h)
        hidden = self.weight_candidate.shape[-1]
        inputs = (part.unbind() for part in mapped.split([2 * hidden, hidden], -1))
        state = mapped.new_zeros(2, x.shape[0], hidden)
        states = []
        for gates, candidate in zip(*inputs, strict=True):
            gates = torch.sigmoid(torch.baddbmm(gates, state, self.weight_gates))
            reset, update = gates.chunk(2, -1)
            c = torch.tanh(torch.baddbmm(candidate, reset * state, self.weight_candidate))
            state = torch.lerp(c, state, update)
            states.append(state)
        return order.join_steps(torch.stack(states))
