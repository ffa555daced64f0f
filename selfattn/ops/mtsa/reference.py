"""The slow, obvious form of MTSA: equation 11 as printed, with its n x n x d tensor."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selfattn.masks import PositionalMask
from selfattn.ops.common.autograd import Call, Outputs
from selfattn.ops.common.distance import by_position


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
    work = q.dtype if q.dtype == torch.float64 else torch.float32
    bias = None if distance_bias is None else distance_bias.to(work)
    factors = None
    if dropout_p:  # appendix A.3
        keep = (1.0 - dropout_p) ** 0.5
        pairs = torch.rand(*q.shape[:3], q.shape[2], device=q.device) < keep
        features = torch.rand(v.shape, device=q.device) < keep
        factors = (pairs.to(work) / keep, features.to(work) / keep)
    wide = (q.to(work), k.to(work), v.to(work), s.to(work))
    out = equation(*wide, bias, padding_mask, masks, sigma_t, factors)
    return out.to(q.dtype)


def equation(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    bias: Tensor | None,
    padding: Tensor | None,
    masks: Sequence[PositionalMask],
    sigma_t: str,
    factors: Outputs | None = None,
    queries: slice = slice(None),
) -> Tensor:
    """The output at some queries, ``(B, H, queries, D)``.

    ``factors`` are those of dropout on (query, key) pairs ``(B, H, T, T)`` and on (key, feature)
    pairs ``(B, H, T, D)``; the other arguments are those of ``mtsa``.
    """
    visible = torch.stack([m.allowed(q.shape[2], q.device)[queries] for m in masks])[None]
    if padding is not None:
        hidden = padding[:, None, :, None]
        k, v, s = (t.masked_fill(hidden, 0.0) for t in (k, v, s))
        visible = visible & ~padding[:, None, None, :]
    visible = visible[..., None]  # (B, H, query, key, 1)

    token2token = q[:, :, queries] @ k.transpose(-1, -2) * q.shape[-1] ** -0.5  # eq. 8
    if sigma_t == "logsigmoid":
        token2token = F.logsigmoid(token2token)
    if bias is not None:
        token2token = token2token + by_position(bias)[:, queries]
    score = token2token[..., None] + s[:, :, None]  # eq. 10, (B, H, query, key, D)
    # Rows without a visible key: softmax over an arbitrary finite row, then weight 0, so that
    # neither the forward nor the backward pass meets 0 / 0 or inf - inf.
    alive = visible.any(-2, keepdim=True)
    score = score.masked_fill(~visible & alive, float("-inf"))
    p = torch.softmax(score, -2) * alive  # eq. 11
    if factors is not None:
        pairs, features = factors
        p = p * pairs[:, :, queries, :, None] * features[:, :, None]
    return (p * v[:, :, None]).sum(-2)  # eq. 12


@dataclass(frozen=True)
class MTSACall(Call, ABC):
    """What every kernel of MTSA computes.

    Inputs are q, k, v, s, the bias by distance, the padding and the seed.
    """

    masks: tuple[PositionalMask, ...]
    sigma_t: str
    dropout_p: float
    projections = 4

    def equation(self, inputs: Sequence[Any], factors: Outputs | None, queries: slice) -> Tensor:
        """See ``Call.equation``."""
        q, k, v, s, bias, padding, _ = inputs
        options = (self.masks, self.sigma_t, factors, queries)
        return equation(q, k, v, s, bias, padding, *options)
