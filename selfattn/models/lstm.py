"""Bi-LSTM, the recurrent baseline of all papers."""

from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ..layers.dropout import Dropout
from ..ops.common.autograd import is_exporting
from .base import Context
from .directions import Directions, glorot_parts


class BiLSTM(Context):
    """A long short-term memory in each direction (Hochreiter and Schmidhuber 1997), side by side.

    ``i, f, o = sigmoid(W x + U h + b)``, ``g = tanh(W x + U h + b)``, ``c = f c + i g`` and
    ``h = o tanh(c)``, with one bias per gate, as in TensorFlow; PyTorch's own layer has two,
    and its kernels are used with the second one fixed at 0.

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
        self.directions = nn.ModuleList(_Direction(embed_dim, hidden_size) for _ in range(2))

    def encode(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        order = Directions(x, padding_mask)
        both = order.split(self.dropout(x)).unbind()
        forward, backward = (
            direction(part) for direction, part in zip(self.directions, both, strict=True)
        )
        return order.join(forward, backward)


class _Direction(nn.Module):
    """One direction; rows of weights are the gates i, f, g and o, one after the other."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        weight_x, weight_h = glorot_parts(inputs, hidden, 4 * hidden)
        self.weight_x = nn.Parameter(weight_x.T.contiguous())  # (4 h, d)
        self.weight_h = nn.Parameter(weight_h.T.contiguous())  # (4 h, h)
        self.bias = nn.Parameter(torch.zeros(4 * hidden))
        nn.init.ones_(self.bias[hidden : 2 * hidden].detach())  # TensorFlow adds 1 to the gate f

    def kept_parameters(self) -> list[nn.Parameter]:
        """What an initialiser of the whole model leaves as it is."""
        return [self.bias]

    def forward(self, x: Tensor) -> Tensor:
        """``(B, T, d)`` -> ``(B, T, h)``."""
        exact: Any = nullcontext()
        if x.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            # autocast does not ask whether oneDNN has an LSTM of that precision for this CPU.
            exact, x = torch.autocast("cpu", enabled=False), x.to(self.bias.dtype)
        state = x.new_zeros(1, x.shape[0], self.weight_h.shape[1])
        weights = [self.weight_x, self.weight_h, self.bias, torch.zeros_like(self.bias)]
        lstm = torch.lstm
        if torch.compiler.is_compiling() and torch.is_grad_enabled() and not is_exporting():
            from ..ops.common.compiled import lstm
        with exact:
            y, *_ = lstm(x, (state, state), weights, True, 1, 0.0, self.training, False, True)
        return y
