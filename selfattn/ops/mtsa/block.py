"""The pieces of the fast form of MTSA that forward and backward share.

Speed on a CPU is decided here by memory traffic: every buffer is taken from a workspace that stays
in the cache, and masks are added, because filling under a mask costs ten times as much.
Exponentials are to the base 2: torch's exp takes ten times longer where it meets -inf, its exp2
does not.
"""

import functools
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...masks import PositionalMask
from ..common.distance import DistanceTable
from ..common.dropout import FactorDropout
from ..common.tiling import LOG2E
from .tiling import Part, Tile, tiles


class Workspace:
    """Named buffers that one call uses again for every part and tile."""

    def __init__(self, dtype: torch.dtype, device: torch.device) -> None:
        self.dtype, self.device = dtype, device
        self._buffers: dict[str, Tensor] = {}

    def take(self, name: str, *shape: int) -> Tensor:
        """A contiguous tensor with arbitrary content; the same memory for the same name."""
        size = math.prod(shape)
        buffer = self._buffers.get(name)
        if buffer is None or buffer.numel() < size:
            buffer = torch.empty(size, dtype=self.dtype, device=self.device)
            self._buffers[name] = buffer
        return buffer[:size].view(shape)

    def bmm(self, name: str, a: Tensor, b: Tensor) -> Tensor:
        """``a @ b`` in the buffer of that name."""
        return torch.bmm(a, b, out=self.take(name, len(a), a.shape[1], b.shape[2]))


class Sum:
    """A sum over tiles of what each adds to some positions; ``total`` is overwritten first."""

    def __init__(self, total: Tensor) -> None:
        self._total = total
        self._begun = False

    def add(self, at: slice, term: Tensor) -> None:
        """Add ``term`` ``(rows, n, D)`` at n of the positions."""
        if self._begun:
            self._total[:, at] += term
            return
        self._begun = True
        self._total[:, : at.start] = 0.0
        self._total[:, at] = term
        self._total[:, at.stop :] = 0.0

    def result(self) -> Tensor:
        """The sum."""
        return self._total if self._begun else self._total.zero_()


class Saved(NamedTuple):
    """What forward keeps for backward beside the inputs, ``(B, H, ...)`` each, or a part of it."""

    h: Tensor  # (B, H, T, D), the output
    inverse: Tensor  # (B, H, T, D), 1 / denominator; 0 where fast backward has nothing to add
    peak: Tensor  # (B, H, T), row maxima of R, times log2(e)
    shift: Tensor  # (B, H, 1, D), maxima over the keys of s
    rescued: Tensor  # bool (B, H, T), queries of the rows and tiles that ``rescue`` computed

    def of(self, part: Part) -> "Saved":
        """The same for one part, views."""
        return Saved(*(part.of(t) for t in self))


class Shared(NamedTuple):
    """What all parts of one pass share."""

    sigma_t: str  # "identity" or "logsigmoid"
    space: Workspace
    dropout: FactorDropout | None
    distance: DistanceTable | None


@functools.lru_cache(maxsize=256)
def _bias(
    mask: PositionalMask, offset: int, queries: int, keys: int, dtype: torch.dtype, device: str
) -> Tensor:
    """0 for visible and -inf for invisible keys that begin ``offset`` after the first query."""
    visible = mask.block(0, queries, offset, offset + keys, device)
    return torch.zeros(queries, keys, dtype=dtype, device=device).masked_fill_(
        ~visible, float("-inf")
    )


