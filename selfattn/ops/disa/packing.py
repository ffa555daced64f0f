"""Short sequences of selected tokens, for backends that walk over every position."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ...masks import PositionalMask


def packed(
    run: Callable[..., Tensor],
    x: Tensor,
    a: Tensor,
    b: Tensor,
    masks: Sequence[PositionalMask],
    hidden: Tensor,
    c: float,
    dropout_p: float,
    hidden_keys: Tensor,
) -> Tensor:
    """Run a backend on the tokens that attend or are attended to, in their order.

    ``hidden`` says what does not attend and ``hidden_keys`` what is not a key, bool ``(B, T)``; the
    output ``(B, T, C)`` is 0 at the other tokens.
    """
    needed = ~(hidden & hidden_keys)
    longest = max(1, int(needed.sum(1).max()))
    # What is needed first, and in order; shorter sentences end with hidden tokens.
    order = needed.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :longest]
    rows = order[..., None].expand(-1, -1, x.shape[-1])  # (B, longest, C)
    short = (t.gather(1, rows) for t in (x, a, b))
    some, some_keys = (t.gather(1, order) for t in (hidden, hidden_keys))
    y = run(*short, masks, some, c, dropout_p, some_keys)
    return y.new_zeros(x.shape).scatter(1, rows, y)
