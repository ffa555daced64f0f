"""The dropout factors of the kernels as whole tensors: for tests and for a look at them."""

from __future__ import annotations

import torch
from torch import Tensor

from selfattn.ops.mtsa.fused import configs


def keep_probability(dropout_p: float) -> float:
    """Probability of keeping each of the two factors of the numerator (MTSA appendix A.3)."""
    return float((1.0 - dropout_p) ** 0.5)


def threshold(dropout_p: float) -> int:
    """What 31 random bits must stay below for a factor to be kept."""
    return int(keep_probability(dropout_p) * (1 << 31)) if dropout_p else 0


def dropped_values(v: Tensor, seed: Tensor, dropout_p: float) -> Tensor:
    """v ``(B, H, T, D)`` with 0 where its factor is 0, not scaled: so it stays exact."""
    from selfattn.ops.mtsa.fused.prepare import drop_kernel

    batch, heads, length, width = v.shape
    rows = configs.PREPARE_ROWS
    out = empty_heads(v)
    with torch.cuda.device_of(v):
        drop_kernel[(batch * heads * -(-length // rows),)](
            v, out, seed, *v.stride()[:3], heads, length, threshold(dropout_p),
            DV=width, SV=configs.padded(width), ROWS=rows,
        )  # fmt: skip
    return out


def empty_heads(like: Tensor) -> Tensor:
    """Empty ``(B, H, T, D)`` whose heads lie side by side in memory, as ``join_heads`` wants."""
    batch, heads, length, width = like.shape
    shape = (batch, length, heads, width)
    return torch.empty(shape, dtype=like.dtype, device=like.device).transpose(1, 2)


def dropout_factors(
    seed: Tensor, shape: tuple[int, int, int, int], dropout_p: float
) -> tuple[Tensor, Tensor]:
    """What the kernels multiply with, made by the same function on the device of the seed.

    Args:
        seed: int64 ``(1,)``.
        shape: ``(B, H, T, D)`` of v.
        dropout_p: attention dropout.

    Returns:
        The factor on (query, key) pairs ``(B, H, T, T)`` and the one on (key, feature) pairs
        ``(B, H, T, D)``, float32.
    """
    from selfattn.ops.mtsa.fused.prepare import factor_kernel

    batch, heads, length, width = shape
    found = []
    for stream, columns in ((0, length), (1, width)):
        factor = torch.empty(batch, heads, length, columns, device=seed.device)
        with torch.cuda.device_of(seed):
            factor_kernel[(batch * heads * length,)](
                seed, factor, length, columns, threshold(dropout_p),
                1 / keep_probability(dropout_p), STREAM=stream, SIZE=64,
            )  # fmt: skip
        found.append(factor)
    return found[0], found[1]
