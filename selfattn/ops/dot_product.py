"""Dot-product attention under positional masks and a bias by distance, for all heads at once.

Without masks and bias it is PyTorch's operator, but for dropout on a CPU. Everything else is the
operator of MTSA with source2token scores of 0, where every feature has the softmax of the dot
products. Only on a GPU, with dropout or where MTSA has no fast kernel, a strict direction is causal
attention of every query on the keys before it (or after it, on reversed tensors), for which
PyTorch's kernels compute half of the pairs.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from ..masks import PositionalMask, visible_pairs
from .common import dispatch
from .common.distance import by_position
from .common.tiling import runs, with_graph
from .mtsa import mtsa


def dot_product(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None = None,
    distance_bias: Tensor | None = None,
    dropout_p: float = 0.0,
) -> Tensor:
    """``softmax(q k^T / sqrt(D) + bias + M) v`` over the visible keys (Vaswani et al. 2017, eq. 1).

    Memory is linear in T, but for dropout under windows or a bias on a GPU.

    Args:
        q: queries ``(B, H, T, D)``.
        k: keys ``(B, H, T, D)``.
        v: values ``(B, H, T, D)``.
        masks: one for each head.
        padding_mask: bool ``(B, T)``, True = padding.
        distance_bias: ``(H, T)``, finite; added to the score of a key at that distance.
        dropout_p: probability of dropping a weight; drawn from torch's global generator.

    Returns:
        ``(B, H, T, D)``. A query without a visible key gives exactly 0; only without masks and bias
        a sentence of padding only sees itself.
    """
    if distance_bias is None and all(mask.offsets == (None, None) for mask in masks):
        if not (dropout_p and q.device.type == "cpu" and _has_kernel(q, k, v)):
            visible = None if padding_mask is None else not_padding(padding_mask)
            return F.scaled_dot_product_attention(q, k, v, attn_mask=visible, dropout_p=dropout_p)
        if padding_mask is not None:
            padding_mask = ~not_padding(padding_mask)[:, 0, 0]  # (B, T)
    if not v.numel():
        return with_graph(v, q, k, distance_bias)
    strict = distance_bias is None and all(
        m.direction != "none" and m.window is None and not m.include_self for m in masks
    )
    drops = dropout_p and q.device.type != "cpu"  # there MTSA's kernel does
    if strict and (drops or (q.is_cuda and not _fast_on_gpu(q, k, v))):
        return strictly_directed(q, k, v, masks, padding_mask, dropout_p)
    if drops:
        return _with_matrix(q, k, v, masks, padding_mask, distance_bias, dropout_p)
    return mtsa(
        q, k, v, v.new_zeros(*v.shape[:-1], 1),
        masks=masks, padding_mask=padding_mask, dropout_p=dropout_p, distance_bias=distance_bias,
    )  # fmt: skip


def _fast_on_gpu(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether MTSA's kernel was faster than causal attention, which copies all that it reverses."""
    return q.dtype is torch.bfloat16 and _has_kernel(q, k, v)


def _has_kernel(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether MTSA has a fast kernel for these tensors."""
    if not q.dtype == k.dtype == v.dtype or dispatch.unfit(q):
        return False
    return dispatch.refusal("mtsa", q.device.type, q.dtype, q.shape[-1], v.shape[-1]) is None


def not_padding(padding_mask: Tensor) -> Tensor:
    """Visible keys ``(B, 1, 1, T)``: a sentence of padding only sees itself, to avoid NaN."""
    empty = padding_mask.all(1, keepdim=True)
    return (~padding_mask | empty)[:, None, None, :]


def strictly_directed(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None,
    dropout_p: float = 0.0,
) -> Tensor:
    """Heads that see what is strictly before them, or strictly after them: causal attention.

    Padding has no mask, which excludes causal attention in PyTorch: a further feature, 1 in every
    query and hugely negative in padded keys, takes their weight to exactly 0.

    The masks are forward or backward, without window and without itself; for the rest see
    ``dot_product``.
    """
    width = q.shape[-1]
    if padding_mask is not None:
        q, k, v = _with_padding_feature(q, k, v, padding_mask)
    parts = []
    for direction, which in runs([mask.direction for mask in masks]):
        heads = [t[:, which] for t in (q, k, v)]
        if direction == "backward":
            heads = [t.flip(2) for t in heads]
        seen = F.scaled_dot_product_attention(
            heads[0][:, :, 1:], heads[1][:, :, :-1], heads[2][:, :, :-1],
            is_causal=True, dropout_p=dropout_p, scale=width**-0.5,
        )  # fmt: skip
        seen = F.pad(seen, (0, 0, 1, 0))  # the first query sees nothing
        parts.append(seen.flip(2) if direction == "backward" else seen)
    y = torch.cat(parts, 1)[..., :width]
    if padding_mask is None:
        return y
    empty = {mask: mask.visible_keys(padding_mask) == 0 for mask in set(masks)}
    return y.masked_fill(torch.stack([empty[mask] for mask in masks], 1)[..., None], 0.0)


def _with_padding_feature(
    q: Tensor, k: Tensor, v: Tensor, padding_mask: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Eight features more, a multiple that kernels like; the first makes padded keys invisible."""
    large, factor = (2.0**15, 2.0**7) if q.dtype is torch.float16 else (1e30, 1.0)
    first = torch.zeros(8, dtype=q.dtype, device=q.device)
    first[0] = 1.0
    more_q = (factor * first).expand(*q.shape[:-1], 8)  # (B, H, T, 8)
    hidden = padding_mask[:, None, :, None].to(k.dtype) * (-large * first)
    more_k = hidden.expand(*k.shape[:-1], 8)  # (B, H, T, 8)
    more_v = torch.zeros_like(more_q)
    return torch.cat([q, more_q], -1), torch.cat([k, more_k], -1), torch.cat([v, more_v], -1)


def _with_matrix(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None,
    distance_bias: Tensor | None,
    dropout_p: float,
) -> Tensor:
    """With the masks of all heads as one matrix; a query that sees nothing is cleared after."""
    visible = visible_pairs(masks, q.shape[2], padding_mask, q.device)
    empty = ~visible.any(-1, keepdim=True)
    matrix = visible | empty
    if distance_bias is not None:
        bias = by_position(distance_bias).to(q.dtype)
        matrix = torch.where(matrix, bias, torch.full_like(bias, float("-inf")))
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=matrix, dropout_p=dropout_p)
    return y.masked_fill(empty, 0.0)
