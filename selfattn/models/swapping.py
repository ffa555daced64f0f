"""Other attentions in models that exist already."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import is_parametrized

from ..config import AttentionConfig, attention_config
from ..errors import UserError
from ..layers import build_attention
from ..layers.linear import has_hooks
from .as_multihead import BEYOND, WITHIN, AsMultihead

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..config.switches import Switches


Holders = Mapping[nn.Parameter, Sequence[tuple[str, nn.Module]]]
# What takes note of a model's parameters when it is made.
_WRAPPERS = {"DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule"}


class Weights(NamedTuple):
    """Names of an attention's weights: copied, drawn anew, dropped."""

    taken: tuple[str, ...]
    new: tuple[str, ...]
    left: tuple[str, ...]

    def __str__(self) -> str:
        parts = zip(("weights copied", "new", "dropped"), self, strict=True)
        return "; ".join(f"{what}: {', '.join(names) or 'none'}" for what, names in parts)


class SwapReport(NamedTuple):
    """What became of each ``nn.MultiheadAttention`` of a model, by its name there."""

    replaced: Mapping[str, Weights]
    kept: Mapping[str, str]

    def __str__(self) -> str:
        lines = [f"replaced {name}: {weights}" for name, weights in self.replaced.items()]
        return "\n".join(lines + [f"kept {name}: {why}" for name, why in self.kept.items()])


def swap(
    model: nn.Module,
    attention: str | AttentionConfig = "mtsa",
    *,
    preset: str | None = None,
    only: str | Iterable[str] = "*",
    **switches: Unpack[Switches],
) -> SwapReport:
    """Replace the self-attentions of a model that are ``nn.MultiheadAttention``, in place.

    What replaces them is called as they are (``AsMultihead``) and has their dropout, mode, device
    and dtype, and their weights where names and shapes fit (of parametrizations, such as weight
    norm, what they compute). The parameters are new ones: make the optimizer, DDP and FSDP
    afterwards. A cross-attention that cannot be told by its class is refused when it is called.

    Args:
        model: any module that holds such attentions.
        attention: a name in ``selfattn.layers.ATTENTIONS`` or a configuration.
        preset: a published form of the attention.
        only: names of attentions to replace, with ``*`` for any part, such as ``"encoder.*"``. A
            layer with several names is found, and reported once, by each of them.
        **switches: of the attention.

    Returns:
        What was replaced, what was kept and why; ``print`` shows it line by line.

    Raises:
        UserError: if the model is no module or is wrapped in DDP or FSDP, ``only`` holds something
            else than names, or nothing was replaced; it is as it was then.

    Example:
        >>> model = nn.TransformerEncoderLayer(64, 4, batch_first=True)
        >>> report = swap(model, "mtsa", preset="nmt")
        >>> report.replaced["self_attn"].taken
        ('v_proj.weight', 'q_proj.weight', 'k_proj.weight', 'out_proj.weight')
    """
    if not isinstance(model, nn.Module):
        raise UserError(f"model is {model!r}; it must be an nn.Module, and comes first")
    for path, part in model.named_modules():
        if wrapped := _WRAPPERS & {base.__name__ for base in type(part).__mro__}:
            raise UserError(
                f"{path or 'the model'} is wrapped in {min(wrapped)}, which would not reduce the "
                "gradients of new weights; swap before wrapping"
            )
    config = attention_config(attention, preset, **switches)
    own_dropout = isinstance(attention, AttentionConfig) or "attention_dropout" in switches
    patterns = _patterns(only)
    replaced: dict[str, Weights] = {}
    kept: dict[str, str] = {}
    new: dict[nn.MultiheadAttention, tuple[AsMultihead, Weights]] = {}  # one may have more places
    places: list[tuple[nn.Module, str, AsMultihead]] = []
    found, holders = _attentions(model), _holders(model)
    every = [name for names in found.values() for name in names]
    for pattern in patterns:
        if found and not any(fnmatchcase(name, pattern) for name in every):
            known = ", ".join(every[:5]) + (", ..." if every[5:] else "")
            raise UserError(f"only {pattern!r} names no attention of the model, which has {known}")
    for (parent, child, old), names in found.items():
        asked = [name for name in names if any(fnmatchcase(name, p) for p in patterns)]
        name = (asked or names)[0]
        try:
            if not asked:
                raise UserError(f"only {', '.join(patterns) or 'none'} was asked for")
            _check(parent, child, old, config, holders)
            if old not in new:
                dropout = {} if own_dropout else {"attention_dropout": old.dropout}
                decoder = isinstance(parent, nn.TransformerDecoderLayer)
                new[old] = _replacement(old, config.with_switches(**dropout), decoder)
            module, replaced[name] = new[old]
            places.append((parent, child, module))
        except UserError as error:
            kept[name] = str(error)
    if not places:
        reasons = "; ".join(f"{name or 'itself'}: {why}" for name, why in kept.items())
        raise UserError(
            f"{type(model).__name__} has no self-attention to replace: "
            + (reasons or "swap knows nn.MultiheadAttention, and there is none in it")
        )
    for parent, child, module in places:
        setattr(parent, child, module)
    for encoder in model.modules():
        if isinstance(encoder, nn.TransformerEncoder):  # it would hand nested tensors to its layers
            encoder.enable_nested_tensor = encoder.use_nested_tensor = False
    return SwapReport(replaced, kept)


