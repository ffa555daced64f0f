"""The baseline of reinforced sequence sampling: tokens are selected one after the other."""

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UserError
from ..ops.common.autograd import is_exporting
from .base import working
from .selection import Sampler, decide


class IterativeSampling(Sampler):
    """``p(z | x) = prod_i p(z_i | x, z_1 .. z_{i-1})`` (ReSAN, appendix A, eq. 21-25).

    ``p(z_i = 1) = sigmoid(w act(W [h_{i-1}; x_i] + b) + b')`` and ``h_i = RNN(h_{i-1}, [x_i;
    z_i])``, a vanilla recurrent network that starts from 0 and passes over padding.

    Arguments are those of ``Sampler``.
    """

    def __init__(self, width: int, hidden: int, *args: Any, **kwargs: Any) -> None:
        super().__init__(width, hidden, *args, **kwargs)
        self.cell = nn.RNNCell(width + 1, hidden)

    def features(self, width: int, hidden: int) -> int:
        return hidden + width

    def choose(self, x: Tensor, real: Tensor, noise: Tensor | None) -> tuple[Tensor, Tensor]:
        # Dynamo takes a dynamic length for the example's, and torch.onnx tries it last.
        fixed = isinstance(x.shape[1], int) and not torch.compiler.is_dynamo_compiling()
        if is_exporting() and not fixed:
            raise UserError(
                "the sampler 'iterative', which takes one token after the other, can be exported "
                "for one length and with strict=False alone; or train with 'parallel'"
            )
        if not x.shape[1]:
            return real, x.new_zeros(real.shape)
        state = x.new_zeros(x.shape[0], self.cell.hidden_size)
        selected, logits = [], []
        for i in range(x.shape[1]):
            token, here = x[:, i], real[:, i]
            logit = working(self.network(torch.cat([state, token], -1))[:, 0])  # eq. 22
            z = decide(logit, here, None if noise is None else noise[:, i])  # eq. 23
            moved = self.cell(torch.cat([token, z[:, None].to(token)], -1), state)  # eq. 24, 25
            state = torch.where(here[:, None], moved.to(state), state)
            selected.append(z)
            logits.append(logit)
        return torch.stack(selected, 1), torch.stack(logits, 1)
