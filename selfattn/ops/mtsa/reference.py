"""The slow, obvious form of MTSA: equation 11 as printed, with its n x n x d tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from selfattn.masks import PositionalMask
from selfattn.ops._distance import by_position
from selfattn.ops.mtsa.tiling import draw_seed, dropout_factors


def mtsa_reference(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None,
    sigma_t: str,
    dropout_p: float,
    distance_bias: Tensor | None = None,
) -> Tensor:
    """Equations 8 and 10-12 of the MTSA paper, feature by feature; arguments as in ``mtsa``.

    Half precision is computed in float32. Memory is O(B H T^2 D): for tests and small examples.
    """
    length = q.shape[2]
    work = q.dtype if q.dtype == torch.float64 else torch.float32
    q64, k64, v64, s64 = (t.to(work) for t in (q, k, v, s))
    visible = torch.stack([m.allowed(length, q.device) for m in masks])[None]  # (1, H, T, T)
    if padding_mask is not None:
        hidden = padding_mask[:, None, :, None]
        k64, v64, s64 = (t.masked_fill(hidden, 0.0) for t in (k64, v64, s64))
        visible = visible & ~padding_mask[:, None, None, :]
    visible = visible[..., None]  # (B, H, query, key, 1)

    token2token = q64 @ k64.transpose(-1, -2) * q.shape[-1] ** -0.5  # eq. 8
    if sigma_t == "logsigmoid":
        token2token = F.logsigmoid(token2token)
    if distance_bias is not None:
        token2token = token2token + by_position(distance_bias.to(work))
    score = token2token[..., None] + s64[:, :, None]  # eq. 10, (B, H, T, T, D)
    # Rows without a visible key: softmax over an arbitrary finite row, then weight 0, so that
    # neither the forward nor the backward pass meets 0 / 0 or inf - inf.
    alive = visible.any(-2, keepdim=True)
    score = score.masked_fill(~visible & alive, float("-inf"))
    p = torch.softmax(score, -2) * alive  # eq. 11
    if dropout_p:
        rows, keys = dropout_factors(q, v, masks, dropout_p, draw_seed())
        p = p * rows[..., None] * keys[:, :, None]
    return (p * v64[:, :, None]).sum(-2).to(q.dtype)  # eq. 12
