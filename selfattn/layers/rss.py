"""Reinforced sequence sampling: all tokens of a sentence are selected at once."""

import torch
from torch import Tensor

from .base import working
from .selection import Sampler, decide


class RSS(Sampler):
    """``p(z | x) = prod_i p(z_i | x)`` (ReSAN, Shen et al. 2018, IJCAI, eq. 5-7).

    ``p(z_i = 1 | x) = sigmoid(w act(W f_i + b) + b')`` with ``f_i = [x_i; m; x_i * m]`` and m the
    mean of the sentence.

    Arguments are those of ``Sampler``.

    Example:
        >>> selection = RSS(64, 64)(torch.randn(2, 7, 64))
        >>> selection.selected.shape, selection.log_probability.shape
        (torch.Size([2, 7]), torch.Size([2]))
    """

    def features(self, width: int, hidden: int) -> int:
        return 3 * width

    def choose(self, x: Tensor, real: Tensor, noise: Tensor | None) -> tuple[Tensor, Tensor]:
        count = real.sum(1, keepdim=True).clamp_min(1)[..., None]
        mean = (working(x).sum(1, keepdim=True) / count).to(x.dtype).expand_as(x)
        features = torch.cat([x, mean, x * mean], -1)  # eq. 6
        logits = working(self.network(features)[..., 0])  # eq. 7
        return decide(logits, real, noise), logits
