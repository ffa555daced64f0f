"""Places of tokens, and sinusoidal positions, added to the input of a Transformer."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def places(x: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Each token's place in its sentence, from 0, on whichever side the padding is.

    Args:
        x: a batch ``(B, T, ...)``.
        padding_mask: bool ``(B, T)``, True = padding, or None.

    Returns:
        ``(B, T)``, or ``(1, T)`` without a mask. What it holds at padding has no meaning.
    """
    if padding_mask is None:
        return torch.arange(x.shape[1], device=x.device)[None]
    return ((~padding_mask).cumsum(1) - 1).clamp_min(0)


def sines(position: Tensor, width: int) -> Tensor:
    """Sines in one half of the features, cosines in the other (Vaswani et al. 2017, section 3.5).

    Args:
        position: numbers of positions ``(...)``.
        width: number of features.

    Returns:
        ``(..., width)``; wavelengths from 2 pi to 20,000 pi.
    """
    half = width // 2
    # Not torch's default dtype, which may be a half.
    steps = torch.arange(half, device=position.device, dtype=torch.float32)
    rates = steps * (-math.log(10_000) / max(half - 1, 1))
    angles = position[..., None] * rates.exp()
    signal = torch.cat([angles.sin(), angles.cos()], -1)
    return F.pad(signal, (0, width - 2 * half))
