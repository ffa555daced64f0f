"""Decay attention, made up for a test: a softmax over how far away a key is, and nothing else."""

import torch
from torch import Tensor


def decay_reference(
    v: Tensor, padding_mask: Tensor | None, rate: float, queries: slice = slice(None)
) -> Tensor:
    """``y_j = sum_i p_ij v_i``, p the softmax over the visible i of ``-rate |i - j|``.

    Args:
        v: values ``(B, T, C)``.
        padding_mask: bool ``(B, T)``, True = padding, or None.
        rate: how fast a key fades, for each token.
        queries: which j.

    Returns:
        ``(B, queries, C)``; 0 for a padded query.
    """
    length = v.shape[1]
    hidden = v.new_zeros(v.shape[:2], dtype=torch.bool) if padding_mask is None else padding_mask
    place = torch.arange(length, device=v.device)
    score = -rate * (place[queries, None] - place).abs().to(v.dtype)  # (queries, T)
    score = score.masked_fill(hidden[:, None], -1e30)  # (B, queries, T): all alike if none is seen
    p = torch.softmax(score, -1).masked_fill(hidden[:, None], 0.0)
    v = v.masked_fill(hidden[..., None], 0.0)
    return (p @ v).masked_fill(hidden[:, queries, None], 0.0)
