"""Dot-product attention: the reference of all ratios, its slow form, and its directed form."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from selfattn.layers.base import join_heads, split_heads
from selfattn.masks import PositionalMask, head_masks
from selfattn.ops.dot_product import strictly_directed


class TorchMultiHead(nn.Module):
    """``torch.nn.MultiheadAttention`` on one input, the reference of all ratios.

    With ``need_weights``, its own default, it builds a ``T x T`` matrix per head.
    """

    def __init__(self, embed_dim: int, heads: int, need_weights: bool = False) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(embed_dim, heads, batch_first=True)
        self.need_weights = need_weights

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, C)``."""
        y: Tensor = self.attention(
            x, x, x, key_padding_mask=padding_mask, need_weights=self.need_weights
        )[0]
        return y


class MultiHeadAround(nn.Module):
    """The maps of ``nn.MultiheadAttention`` around an operator on queries, keys and values."""

    def __init__(self, embed_dim: int, heads: int, operator: nn.Module) -> None:
        super().__init__()
        self.heads = heads
        self.attention = nn.MultiheadAttention(embed_dim, heads, batch_first=True)
        self.operator = operator

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, C)``."""
        joint = F.linear(x, self.attention.in_proj_weight, self.attention.in_proj_bias)
        q, k, v = (split_heads(part, self.heads) for part in joint.chunk(3, -1))
        y: Tensor = self.attention.out_proj(join_heads(self.operator(q, k, v, padding_mask)))
        return y


class Undirected(nn.Module):
    """``scaled_dot_product_attention`` on ``(B, H, T, D)``.

    Args:
        backend: in half precision on a GPU, where torch would choose between flash and cuDNN.
    """

    def __init__(self, backend: SDPBackend = SDPBackend.FLASH_ATTENTION) -> None:
        super().__init__()
        self.backend = backend

    def forward(self, q: Tensor, k: Tensor, v: Tensor, padding_mask: Tensor | None) -> Tensor:
        """Attend as in ``Explicit``, which has the formula."""
        if padding_mask is None:
            with _kernel(q, self.backend):
                return F.scaled_dot_product_attention(q, k, v)
        visible = ~padding_mask[:, None, None, :]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=visible)


class Directed(nn.Module):
    """Dot-product attention under MTSA's masks: half of the heads forward, half backward, strict.

    A strict forward direction is causal attention of each query on the keys before it, and a strict
    backward direction the same on reversed tensors, so that no mask tensor is needed. Queries
    without a visible key give 0.
    """

    def forward(self, q: Tensor, k: Tensor, v: Tensor, padding_mask: Tensor | None) -> Tensor:
        """Attend as in ``Explicit``, which has the formula."""
        masks = head_masks("forward_backward", q.shape[1])
        with _kernel(q, SDPBackend.FLASH_ATTENTION):
            return strictly_directed(q, k, v, masks, padding_mask)


def _kernel(q: Tensor, backend: SDPBackend) -> AbstractContextManager[None]:
    half = q.is_cuda and q.dtype != torch.float32  # elsewhere neither flash nor cuDNN runs
    return sdpa_kernel(backend) if half else nullcontext()


class Explicit(nn.Module):
    """softmax(q k^T / sqrt(D)) v over the visible keys, written out, to compare the others with.

    Without masks, every key is visible.
    """

    def __init__(self, masks: Sequence[PositionalMask] | None = None) -> None:
        super().__init__()
        self.masks = masks

    def forward(self, q: Tensor, k: Tensor, v: Tensor, padding_mask: Tensor | None) -> Tensor:
        """``(B, H, T, D)`` three times -> ``(B, H, T, D)``."""
        batch, heads, length, width = q.shape
        visible = torch.ones(batch, heads, length, length, dtype=torch.bool)
        if self.masks is not None:
            visible = visible & torch.stack([mask.allowed(length) for mask in self.masks])
        if padding_mask is not None:
            visible = visible & ~padding_mask[:, None, None, :]
        scores = (q @ k.transpose(-1, -2)) / width**0.5
        weights = torch.where(visible, torch.exp(scores - scores.amax(-1, keepdim=True)), 0.0)
        total = weights.sum(-1, keepdim=True)
        return (weights @ v) / torch.where(total > 0, total, 1.0)