def _patterns(only: str | Iterable[str]) -> list[str]:
    """Names of attentions, as ``swap`` takes them."""
    patterns = [only] if isinstance(only, str) or not isinstance(only, Iterable) else list(only)
    if not all(isinstance(pattern, str) for pattern in patterns):
        raise UserError(f"only is {only!r}; it must be a name, such as 'encoder.*', or names")
    return patterns


def _attentions(
    model: nn.Module,
) -> dict[tuple[nn.Module, str, nn.MultiheadAttention], list[str]]:
    """Parent, name there and names in the model of each ``nn.MultiheadAttention``."""
    if isinstance(model, nn.MultiheadAttention):
        raise UserError("the model is an nn.MultiheadAttention itself; give a module that holds it")
    found = defaultdict(list)
    for path, parent in model.named_modules(remove_duplicate=False):
        for child, module in parent._modules.items():
            if isinstance(module, nn.MultiheadAttention):
                found[parent, child, module].append(f"{path}.{child}" if path else child)
    return found


def _check(
    parent: nn.Module,
    child: str,
    old: nn.MultiheadAttention,
    config: AttentionConfig,
    holders: Holders,
) -> None:
    """Refuse what cannot be replaced by self-attention, or computes something else."""
    if type(old).forward is not nn.MultiheadAttention.forward or "forward" in vars(old):
        raise UserError(f"{type(old).__name__} computes in a way of its own")
    if old.in_proj_weight is None:
        raise UserError("it is cross-attention: its keys or values have a width of their own")
    if old.bias_k is not None or old.add_zero_attn:
        raise UserError("it adds keys of its own (add_bias_kv, add_zero_attn)")
    if not isinstance(getattr(old.out_proj, "weight", None), Tensor):
        raise UserError(f"its out_proj, {type(old.out_proj).__name__}, has no weight")
    if has_hooks(old) or any(_hooks(old)):
        raise UserError("it has hooks, which would be lost: remove them, swap, add them again")
    if isinstance(parent, nn.TransformerDecoderLayer):
        if child != "self_attn":
            raise UserError("it is a decoder's cross-attention")
        if getattr(config, "masks", "none") != "forward":
            raise UserError(
                "a decoder's self-attention must not look ahead: swap it by itself, with "
                "only='decoder.*', masks='forward', include_self=True"
            )
    inside = set(old.modules())
    for weight in old.parameters():
        for name, holder in holders[weight]:
            if holder not in inside:  # a copy would untie the weight
                raise UserError(f"it shares weights with {name}")


def _hooks(old: nn.Module) -> Iterator[object]:
    """Hooks of its weights' gradients, and of what it saves and loads."""
    for weight in old.parameters():
        yield from (weight._backward_hooks, weight._post_accumulate_grad_hooks)
    for module in old.modules():
        yield from (module._state_dict_hooks, module._state_dict_pre_hooks)
        yield module._load_state_dict_post_hooks
        if not is_parametrized(module):  # torch's weight norm has such a hook of its own
            yield module._load_state_dict_pre_hooks


def _holders(model: nn.Module) -> Holders:
    """The modules that have a weight, with their names."""
    holders = defaultdict(list)
    for name, module in model.named_modules():
        for weight in module.parameters(recurse=False):
            holders[weight].append((name or "the model itself", module))
    return holders


@torch.enable_grad()  # which weights take one is read from the old ones
def _replacement(
    old: nn.MultiheadAttention, config: AttentionConfig, decoder: bool
) -> tuple[AsMultihead, Weights]:
    """A new attention, with the weights that fit, and which did."""
    given: dict[str, Tensor] = {}
    for kind, packed in (("weight", old.in_proj_weight), ("bias", old.in_proj_bias)):
        if packed is not None:
            rows = zip("qkv", packed.chunk(3), strict=True)
            given |= {f"{letter}_proj.{kind}": part for letter, part in rows}
    for kind in ("weight", "bias"):
        if (value := getattr(old.out_proj, kind)) is not None:
            given[f"out_proj.{kind}"] = value
    layer = build_attention(config, old.embed_dim, old.num_heads).to(old.in_proj_weight)
    if decoder and not getattr(layer, "masks", ()):
        raise UserError(f"attention {config.name!r} {BEYOND}; a decoder needs {WITHIN}")
    own = dict(layer.named_parameters())
    taken = [name for name in own if name in given and given[name].shape == own[name].shape]
    with torch.no_grad():
        for name in taken:
            own[name].copy_(given[name]).requires_grad_(given[name].requires_grad)
    module = AsMultihead(layer, old.batch_first).train(old.training)
    parts = taken, [name for name in own if name not in taken], [n for n in given if n not in taken]
    return module, Weights(*map(tuple, parts))
