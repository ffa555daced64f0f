"""The slow, obvious form of DiSA: equations 9 and 10 as printed, with their n x n x d tensor.

It imports torch and nothing else, so that it shares no mistake with the code that it checks.
"""

import torch
from torch import Tensor


def disa_reference(
    x: Tensor,
    a: Tensor,
    b: Tensor,
    allowed: Tensor,
    c: float = 5.0,
    bias: Tensor | None = None,
    pair_dropout: Tensor | None = None,
    feature_dropout: Tensor | None = None,
) -> Tensor:
    """Equations 9 and 10 of the Bi-BloSAN paper, feature by feature.

    Below, Tq queries attend to T keys, and C features are G equal parts with a mask each.

    Args:
        x: values ``(B, T, C)``.
        a: projection of the keys, W1 x, ``(B, T, C)``.
        b: projection of the queries, W2 x + b1, ``(B, Tq, C)``.
        allowed: bool ``(B or 1, Tq, T, G)``, whether the query may see the key: where the mask of
            eq. 9 is 0 and not minus infinity.
        c: scores lie in ``(-c, c)``.
        bias: ``(Tq, T, G)``, finite, added where eq. 9 adds the mask.
        pair_dropout: factor on (query, key) pairs ``(B, Tq, T, G)``, 0 or 1 / keep.
        feature_dropout: factor on (key, feature) pairs ``(B, T, C)``.

    Returns:
        ``(B, Tq, C)``; 0 for a query that sees no key.
    """
    if feature_dropout is not None:
        x = x * feature_dropout
    # (B, T or Tq, G, C / G)
    x, a, b = (t.unflatten(-1, (allowed.shape[-1], -1)) for t in (x, a, b))
    # eq. 9 without the mask, (B, Tq, T, G, C / G)
    score = c * torch.tanh((a[:, None] + b[:, :, None]) / c)
    if bias is not None:
        score = score + bias[..., None]
    # A query without a visible key gets a softmax over all keys, finite in both passes, and its
    # output is then set to zero.
    alive = allowed.any(2, keepdim=True)  # (B, Tq, 1, G)
    score = score.masked_fill((~allowed & alive)[..., None], float("-inf"))  # M of eq. 9
    p = torch.softmax(score, 2)  # over the keys, (B, Tq, T, G, C / G)
    if pair_dropout is not None:
        p = p * pair_dropout[..., None]
    out = (p * x[:, None]).sum(2)  # (B, Tq, G, C / G)
    out = out.masked_fill(~alive[:, :, 0, :, None], 0.0)
    return out.flatten(-2)  # (B, Tq, C)
