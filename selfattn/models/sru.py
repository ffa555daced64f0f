"""Bi-SRU: recurrent, with nothing but elementwise steps from token to token."""

import torch
from torch import Tensor, nn

from ..layers.base import xavier_linear
from ..layers.dropout import Dropout
from .base import Context
from .dense import dense
from .directions import Directions


class BiSRU(Context):
    """A simple recurrent unit in each direction (Lei et al. 2017, first version), side by side.

    ``z = W x``, ``f = sigmoid(Wf x + bf)``, ``r = sigmoid(Wr x + br)``, ``c = f c + (1 - f) z`` and
    ``h = r tanh(c) + (1 - r) x``. The last sum takes an input as wide as the state: one of another
    width is mapped first, to ``relu(W x + b)``.

    Args:
        embed_dim: width of the input.
        hidden_size: width of a direction; the output is twice as wide.
        dropout: on the input of every linear map.
        input_map: map the input even if it is as wide as the state, as the published counts have it
            for SQuAD; None: only if it is not.

    Differs:
        The authors' code drops out once more what the linear maps have computed.
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_size: int,
        *,
        dropout: float = 0.0,
        input_map: bool | None = None,
    ) -> None:
        super().__init__(embed_dim, 2 * hidden_size)
        self.map: nn.Module | None = None
        if input_map or embed_dim != hidden_size:
            self.map = dense(embed_dim, hidden_size, "relu", dropout)
        self.dropout = Dropout(dropout)
        maps = [xavier_linear(hidden_size, 3 * hidden_size, bias=False) for _ in range(2)]
        self.weight = nn.Parameter(torch.stack([m.weight.detach().T for m in maps]))  # (2, h, 3 h)
        self.bias = nn.Parameter(torch.zeros(2, 2 * hidden_size))  # of f and r

    def encode(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        if self.map is not None:
            x = self.map(x)
        order = Directions(x, padding_mask)
        mapped = order.project(self.dropout(x), self.weight)  # (T, 2, B, 3 h)
        mapped = mapped.to(self.bias.dtype)  # sums over a sentence, also under autocast
        z, gates = mapped.split([x.shape[-1], 2 * x.shape[-1]], -1)
        f, r = torch.sigmoid(gates + self.bias[:, None]).chunk(2, -1)
        c = z.new_zeros(z.shape[1:])
        states = []
        for step, forget in zip(z.unbind(), f.unbind(), strict=True):
            c = torch.lerp(step, c, forget)
            states.append(c)
        context = torch.tanh(torch.stack(states))  # (T, 2, B, h)
        read = order.split(x).permute(2, 0, 1, 3)
        return order.join_steps(torch.lerp(read.to(context.dtype), context, r))
