"""Sentences cut into blocks, counted from the first real token."""

import torch
import torch.nn.functional as F
from torch import Tensor

from ..masks import check_padding_mask


class Blocks:
    """Where the tokens of a batch lie in m blocks of r tokens (Bi-BloSAN, section 3.1).

    A sentence is rotated until its first real token comes first, so that its blocks do not depend
    on the padding in front of it. This needs no transfer from the device. Of the batch x
    ``(B, T, C)`` only shape and device count; ``length`` is r.

    Attributes:
        padding: bool ``(B, m, r)``, True = padding; None where every position holds a token.
    """

    def __init__(self, x: Tensor, padding_mask: Tensor | None, length: int) -> None:
        check_padding_mask(padding_mask, x.shape[:2])
        self.batch, self.tokens, _ = x.shape
        self.length = length
        self.count = -(-self.tokens // length)
        self.device = x.device
        size = self.count * length
        self.extra = size - self.tokens
        self.there: Tensor | None = None
        self.back: Tensor | None = None
        self.padding: Tensor | None = None
        if padding_mask is not None and self.tokens:
            shift = padding_mask.byte().argmin(1)[:, None]  # padded in front; 0 if all is padding
            position = torch.arange(size, device=x.device)
            start = size * torch.arange(self.batch, device=x.device)[:, None]
            there, back = position + shift, position - shift  # modulo size, as ONNX can write it
            self.there = (start + there - size * (there >= size).long()).flatten()
            self.back = (start + back + size * (back < 0).long()).flatten()
        elif self.extra:
            padding_mask = x.new_zeros(x.shape[:2], dtype=torch.bool)
        if padding_mask is not None:
            padded = F.pad(padding_mask, (0, self.extra), value=True)
            self.padding = _turn(padded, self.there).unflatten(1, (self.count, length))

    def cut(self, x: Tensor) -> Tensor:
        """``(B, T, C)`` -> ``(B, m, r, C)``."""
        padded = F.pad(x, (0, 0, 0, self.extra)) if self.extra else x
        return _turn(padded, self.there).unflatten(1, (self.count, self.length))  # (B, m, r, C)

    def join(self, x: Tensor) -> Tensor:
        """``(B, m, r, C)`` -> ``(B, T, C)``, the inverse of ``cut``."""
        return _turn(x.flatten(1, 2), self.back)[:, : self.tokens]  # (B, T, C)

    def join_pairs(self, x: Tensor) -> Tensor:
        """Pairs of tokens of a block ``(B, m, r, r)`` -> all pairs ``(B, T, T)``, 0 elsewhere."""
        # (B, m, r, m, r), filled where both tokens lie in one block
        whole = x.new_zeros(x.shape[0], self.count, self.length, self.count, self.length)
        whole.diagonal(dim1=1, dim2=3).copy_(x.permute(0, 2, 3, 1))
        by_key = self.join(whole.flatten(3)).transpose(1, 2)  # (B, m * r, T), [key, query]
        keys = by_key.unflatten(1, (self.count, self.length))  # (B, m, r, T)
        return self.join(keys).transpose(1, 2)  # (B, T, T), [query, key]

    def numbers(self) -> Tensor:
        """Number of each token's block ``(B, T)``, -1 at padding."""
        number = torch.arange(self.count, device=self.device)[:, None, None]
        number = number.expand(self.batch, -1, self.length, 1)
        if self.padding is not None:
            number = number.masked_fill(self.padding[..., None], -1)
        return self.join(number)[..., 0]


def _turn(x: Tensor, rows: Tensor | None) -> Tensor:
    """``(B, L, ...)`` with its B L rows in another order."""
    return x if rows is None else x.flatten(0, 1).index_select(0, rows).view(x.shape)
