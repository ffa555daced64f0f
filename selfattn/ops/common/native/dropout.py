"""The dropout factors of ``rng.h`` as whole tensors, for tests and second derivatives."""

from collections.abc import Sequence

import torch
from torch import Tensor

# Streams of rng.h.
PAIRS, FEATURES = 0, 1


def factors(lines: Sequence[int], count: int, stream: int, keep: float, seed: int) -> Tensor:
    """The factors that C draws for lines of that shape, ``(*lines, count)`` in float32."""
    line = torch.arange(torch.Size(lines).numel(), device="cpu")
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
    x = (x ^ (x >> 16)) * 0x85EBCA6B & 0xFFFFFFFF  # int64 wraps, and keeps these bits
    x = (x ^ (x >> 13)) * 0xC2B2AE35 & 0xFFFFFFFF
    return x ^ (x >> 16)
