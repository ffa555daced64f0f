"""Rivals in FlexAttention (Dong et al. 2024): flash attention whose masks and scores are functions.

It trains on GPUs only; there torch.compile makes one kernel for each length.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from selfattn.masks import PositionalMask
from selfattn.ops.common.operators import offsets

from .dot_product import Explicit


class FlexDot(Explicit):
    """``Explicit`` as one kernel."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, padding_mask: Tensor | None) -> Tensor:
        """``(B, H, T, D)`` three times -> ``(B, H, T, D)``."""
        return _attend(q, k, v, self.masks, padding_mask)


def flex_mtsa(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    *,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None = None,
    sigma_t: str = "identity",
) -> Tensor:
    """MTSA's equation 11 as dot-product attention; arguments as for ``selfattn.ops.mtsa``.

    The row sums of the softmax cancel in the ratio of its products with ``[v e, e]``, e = exp(s).
    Here e is relative to the largest s of all keys, seen or not: a query that sees only small ones
    loses precision, and in float16 everything. ``selfattn.ops.mtsa`` finds and redoes these.
    """
    if padding_mask is not None:
        s = s.masked_fill(padding_mask[:, None, :, None], -torch.inf)
    largest = s.amax(2, keepdim=True).clamp_min(torch.finfo(s.dtype).min).detach()
    e = torch.exp((s - largest).float())
    values = torch.cat([v * e, e], -1).to(v.dtype)  # (B, H, T, 2 D)
    score = _logsigmoid if sigma_t == "logsigmoid" else None
    num, den = _attend(q, k, values, masks, padding_mask, score).chunk(2, -1)
    return num / torch.where(den > 0, den, 1.0)


def _logsigmoid(score: Tensor, *_: Tensor) -> Tensor:
    return F.logsigmoid(score)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    masks: Sequence[PositionalMask] | None,
    padding_mask: Tensor | None,
    score: Callable[..., Tensor] | None = None,
) -> Tensor:
    blocks = None
    if masks is not None or padding_mask is not None:
        make = _kept_blocks if padding_mask is None else _blocks
        kept = None if masks is None else tuple(masks)
        blocks = make(kept, padding_mask, q.shape[2], q.device)
    out: Tensor = _flex(q.device.type)(q, k, v, score_mod=score, block_mask=blocks)
    return out


@functools.cache
def _flex(device: str) -> Callable[..., Any]:
    if device == "cpu":
        return flex_attention
    # A kernel for each length; without fullgraph the limit would fall back to a T x T matrix.
    torch._dynamo.config.recompile_limit = 256
    return torch.compile(flex_attention, dynamic=False, fullgraph=True)


def _blocks(
    masks: tuple[PositionalMask, ...] | None,
    padding_mask: Tensor | None,
    length: int,
    device: torch.device,
) -> BlockMask:
    left, right = (
        (None, None)
        if masks is None
        else (torch.tensor(ends, device=device) for ends in offsets(masks))
    )

    def visible(b: Tensor, h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        seen = key >= 0
        if left is not None and right is not None:
            seen = (key - query >= left[h]) & (key - query <= right[h])
        return seen if padding_mask is None else seen & ~padding_mask[b, key]

    batch = None if padding_mask is None else len(padding_mask)
    heads = None if masks is None else len(masks)
    return create_block_mask(visible, batch, heads, length, length, device=str(device))


_kept_blocks = functools.lru_cache(maxsize=32)(_blocks)
