"""What layers inside of a model get as their input, and what they make of it."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from selfattn.errors import UserError
from selfattn.layers import Inspection, SelfAttention


def inspect_self_attention(module: nn.Module, *args: Any, **kwargs: Any) -> Inspection:
    """``SelfAttention.inspect``.

    Raises:
        UserError: if the module is another, or its mechanism has nothing to show.
    """
    if not isinstance(module, SelfAttention):
        raise UserError(f"{type(module).__name__} is not an attention layer that can be inspected")
    return module.inspect(*args, **kwargs)


def inspections(
    model: nn.Module,
    layers: Sequence[nn.Module],
    run: Callable[[], Any],
    inspect: Callable[..., Inspection] = inspect_self_attention,
) -> list[Inspection]:
    """Look into layers while their model runs.

    The model is turned into float64 and left so: a weight that is exactly 0 then is one of a key
    that its query does not see.

    Args:
        model: what holds the layers.
        layers: attentions.
        run: runs the model.
        inspect: called with a layer and what the model called it with.

    Returns:
        One inspection a layer.
    """
    calls: dict[nn.Module, Callable[[], Inspection]] = {}

    def record(module: nn.Module, args: Any, kwargs: Any) -> None:
        calls[module] = partial(inspect, module, *args, **kwargs)

    model.double().eval()
    hooks = [layer.register_forward_pre_hook(record, with_kwargs=True) for layer in layers]
    try:
        with torch.no_grad():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    with torch.no_grad():
        return [calls[layer]() for layer in layers]
