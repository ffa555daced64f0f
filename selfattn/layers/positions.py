"""Positions without parameters: rotary ones and ALiBi."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..masks import PositionalMask
from .distance import powers_of

_BASE = 10_000.0


def rotate(x: Tensor) -> Tensor:
    """Turn pairs of features by angles that grow with the position (RoFormer, Su et al. 2021).

    Dot products of rotated queries and keys depend on their distance alone, so that padding on the
    left changes nothing but rounding.

    Args:
        x: queries or keys ``(B, H, T, D)``, D even.

    Returns:
        ``(B, H, T, D)`` in the dtype of x; computed in float32 or more.
    """
    length, width = x.shape[-2:]
    work = torch.promote_types(x.dtype, torch.float32)
    pair = torch.arange(width // 2, dtype=work, device=x.device)
    theta = _BASE ** (-2 * pair / width)  # section 3.2.2
    angle = torch.arange(length, dtype=work, device=x.device)[:, None] * theta
    first, second = x.to(work).unflatten(-1, (-1, 2)).unbind(-1)  # (B, H, T, D / 2)
    cos, sin = angle.cos(), angle.sin()
    turned = (first * cos - second * sin, second * cos + first * sin)  # eq. 34
    return torch.stack(turned, -1).flatten(-2).to(x.dtype)  # (B, H, T, D)


class Alibi(nn.Module):
    """``-m |i - j|`` with a fixed slope m for each head (ALiBi, Press et al. 2022, section 3).

    The slopes of n heads are ``2^(-8 k / n)``, k = 1 .. n. Nothing is learnt.

    Args:
        masks: positional mask of each head; heads with one direction share a range of slopes.

    Differs:
        The paper has decoders, which see keys before the query alone; here the cost is the same
        before and after it. For numbers of heads that are not powers of 2 the authors' code mixes
        two ranges; here the paper's formula serves all.
    """

    def __init__(self, masks: Sequence[PositionalMask]) -> None:
        super().__init__()
        # No buffer: it would have no values after "meta", and fewer digits after half().
        self.slopes = [2.0**power for power in powers_of(masks, 1)]

    def forward(self, x: Tensor) -> Tensor:
        """The bias by distance for tokens ``(..., T, C)``: ``(H, T)``, in float32 or more."""
        work = torch.promote_types(x.dtype, torch.float32)
        distance = torch.arange(x.shape[-2], dtype=work, device=x.device)
        return torch.stack([-slope * distance for slope in self.slopes])

    def extra_repr(self) -> str:
        """The sizes that ``print(module)`` shows."""
        return f"num_heads={len(self.slopes)}"
