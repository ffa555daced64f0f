"""What a layer did with its input, for inspection."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..masks import PositionalMask


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


@contextmanager
def looking_into(module: nn.Module) -> Iterator[None]:
    """Within the block a module has no dropout, and nothing is recorded for gradients."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


def visible_softmax(score: Tensor, visible: Tensor, dim: int = -1) -> Tensor:
    """Softmax over the visible keys in a dimension; exactly 0 where a query sees none."""
    # A row without any keeps its scores, or its softmax would be NaN, also in backward.
    hidden = ~visible & visible.any(dim, keepdim=True)
    return torch.softmax(score.masked_fill(hidden, float("-inf")), dim).masked_fill(~visible, 0.0)


def mask_names(masks: Sequence[PositionalMask]) -> tuple[str, ...]:
    """Readable names: ``forward``, ``backward, window 5``, ``no direction``."""
    names = []
    for mask in masks:
        name = "no direction" if mask.direction == "none" else mask.direction
        name += " with itself" if mask.include_self and mask.direction != "none" else ""
        names.append(name + ("" if mask.window is None else f", window {mask.window}"))
    return tuple(names)
