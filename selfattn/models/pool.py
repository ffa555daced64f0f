"""Pools over a sentence's tokens by name."""

from __future__ import annotations

from torch import Tensor, nn

from ..errors import UserError
from ..layers.base import working, zero_padding
from ..layers.source2token import Source2Token
from ..masks import check_padding_mask

POOLS = ("source2token", "max", "mean")


def build_pool(
    kind: str, width: int, activation: str = "relu", dropout: float = 0.0
) -> Source2Token | PlainPool:
    """A pool ``(B, T, width)`` -> ``(B, width)``.

    Args:
        kind: a name in ``POOLS``; the others than ``source2token`` learn nothing.
        width: features.
        activation: of source2token, a name in ``selfattn.config.ACTIVATIONS``.
        dropout: on the input of its linear maps.

    Raises:
        UserError: if a name is unknown.
    """
    if kind == "source2token":
        return Source2Token(width, activation_name=activation, dropout=dropout)
    return PlainPool(kind)


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
            return (working(zero_padding(x, padding_mask)).sum(1) / count).to(x.dtype)
        y = x.masked_fill(padding_mask[..., None], float("-inf")).amax(1)
        return y.masked_fill(padding_mask.all(1, keepdim=True), 0.0)

    def extra_repr(self) -> str:
        """The kind, for ``print(module)``."""
        return self.kind