class Block:
    """One part of the input in working precision.

    The inputs are q, k, v, s, ``(B, H, T, .)``. Forward fills ``saved``, this part of what it
    keeps, and backward, where it is ``known``, reads it.

    Attributes:
        q: ``(rows, T, D_i)``, not yet scaled by ``1 / sqrt(D_i)``.
        k: ``(rows, T, D_i)``, 0 at padding.
        e: E, ``(rows, T, D)``, contiguous, 0 at padding.
        ve: v * E with dropout, as ``e``.
        drop: the dropout factor on (key, feature) pairs, as ``e``.
    """

    def __init__(
        self,
        inputs: tuple[Tensor, Tensor, Tensor, Tensor],
        padding: Tensor | None,
        part: Part,
        shared: Shared,
        saved: Saved,
        known: bool = False,
    ) -> None:
        self.part = part
        self.sigma_t, self.space, dropout, self.distance = shared
        self.inputs = tuple(part.of(t) for t in inputs)
        self.padding = None if padding is None else padding[part.batch]
        q, k, v, s = self.inputs
        self.length, self.width = v.shape[2:]
        self.rows, self.scale = part.rows, q.shape[-1] ** -0.5
        self.tiles = tiles(part.mask, self.length)
        self._saved, self._known = saved, known
        self._dropout = dropout
        hidden = self._hidden_rows()
        self.q = self._matrix("q", q, None)
        self.k = self._matrix("k", k, hidden)
        self.e, self.ve = self._key_factors(v, s, hidden)
        self.drop: Tensor | None = None
        if dropout is not None:
            self.drop = dropout.factor(self.space.take("drop", *self.ve.shape))
            self.ve.mul_(self.drop)

    def _hidden_rows(self) -> Tensor | None:
        """Indices of the padded positions among the ``rows * T``."""
        if self.padding is None:
            return None
        heads = self.rows // len(self.padding)
        found = self.padding[:, None].expand(-1, heads, -1).flatten().nonzero()[:, 0]
        return found if len(found) else None

    def _matrix(self, name: str, t: Tensor, hidden: Tensor | None) -> Tensor:
        """``(b, g, T, D_i)`` -> ``(rows, T, D_i)`` for a matrix product: a view where possible."""
        same = t.dtype == self.space.dtype and t.stride(-1) == 1
        if same and hidden is None and t.shape[1] == 1:
            return t[:, 0]
        copy = self.space.take(name, *t.shape).copy_(t).flatten(0, 1)  # (rows, T, D_i)
        if hidden is not None:
            # So that whatever a padded position holds (a huge score, NaN) stays outside.
            copy.flatten(0, 1).index_fill_(0, hidden, 0.0)  # of (rows * T, D_i)
        return copy

    def _key_factors(self, v: Tensor, s: Tensor, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
        """E = exp(s - shift) and v * E of Algorithm 1."""
        space = self.space
        e, ve = space.take("e", *s.shape), space.take("ve", *s.shape)
        rows = e.view(-1, self.width)  # (rows * T, D)
        if hidden is not None:
            s = e.copy_(s)
            rows.index_fill_(0, hidden, float("-inf"))
        shift = self._saved.shift
        if not self._known:
            torch.amax(s, 2, keepdim=True, out=shift) if s.dtype == shift.dtype else shift.copy_(
                s.amax(2, keepdim=True)
            )
            shift.clamp_min_(torch.finfo(shift.dtype).min)  # a sentence of padding only: not -inf
        torch.sub(s, shift, out=e)
        e.mul_(LOG2E).exp2_()
        torch.mul(v, e, out=ve)
        if hidden is not None:
            ve.view(-1, self.width).index_fill_(0, hidden, 0.0)  # of (rows * T, D)
        return e.flatten(0, 1), ve.flatten(0, 1)  # (rows, T, D)

    def weights(self, tile: Tile) -> Tensor:
        """exp(sigma_t(R)) over the visible keys of a tile ``(rows, n_q, n_k)``, up to a row factor.

        Padded keys take part with R = 0: their E is 0.
        """
        q, k = self.q[:, tile.start : tile.stop], self.k[:, tile.lo : tile.hi]
        r = self.space.take("p", self.rows, q.shape[1], k.shape[1])
        unit = 1.0 if self.sigma_t == "logsigmoid" else LOG2E
        torch.baddbmm(r, q, k.mT, beta=0, alpha=self.scale * unit, out=r)  # eq. 8
        common = self.part.mask.common_range(tile.start, tile.stop, self.length)
        for lo, hi in ((tile.lo, min(common[0], tile.hi)), (max(common[1], tile.lo), tile.hi)):
            if lo < hi:
                offset, height, width = lo - tile.start, tile.stop - tile.start, hi - lo
                hidden = _bias(self.part.mask, offset, height, width, r.dtype, str(r.device))
                r[..., lo - tile.lo : hi - tile.lo] += hidden
        if self.sigma_t == "logsigmoid" and self.distance is None:
            return r.sigmoid_()  # at most 1, so that no row needs a shift
        peak = self._saved.peak[..., tile.start : tile.stop]
        scores = r.view(*peak.shape, -1)  # (b, g, n_q, n_k)
        if self.distance is not None:
            self._add_distance(tile, scores)
        if not self._known:
            peak.copy_(scores.amax(-1))
        scores.sub_(peak[..., None])
        return r.exp2_()

    def _add_distance(self, tile: Tile, scores: Tensor) -> None:
        """From R to log2(e) (sigma_t(R) + bias by distance), in place."""
        assert self.distance is not None
        if self.sigma_t == "logsigmoid":
            if self._known:  # sigma_t's derivative
                torch.neg(scores, out=self.space.take("slope", *scores.shape)).sigmoid_()
            scores.copy_(F.logsigmoid(scores)).mul_(LOG2E)
        scores.add_(self.distance.block(self.part.heads, *tile), alpha=LOG2E)

    def bias(self, tile: Tile, heads: Tensor) -> Tensor | None:
        """The bias by distance on a tile for some of the part's heads, ``(m, n_q, n_k)``."""
        if self.distance is None:
            return None
        return self.distance.block(self.part.heads, *tile)[heads].double()

    def add_distance_gradient(self, tile: Tile, grad: Tensor) -> None:
        """Pass on the gradient of the scores of a tile ``(rows, n_q, n_k)``."""
        if self.distance is not None:
            total = grad.unflatten(0, (len(self.inputs[0]), -1)).sum(0)  # (g, n_q, n_k)
            self.distance.add_gradient(self.part.heads, *tile, total)

    def through_sigma_t(self, grad: Tensor, p: Tensor) -> None:
        """From the gradient of sigma_t(R) of the last tile to that of R, in place."""
        if self.sigma_t != "logsigmoid":
            return
        if self.distance is None:
            grad.addcmul_(grad, p, value=-1)  # times sigmoid(-R) = 1 - P
        else:
            grad.mul_(self.space.take("slope", *grad.shape))

    def pair_dropout(self, tile: Tile) -> Tensor | None:
        """The dropout factor on the (query, key) pairs of a tile, continuing the stream."""
        if self._dropout is None:
            return None
        shape = (self.rows, tile.stop - tile.start, tile.hi - tile.lo)
        return self._dropout.factor(self.space.take("pair_drop", *shape))

    def dead(self, tile: Tile) -> Tensor | None:
        """Indices of the queries of a tile that see nothing but padding, among ``rows * n_q``."""
        if self.padding is None:
            return None
        blind = self.part.mask.visible_keys(self.padding)[:, tile.start : tile.stop] == 0
        heads = self.rows // len(blind)
        found = blind[:, None].expand(-1, heads, -1).flatten().nonzero()[:, 0]
        return found if len(found) else None
