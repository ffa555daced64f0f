"""All contexts by name: the mechanisms of this project and what the papers compare them with."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ..errors import UserError, check_boolean, check_choice, check_integer, check_rate
from ..layers import ATTENTIONS
from .attention import AttentionContext
from .base import Context
from .gru import BiGRU
from .hierarchical_cnn import HierarchicalCNN
from .lstm import BiLSTM
from .multi_cnn import MultiCNN
from .multihead import MultiHeadContext
from .sru import BiSRU
from .unmixed import NoContext
from .vanilla import VanillaPool

CONTEXTS: dict[str, Callable[..., Context]] = {
    **{name: functools.partial(AttentionContext, name) for name in ATTENTIONS},
    "multihead": MultiHeadContext,
    "lstm": BiLSTM,
    "gru": BiGRU,
    "sru": BiSRU,
    "multi_cnn": MultiCNN,
    "hrchy_cnn": HierarchicalCNN,
    "none": NoContext,
    "vanilla": VanillaPool,
}


def build_context(
    name: str,
    embed_dim: int,
    hidden_size: int,
    *,
    activation: str = "relu",
    dropout: float = 0.0,
    **switches: Any,
) -> Context:
    """A context by its name.

    Args:
        name: a name in ``CONTEXTS``.
        embed_dim: width d of the input.
        hidden_size: width of one direction (published for SNLI: 300, Bi-BloSA 240); most outputs
            are twice as wide, see ``out_dim``.
        activation: a name in ``selfattn.config.ACTIVATIONS``, where the context has a choice.
        dropout: on the input of every linear map.
        **switches: of the context, such as ``preset`` and what ``--mtsa-...`` names for ``mtsa``.

    Returns:
        A module with ``forward(x: (B, T, d), padding_mask=None) -> (B, T, out_dim)``.

    Raises:
        UserError: if the name, a switch or a value is unknown, or the sizes do not fit.

    Example:
        >>> import torch
        >>> context = build_context("mtsa", 300, 300, activation="elu")
        >>> context(torch.randn(2, 7, 300)).shape
        torch.Size([2, 7, 600])
    """
    check_choice("context", name, CONTEXTS)
    check_integer("embed_dim", embed_dim)
    check_integer("hidden_size", hidden_size)
    check_rate("dropout", dropout)
    parameters = inspect.signature(CONTEXTS[name]).parameters
    usual = {"activation": activation, "dropout": dropout}
    usual = {key: value for key, value in usual.items() if key in parameters}
    own = [key for key in parameters if key not in ("embed_dim", "hidden_size", *usual)]
    for key, value in switches.items():
        if key not in parameters and "switches" not in parameters:
            allowed = ", ".join(own) or "none"
            raise UserError(f"context {name!r} has no switch {key!r}; its switches are: {allowed}")
        kind = parameters[key].annotation if key in parameters else None
        if kind is int or (kind == int | None and value is not None):
            check_integer(key, value)
        elif kind is bool:
            check_boolean(key, value)
    return CONTEXTS[name](embed_dim, hidden_size, **usual, **switches)
