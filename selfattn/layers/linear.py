"""A linear map of its own for each head."""

import torch
from torch import Tensor, nn


class PerHeadLinear(nn.Module):
    """``y[h] = x[h] W[h] + b[h]`` for every head h, in one batched matrix product.

    Args:
        num_heads: number of heads H.
        inputs: input width D of a head.
        outputs: output width E of a head.
        bias: whether to add a bias.
        gain: gain of the Xavier uniform initialisation, which sees one head's matrix at a time.
    """

    def __init__(
        self, num_heads: int, inputs: int, outputs: int, bias: bool = True, gain: float = 1.0
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_heads, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(num_heads, outputs)) if bias else None
        for weight in self.weight:
            nn.init.xavier_uniform_(weight, gain)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, H, T, D)`` -> ``(B, H, T, E)``."""
        return map_heads(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes that ``print(module)`` shows."""
        heads, inputs, outputs = self.weight.shape
        return (
            f"num_heads={heads}, inputs={inputs}, outputs={outputs}, bias={self.bias is not None}"
        )


def is_plain(linear: nn.Module) -> bool:
    """Whether a call of a linear map is its product and no more: no adapter, hook or offloading."""
    if type(linear) not in (nn.Linear, PerHeadLinear):
        return False
    return "forward" not in linear.__dict__ and not has_hooks(linear)  # a graph knows no vars()


def has_hooks(module: nn.Module) -> bool:
    """Whether a call of a module, or its gradient, calls more than the module."""
    forward = module._forward_hooks or module._forward_pre_hooks
    return bool(forward or module._backward_hooks or module._backward_pre_hooks)


def map_heads(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``x W + b`` for each head: ``(B, H, T, D)``, ``(H, D, E)`` and ``(H, E)``."""
    batch, heads, length, width = x.shape
    rows = x.transpose(0, 1).reshape(heads, batch * length, width)  # (H, B * T, D)
    # (H, B * T, E)
    y = torch.bmm(rows, weight) if bias is None else torch.baddbmm(bias[:, None], rows, weight)
    return y.unflatten(1, (batch, length)).transpose(0, 1)  # (B, H, T, E)
