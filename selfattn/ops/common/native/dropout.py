"""The dropout factors of ``rng.h`` as whole tensors, for tests and second derivatives."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..dropout import keep_probability

# Streams of rng.h.
PAIRS, FEATURES = 0, 1


def factors(lines: Sequence[int], count: int, stream: int, dropout_p: float, seed: int) -> Tensor:
    """The factors that C draws for lines of that shape, ``(*lines, count)`` in float32."""
    line, keep = torch.arange(torch.Size(lines).numel(), device="cpu"), keep_probability(dropout_p)
    low, high, golden = seed & 0xFFFFFFFF, seed >> 32, 0x9E3779B9
    a = _mix(_mix((line + stream * golden) & 0xFFFFFFFF) ^ low)
    b = _mix(_mix((line >> 32) ^ a) ^ high)
    key = a ^ b, _mix((a + golden) & 0xFFFFFFFF) ^ b
    column = torch.arange(count, device="cpu")
    drawn = _mix((_mix(column ^ key[0][:, None]) + key[1][:, None]) & 0xFFFFFFFF)
    threshold = int(line.new_tensor(keep, dtype=torch.float32).double() * 4294967296.0)
    return ((drawn < threshold).float() / keep).view(*lines, count)


def _mix(x: Tensor) -> Tensor:
    """The finaliser of MurmurHash3 on 32-bit numbers held in int64."""
    x = x ^ (x >> 16)
    x = _times(x, 0x85EBCA6B)
    x = x ^ (x >> 13)
    x = _times(x, 0xC2B2AE35)
    return x ^ (x >> 16)


def _times(x: Tensor, factor: int) -> Tensor:
    """A product modulo 2^32; in two halves, so that int64 does not overflow."""
    low = (x & 0xFFFF) * factor
    high = ((x >> 16) * factor & 0xFFFF) << 16
    return (low + high) & 0xFFFFFFFF
