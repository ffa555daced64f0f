"""The encoder of a trained model of sentences on one sentence, layer by layer."""

from typing import Any

import torch
from torch import nn

from selfattn.errors import UserError
from selfattn.layers import Inspection, SelfAttention, Source2Token
from selfattn.models.attention import AttentionContext
from selfattn.models.vanilla import VanillaPool

from ...capture import inspections
from .network import SentenceModel, pad
from .state import SentenceState

Layer = tuple[str, Inspection]


def look(model: SentenceModel, state: SentenceState, words: tuple[str, ...]) -> list[Layer]:
    """What the context and the pool make of a sentence.

    Args:
        model: it is turned into float64 and left so.
        state: its words.
        words: the sentence.

    Returns:
        The names and inspections of what can be looked into: the context, if it is an attention of
        this project, and the pool, whose weights are means over features.

    Raises:
        UserError: if the sentence is empty, or neither can be looked into.
    """
    if not words:
        raise UserError("the sentence is empty; type one word at least")
    context, pool = model.encoder.context, model.encoder.pool
    parts: dict[str, nn.Module] = {}
    if isinstance(context, AttentionContext):
        parts[model.config.context] = context.layer
    if isinstance(pool := pool or context, Source2Token | VanillaPool):
        parts["pool"] = pool
    if not parts:
        raise UserError(
            f"the context {model.config.context} with the pool {model.config.pool} has no weights "
            "of words that could be shown"
        )
    rows, _ = pad([[state.vocabulary.encode(words)]])
    seen = inspections(model, list(parts.values()), lambda: model.encode(rows), _inspect)
    return list(zip(parts, seen, strict=True))


def _inspect(module: nn.Module, *args: Any) -> Inspection:
    if isinstance(module, SelfAttention):
        return module.inspect(*args)
    assert isinstance(module, Source2Token | VanillaPool)
    weights: torch.Tensor = module.weights(*args)  # (1, T, w)
    return Inspection(("whole sentence",), source2token=weights.mean(-1)[:, None])
