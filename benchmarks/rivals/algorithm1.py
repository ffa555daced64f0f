"""MTSA as its Algorithm 1 says: what the operators of this project replace."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.layers.base import join_heads, split_heads, xavier_linear, zero_padding
from selfattn.masks import PositionalMask, head_masks

Operator = Callable[..., Tensor]


def algorithm1(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    s: Tensor,
    *,
    masks: Sequence[PositionalMask],
    padding_mask: Tensor | None = None,
    sigma_t: str = "identity",
) -> Tensor:
    """MTSA's Algorithm 1 line by line; arguments and shapes as for ``selfattn.ops.mtsa``.

    A ``T x T`` matrix per head, its exponential without a shift (it overflows where a score passes
    about 88 in float32), and the masks multiplied with it.
    """
    length = q.shape[2]
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if sigma_t == "logsigmoid":
        scores = F.logsigmoid(scores)
    visible = torch.stack([mask.allowed(length, q.device) for mask in masks])
    token2token = torch.exp(scores) * visible.to(scores.dtype)
    source2token = torch.exp(s)
    if padding_mask is not None:
        source2token = source2token * ~padding_mask[:, None, :, None]
    denominator = token2token @ source2token
    numerator = token2token @ (v * source2token)
    return numerator / torch.where(denominator > 0, denominator, torch.ones_like(denominator))


class AlgorithmOneLayer(nn.Module):
    """The maps of MTSA's preset ``srl`` around an operator with the arguments of ``algorithm1``."""

    def __init__(self, embed_dim: int, heads: int, operator: Operator = algorithm1) -> None:
        super().__init__()
        self.heads = heads
        self.operator = operator
        self.masks = head_masks("forward_backward", heads)
        self.maps = nn.ModuleList(xavier_linear(embed_dim, embed_dim) for _ in "qkvs")
        self.out = xavier_linear(embed_dim, embed_dim)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, C)``."""
        q, k, v, s = (split_heads(linear(x), self.heads) for linear in self.maps)
        context = self.operator(q, k, v, s, masks=self.masks, padding_mask=padding_mask)
        return zero_padding(self.out(join_heads(context)), padding_mask)
