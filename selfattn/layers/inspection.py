"""What a layer did with its input, to look at."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Inspection:
    """The inside of one layer on one batch; all tensors detached, dropout off.

    A field is None where the mechanism has no such part. Scores per feature are averaged over the
    features of a head after their softmax.

    Args:
        masks: name of each head's positional mask, e.g. ``"forward"`` or ``"backward, window 5"``.
        token2token: attention weights ``(B, H, T, T)``, [query, key]; a row sums to 1, or to 0
            where the query sees no key.
        source2token: weight of each token for the whole sentence ``(B, H, T)``, sums to 1.
        gate: share of itself that a token keeps at the fusion gate ``(B, H, T)``, in [0, 1].
        heads: tokens selected to attend, bool ``(B, T)`` (ReSA).
        dependents: tokens selected to be attended to, bool ``(B, T)`` (ReSA).
        head_probability: probability of being selected to attend ``(B, T)`` (ReSA).
        dependent_probability: probability of being selected to be attended to ``(B, T)`` (ReSA).
        blocks: number of each token's block ``(B, T)``, -1 for padding (Bi-BloSA).
    """

    masks: tuple[str, ...]
    token2token: Tensor | None = None
    source2token: Tensor | None = None
    gate: Tensor | None = None
    heads: Tensor | None = None
    dependents: Tensor | None = None
    head_probability: Tensor | None = None
    dependent_probability: Tensor | None = None
    blocks: Tensor | None = None
