"""Pools that learn nothing: the maximum and the mean of a sentence's tokens."""

from __future__ import annotations

from torch import Tensor, nn

from selfattn.errors import UserError
from selfattn.layers.base import zero_padding
from selfattn.masks import check_padding_mask

POOLS = ("source2token", "max", "mean")


class PlainPool(nn.Module):
    """The maximum or the mean over the real tokens of each feature.

    Args:
        kind: ``"max"`` or ``"mean"``.

    Raises:
        UserError: if it is another.
    """

    def __init__(self, kind: str) -> None:
        super().__init__()
        if kind not in ("max", "mean"):
            raise UserError(f"pool {kind!r} is unknown; allowed are {', '.join(POOLS)}")
        self.kind = kind

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """``(B, T, w)`` -> ``(B, w)``; 0 for a sentence without a real token."""
        check_padding_mask(padding_mask, x.shape[:2])
        if not x.shape[1]:
            return x.sum(1)
        if padding_mask is None:
            return x.amax(1) if self.kind == "max" else x.mean(1)
        if self.kind == "mean":
            count = (~padding_mask).sum(1, keepdim=True).clamp_min(1)
            return zero_padding(x, padding_mask).sum(1) / count
        y = x.masked_fill(padding_mask[..., None], float("-inf")).amax(1)
        return y.masked_fill(padding_mask.all(1, keepdim=True), 0.0)

    def extra_repr(self) -> str:
        """The kind, for ``print(module)``."""
        return self.kind
