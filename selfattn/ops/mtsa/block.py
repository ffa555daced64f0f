"""The factors of Algorithm 1 for one part of the input, and the weights of its tiles.

Exponentials are to the base 2: torch's exp takes ten times longer where it meets -inf, its exp2
does not. Masks are added, because filling under a mask costs ten times as much.
"""

import functools
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...masks import PositionalMask
from ..common.distance import DistanceTable
from ..common.dropout import FactorDropout
from ..common.tiling import LOG2E
from .tiling import Part, Tile, tiles


class Block:
    """One part of the inputs of an ``MTSACall``, its rows side by side.

    Attributes:
        part: sentences and heads.
        tiles: what they are computed in.
        q: ``(rows, T, D_i)``, not yet scaled by ``1 / sqrt(D_i)``.
        k: ``(rows, T, D_i)``, 0 at padding.
        e: E, ``(rows, T, D)`` or, where all features share it, ``(rows, T, 1)``; 0 at padding.
        ve: v * E with dropout, ``(rows, T, D)``.
        drop: the dropout factor on (key, feature) pairs, as ``ve``.
        blind: queries that see nothing but padding, bool ``(rows, T, 1)``; None without padding.
    """

    def __init__(
        self,
        part: Part,
        inputs: Sequence[Any],
        sigma_t: str,
        dropout: FactorDropout | None,
        distance: DistanceTable | None,
    ) -> None:
        self.part, self.sigma_t, self._dropout, self._distance = part, sigma_t, dropout, distance
        self.q, self.k, self._v, self._s = (part.of(t).flatten(0, 1) for t in inputs[:4])
        self.scale = self.q.shape[-1] ** -0.5
        self.tiles = tiles(part.mask, self.q.shape[1])
        self.blind = self._hidden = None
        s, padding = self._s, inputs[5]
        if padding is not None:
            blind = part.mask.visible_keys(padding[part.batch]) == 0
            self._hidden, self.blind = (part.rows_of(t) for t in (padding[part.batch], blind))
            # So that whatever a padded position holds (a huge score, NaN) stays outside.
            self.k, self._v, self._s = (
                t.masked_fill(self._hidden, 0.0) for t in (self.k, self._v, s)
            )
            s = s.masked_fill(self._hidden, float("-inf"))
        shift = s.amax(1, keepdim=True).clamp_min_(torch.finfo(s.dtype).min)  # not -inf - -inf
        self.e = (s - shift).mul_(LOG2E).exp2_()
        self.ve = self._v * self.e
        self.drop: Tensor | None = None
        if dropout is not None and not dropout.pairs_only:
            self.drop = dropout.factor(self.ve)
            self.ve.mul_(self.drop)

    def per_score(self, t: Tensor) -> Tensor:
        """The sum over the features that share a score: ``(..., D)`` -> the width of ``e``."""
        return t if t.shape[-1] == self.e.shape[-1] else t.sum(-1, keepdim=True)

    def weights(self, tile: Tile) -> tuple[Tensor, Tensor | None]:
        """P, exp(sigma_t(R)) over the visible keys of a tile ``(rows, n_q, n_k)``, up to a factor.

        The factor belongs to a query. Padded keys take part with R = 0: their E is 0. The second
        result is sigmoid(R) where sigma_t is its logarithm.
        """
        q, k = self.q[:, tile.queries], self.k[:, tile.keys]
        unit = 1.0 if self.sigma_t == "logsigmoid" else LOG2E
        r = q.new_empty(len(q), q.shape[1], k.shape[1])
        torch.baddbmm(r, q, k.mT, beta=0, alpha=self.scale * unit, out=r)  # eq. 8
        common = self.part.mask.common_range(tile.start, tile.stop, self.q.shape[1])
        for lo, hi in ((tile.lo, min(common[0], tile.hi)), (max(common[1], tile.lo), tile.hi)):
            if lo < hi:
                offset, height, width = lo - tile.start, tile.stop - tile.start, hi - lo
                hidden = _bias(self.part.mask, offset, height, width, r.dtype, str(r.device))
                r[..., lo - tile.lo : hi - tile.lo] += hidden
        sigmoid = None
        if self.sigma_t == "logsigmoid":
            if self._distance is None:
                return r.sigmoid_(), r  # at most 1, so that no row needs a shift
            sigmoid, r = r.sigmoid(), F.logsigmoid(r).mul_(LOG2E)
        if self._distance is not None:
            bias = self._distance.block(self.part.heads, *tile)
            self.part.split(r).add_(bias, alpha=LOG2E)
        return r.sub_(r.amax(-1, keepdim=True)).exp2_(), sigmoid

    def pair_dropout(self, p: Tensor) -> Tensor | None:
        """The dropout factor on (query, key) pairs of a tile, like its P; continues the stream."""
        return None if self._dropout is None else self._dropout.factor(p)

    def add_distance_gradient(self, tile: Tile, grad: Tensor) -> None:
        """Pass on the gradient of the scores of a tile ``(rows, n_q, n_k)``."""
        if self._distance is not None:
            self._distance.add_gradient(self.part.heads, *tile, self.part.split(grad).sum(0))

    def exact(self, tile: Tile, rows: Tensor, pair_drop: Tensor | None) -> dict[str, Any]:
        """Some rows of a tile as arguments of ``mtsa_reference`` in float64: ``(m, 1, ., .)``."""

        def some(t: Tensor | None, at: slice) -> Any:
            return None if t is None else t[rows, None, at].double()

        allowed = self.part.mask.block(*tile, self.q.device)  # (n_q, n_k)
        if self._hidden is not None:
            allowed = allowed & ~self._hidden[rows, None, tile.keys].mT  # (m, 1, n_q, n_k)
        bias = None
        if self._distance is not None:
            bias = self._distance.block(self.part.heads, *tile)
            bias = bias.expand(*self.part.split(self.q).shape[:2], -1, -1).flatten(0, 1)
        return {
            "q": some(self.q, tile.queries),
            "k": some(self.k, tile.keys),
            "v": some(self._v, tile.keys),
            "s": some(self._s, tile.keys),
            "allowed": allowed.expand(len(rows), 1, -1, -1),
            "sigma_t": self.sigma_t,
            "bias": some(bias, slice(None)),
            "pair_dropout": some(pair_drop, slice(None)),
            "feature_dropout": some(self.drop, tile.keys),
        }


@functools.lru_cache(maxsize=256)
def _bias(
    mask: PositionalMask, offset: int, queries: int, keys: int, dtype: torch.dtype, device: str
) -> Tensor:
    """0 for visible and -inf for invisible keys that begin ``offset`` after the first query."""
    visible = mask.block(0, queries, offset, offset + keys, device)
    return torch.zeros(queries, keys, dtype=dtype, device=device).masked_fill_(
        ~visible, float("-inf")
    )
