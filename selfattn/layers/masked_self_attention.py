"""Masked self-attention: DiSA's two projections and its operator, without map and gate."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ..config.base import BACKENDS
from ..config.disa import DiSAConfig
from ..errors import check_choice, check_integer, check_rate
from ..masks import PositionalMask, as_masks, check_selections, visible_pairs
from ..ops.common.autograd import has_values
from ..ops.common.distance import by_position
from ..ops.disa import check_c, disa
from .base import check_tokens, join_heads, split_heads, working, zero_padding
from .distance import distance_bias
from .dropout import Dropout
from .inspection import visible_softmax
from .linear import PerHeadLinear


class MaskedSelfAttention(nn.Module):
    """``s_j = sum_i p_i x_i``, p the softmax over i of ``c tanh([W1 x_i + W2 x_j + b1] / c) + M``.

    Equations 9 and 10 of the Bi-BloSAN paper (BB, Shen et al. 2018), scores and softmax per
    feature; DiSA, Bi-BloSA and ReSA are built on it.

    Args:
        masks: positional mask of each of H heads.
        width: features D of a head.
        c: scores lie in ``(-c, c)``; no unit.
        dropout: dropout on the input of both projections, drawn once; values are not dropped.
        attention_dropout: see ``selfattn.ops.disa``.
        distance: ``"none"``, or what ``DistanceBias`` takes.
        backend: see ``selfattn.ops.disa``.

    Raises:
        UserError: if c or a rate is out of range, or the distance or the backend unknown.
    """

    def __init__(
        self,
        masks: Sequence[PositionalMask],
        width: int,
        *,
        c: float = 5.0,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        distance: str = "none",
        backend: str = "auto",
    ) -> None:
        super().__init__()
        check_c(c)
        self.masks = as_masks(masks)
        self.width = check_integer("width", width)
        self.c = c
        self.attention_dropout = check_rate("attention_dropout", attention_dropout)
        self.distance = distance_bias(self.masks, distance)
        check_choice("backend", backend, BACKENDS)
        self.backend = backend
        self.dropout = Dropout(check_rate("dropout", dropout))
        heads = len(self.masks)
        self.k_proj = PerHeadLinear(heads, width, width, bias=False)  # W1
        self.q_proj = PerHeadLinear(heads, width, width)  # W2 and b1

    @classmethod
    def of(
        cls, config: DiSAConfig, masks: Sequence[PositionalMask], width: int
    ) -> "MaskedSelfAttention":
        """What a configuration says; other arguments as of the class."""
        return cls(
            masks,
            width,
            c=config.c,
            dropout=config.dense_dropout,
            attention_dropout=config.attention_dropout,
            distance=config.distance,
            backend=config.backend,
        )

    def forward(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        queries: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Tensor:
        """Attend.

        Args:
            x: ``(B, T, H * D)``, head after head.
            padding_mask: bool ``(B, T)``, True = padding.
            queries: bool ``(B, T)``, the tokens that attend; None: all.
            keys: bool ``(B, T)``, the tokens that may be attended to; None: all.

        Returns:
            ``(B, T, H * D)``; 0 at padding, at other tokens than queries, and where a query sees
            no key.

        Raises:
            UserError: if x is not ``(B, T, H * D)``, or as ``selfattn.ops.disa``.
        """
        x = self._checked(x, padding_mask, queries, keys)
        a, b = self.project(x, queries, keys)
        return disa(
            x,
            a,
            b,
            masks=self.masks,
            padding_mask=padding_mask,
            queries=queries,
            keys=keys,
            c=self.c,
            dropout_p=self.attention_dropout if self.training else 0.0,
            distance_bias=None if self.distance is None else self.distance(x),
            backend=self.backend,
        )

    def _checked(
        self, x: Tensor, padding_mask: Tensor | None, queries: Tensor | None, keys: Tensor | None
    ) -> Tensor:
        """x with 0 at padding, whatever is there, also NaN."""
        check_tokens(x, len(self.masks) * self.width)
        check_selections(x.shape[:2], queries=queries, keys=keys)
        return zero_padding(x, padding_mask)

    def project(
        self, x: Tensor, queries: Tensor | None = None, keys: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """``W1 x`` of the keys and ``W2 x + b1`` of the queries, ``(B, T, H * D)``.

        Other tokens get 0, or their own projections where the choice is not known in advance.
        Arguments are as in ``forward``.
        """
        x = self.dropout(x)
        return self._project(self.k_proj, x, keys), self._project(self.q_proj, x, queries)

    def _project(self, linear: nn.Module, x: Tensor, chosen: Tensor | None) -> Tensor:
        """Project the chosen tokens alone."""
        if chosen is None or not has_values(x):
            return join_heads(linear(split_heads(x, len(self.masks))))  # (B, T, H * D)
        rows = chosen.flatten().nonzero()[:, 0]  # (n,), of the B * T
        few = x.flatten(0, 1)[None, rows]  # (1, n, H * D)
        y = join_heads(linear(split_heads(few, len(self.masks))))[0]  # (n, H * D)
        return y.new_zeros(x.shape).flatten(0, 1).index_copy(0, rows, y).view(x.shape)

    def weights(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        queries: Tensor | None = None,
        keys: Tensor | None = None,
    ) -> Tensor:
        """Attention weights averaged over a head's features; arguments as in ``forward``.

        Returns:
            ``(B, H, T, T)``, [query, key]; a row sums to 1, or to 0 where the query sees no key.
        """
        x = self._checked(x, padding_mask, queries, keys)
        visible = visible_pairs(self.masks, x.shape[1], padding_mask, x.device)
        if queries is not None:
            visible = visible & queries[:, None, :, None]
        if keys is not None:
            visible = visible & keys[:, None, None, :]
        a, b = (split_heads(t, len(self.masks)) for t in self.project(x))  # (B, H, T, D)
        weights = working(torch.zeros_like(a[..., :1] + b[..., :1].transpose(-1, -2)))
        far = 0.0 if self.distance is None else by_position(self.distance(x))
        for key, query in zip(a.unbind(-1), b.unbind(-1), strict=True):  # T x T x D at no time
            score = self.c * torch.tanh((key[:, :, None] + query[..., None]) / self.c)  # eq. 9
            weights += visible_softmax(score + far, visible)
        return weights / a.shape[-1]

    def extra_repr(self) -> str:
        """What is not a submodule, for ``print(module)``."""
        return f"masks={self.masks}, c={self.c}, attention_dropout={self.attention_dropout}"
