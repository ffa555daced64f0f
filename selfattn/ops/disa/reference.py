"""The textbook form of DiSA: equations 9 and 10 as printed, with their n x n x d tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from selfattn.masks import PositionalMask
from selfattn.ops._distance import by_position
from selfattn.ops.disa.tiling import dropout_factors
from selfattn.ops.mtsa.tiling import draw_seed


def disa_reference(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None,
    c: float,
    dropout_p: float,
    hidden_keys: Tensor | None = None,
    distance_bias: Tensor | None = None,
) -> Tensor:
    """Equations 9 and 10 of the Bi-BloSAN paper; arguments as in ``disa``.

    ``padding_mask`` hides queries, and keys unless ``hidden_keys`` says which of them are hidden.
    Half precision is computed in float32. Memory is O(B T^2 C): for tests and as the baseline of
    benchmarks.
    """
    length, groups = x.shape[1], len(masks)
    work = torch.float64 if x.dtype == torch.float64 else torch.float32
    values, keys, queries = (t.to(work) for t in (x, a, b))
    visible = torch.stack([m.allowed(length, x.device) for m in masks], -1)[None]  # (1, T, T, G)
    if padding_mask is not None:
        hidden = padding_mask[..., None]
        unseen = hidden if hidden_keys is None else hidden_keys[..., None]
        values, keys = (t.masked_fill(unseen, 0.0) for t in (values, keys))
        queries = queries.masked_fill(hidden, 0.0)
        visible = visible & ~unseen[:, None] & ~hidden[:, :, None]
    # (B, query, key, G, C / G) from here on
    values, keys, queries = (t.unflatten(-1, (groups, -1)) for t in (values, keys, queries))
    score = c * torch.tanh((keys[:, None] + queries[:, :, None]) / c)  # eq. 9
    if distance_bias is not None:
        score = score + by_position(distance_bias.to(work)).movedim(0, -1)[..., None]
    # A query without a visible key gets a softmax over all keys, finite in both passes, and its
    # output is then set to zero.
    alive = visible.any(2, keepdim=True)
    score = score.masked_fill((~visible & alive)[..., None], float("-inf"))  # eq. 10
    p = torch.softmax(score, 2)
    if dropout_p:
        pairs, scales = dropout_factors(
            x.detach().to(work),
            masks,
            padding_mask,
            dropout_p,
            draw_seed(),
            hidden_keys,
            apart=distance_bias is not None,
        )
        p = p * pairs.movedim(1, -1)[..., None]
        values = values * scales.unflatten(-1, (groups, -1))
    out = (p * values[:, None]).sum(2).masked_fill(~alive[:, :, 0, :, None], 0.0)
    return out.flatten(-2).to(x.dtype)
