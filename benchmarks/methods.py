"""All methods by level and name: the family's mechanisms that exist, and their rivals."""

import copy
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.attention import SDPBackend

from selfattn.config import CONFIGS, AttentionConfig
from selfattn.errors import UserError
from selfattn.layers import ATTENTIONS, build_attention
from selfattn.masks import head_masks
from selfattn.models import CONTEXTS, build_context
from selfattn.ops import disa, mtsa

from .kinds import (
    Build,
    ContextMethod,
    DiSAOperatorMethod,
    EncoderMethod,
    LayerMethod,
    MaskedOperator,
    OperatorMethod,
    Reference,
)
from .method import Method, Setup
from .rivals.algorithm1 import AlgorithmOneLayer, algorithm1
from .rivals.dot_product import (
    Directed,
    Explicit,
    MultiHeadAround,
    TorchMultiHead,
    Undirected,
)
from .rivals.flex import FlexDot, flex_mtsa
from .rivals.recurrent import BiRecurrent

_LABELS = {
    "multihead": "multi-head layer",
    "mtsa": "MTSA",
    "fast_disa": "Fast-DiSA",
    "disa": "DiSA",
    "biblosa": "Bi-BloSA",
    "resa": "ReSA",
}
_MODERATE = 1.0  # Algorithm 1 overflows by large scores, also at padded keys
# The multi-head layer with what a user would pick instead of MTSA.
_RIVALS: dict[str, tuple[str, dict[str, Any]]] = {
    "masks": ("multi-head layer, masks", {"masks": "forward_backward"}),
    "window": ("multi-head layer, masks, window 64", {"masks": "forward_backward", "window": 64}),
    "relative": ("multi-head, relative", {"positions": "relative"}),
    "rotary": ("multi-head, rotary", {"positions": "rotary"}),
    "alibi": ("multi-head, ALiBi", {"positions": "alibi"}),
}


def _multihead_reference(module: nn.Module, setup: Setup, directed: bool) -> nn.Module:
    masks = head_masks("forward_backward", setup.heads) if directed else None
    slow = MultiHeadAround(setup.embed_dim, setup.heads, Explicit(masks))
    slow.attention.load_state_dict(module.attention.state_dict())  # type: ignore[union-attr]
    return slow


def _layer(
    name: str, label: str, config: AttentionConfig, wide: bool = False, backend: str | None = None
) -> LayerMethod:
    """A mechanism of the family.

    ``wide`` makes each head as wide as the input, as in the published sentence encoders; without a
    ``backend``, the run's is taken.
    """
    switchable = "backend" in {field.name for field in fields(config)}

    def build(setup: Setup, fixed: str | None = backend) -> nn.Module:
        switches: dict[str, Any] = {"head_dim": setup.embed_dim} if wide else {}
        if switchable:
            switches["backend"] = fixed or setup.backend
        return build_attention(config, setup.embed_dim, setup.heads, **switches)

    def reference(module: nn.Module, setup: Setup) -> nn.Module:
        slow = build(setup, "reference") if switchable else copy.deepcopy(module)
        slow.load_state_dict(module.state_dict())
        return slow

    return LayerMethod(name, label, build, reference)


def _family(name: str) -> list[LayerMethod]:
    """A mechanism in each of its published forms."""
    label = _LABELS.get(name, name)
    config = CONFIGS[name]
    return [
        _layer(f"{name}:{preset}", f"{label} ({preset})", config.make(preset))
        for preset in config.presets
    ] or [_layer(name, label, config.make())]


def _algorithm1_layer_reference(module: nn.Module, setup: Setup) -> nn.Module:
    slow = copy.deepcopy(module)
    slow.operator = partial(mtsa, backend="reference")  # type: ignore[assignment]
    return slow


def _layers() -> list[Method]:
    def multihead(name: str, label: str, build: Build, directed: bool = False) -> LayerMethod:
        return LayerMethod(name, label, build, partial(_multihead_reference, directed=directed))

    found: list[Method] = [
        multihead("multihead", "multi-head, torch", lambda s: TorchMultiHead(s.embed_dim, s.heads)),
        multihead(
            "multihead:weights",
            "multi-head, torch, with weights",
            lambda s: TorchMultiHead(s.embed_dim, s.heads, need_weights=True),
        ),
        multihead(
            "multihead:directed",
            "multi-head under MTSA's masks",
            lambda s: MultiHeadAround(s.embed_dim, s.heads, Directed()),
            directed=True,
        ),
    ]
    for name in ATTENTIONS:
        family = _family(name)
        if name == "multihead":  # the name belongs to torch's own, the reference
            family[0].name = "multihead:layer"
            family += [
                _layer(f"{name}:{rival}", label, CONFIGS[name].make(**switches))
                for rival, (label, switches) in _RIVALS.items()
            ]
        found += family
    return [
        *found,
        LayerMethod(
            "mtsa:algorithm1",
            "MTSA, Algorithm 1",
            lambda s: AlgorithmOneLayer(s.embed_dim, s.heads),
            _algorithm1_layer_reference,
            garbage=_MODERATE,
        ),
        LayerMethod(
            "mtsa:flex",
            "MTSA, FlexAttention",
            lambda s: AlgorithmOneLayer(s.embed_dim, s.heads, flex_mtsa),
            _algorithm1_layer_reference,
            gpu_only=True,
        ),
        LayerMethod("bi-lstm", "Bi-LSTM", partial(_recurrent, kind="lstm")),
        LayerMethod("bi-gru", "Bi-GRU", partial(_recurrent, kind="gru")),
        LayerMethod("multi-cnn", "multi-window CNN", partial(_context, name="multi_cnn")),
        LayerMethod("hrchy-cnn", "hierarchical CNN", partial(_context, name="hrchy_cnn")),
    ]


def _masked(
    operator: Callable[..., Tensor],
    layout: str,
    masks: int | None = None,
    backend: str | None = None,
) -> tuple[Build, Reference]:
    """An operator of this project under a layout of masks, one a head, and its reference form."""

    def build(setup: Setup, fixed: str | None = backend) -> nn.Module:
        chosen = partial(operator, backend=fixed or setup.backend)
        return MaskedOperator(chosen, layout, masks or setup.heads)

    return build, lambda module, setup: build(setup, "reference")


def _operators() -> list[Method]:
    def plain(module: nn.Module, setup: Setup) -> nn.Module:
        return Explicit()

    def directed(module: nn.Module, setup: Setup) -> nn.Module:
        return Explicit(head_masks("forward_backward", setup.heads))

    def rival(operator: Callable[..., Tensor]) -> Build:
        return lambda s: MaskedOperator(operator, "forward_backward", s.heads)

    def flex_directed(setup: Setup) -> nn.Module:
        return FlexDot(head_masks("forward_backward", setup.heads))

    made, gpu = OperatorMethod, {"gpu_only": True}
    build, exact = _masked(mtsa, "forward_backward")
    cudnn = SDPBackend.CUDNN_ATTENTION
    return [
        made("sdpa", "dot product", lambda s: Undirected(), plain),
        made("sdpa:cudnn", "dot product, cuDNN", lambda s: Undirected(cudnn), plain, **gpu),
        made("sdpa:directed", "dot product under MTSA's masks", lambda s: Directed(), directed),
        made("mtsa", "MTSA, half forward, half backward", build, exact, count=4),
        made("mtsa:undirected", "MTSA without direction", *_masked(mtsa, "none"), count=4),
        made("mtsa:algorithm1", "MTSA, Algorithm 1", rival(algorithm1), exact, count=4,
             garbage=_MODERATE),
        made("flex", "FlexAttention", lambda s: FlexDot(), plain, **gpu),
        made("flex:directed", "FlexAttention under MTSA's masks", flex_directed, directed, **gpu),
        made("mtsa:flex", "MTSA, FlexAttention", rival(flex_mtsa), exact, count=4, **gpu),
    ]  # fmt: skip


def _disa() -> list[Method]:
    """DiSA as published, as a layer and as an operator, streamed and textbook."""
    config = CONFIGS["disa"].make("code")
    return [
        method
        for name, label, backend in (
            ("disa", "DiSA", None),
            ("disa:textbook", "DiSA, textbook", "reference"),
        )
        for method in (
            _layer(name, label, config, wide=True, backend=backend),
            DiSAOperatorMethod(name, label, *_masked(disa, "forward_backward", 2, backend)),
        )
    ]


def _context(setup: Setup, name: str) -> nn.Module:
    """A context of sentence encoders that gives a vector a token.

    A direction is as wide as the input, that of Bi-BloSA four fifths of it (published: 300, 240).
    """
    width = setup.embed_dim * 4 // 5 if name == "biblosa" else setup.embed_dim
    switches: dict[str, Any] = {"per_token": True} if name == "multi_cnn" else {}
    return build_context(name, setup.embed_dim, width, **switches)


def _recurrent(setup: Setup, kind: str) -> nn.Module:
    return BiRecurrent(setup.embed_dim, kind)


def _contexts() -> list[Method]:
    """Contexts of sentence encoders, beside torch's Bi-LSTM."""
    found = [
        ContextMethod(name, f"{_LABELS.get(name, name)}, context", partial(_context, name=name))
        for name in CONTEXTS
        if name != "vanilla"
    ]
    build = partial(_recurrent, kind="lstm")
    return [*found, ContextMethod("torch-lstm", "Bi-LSTM, torch", build)]


def all_methods(extra: Path | None = None) -> list[Method]:
    """Every method that exists, and those of a Python file's list ``METHODS``.

    Raises:
        UserError: if the file cannot be read or has no such list.
    """
    found = [*_layers(), *_operators()]
    found += [
        EncoderMethod(method)
        for method in list(found)
        if method.level == "layer" and method.name.split(":")[0] in ATTENTIONS
    ]
    found += _contexts()
    found += _disa()  # twice as wide as its input: not for encoders
    return found + ([] if extra is None else _from_file(extra))


def _from_file(path: Path) -> list[Method]:
    if not path.is_file():
        raise UserError(f"--methods-module is {path}, but there is no such file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise UserError(f"--methods-module is {path}, but must be a Python file (.py)")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    methods = getattr(module, "METHODS", None)
    if not isinstance(methods, list) or not all(isinstance(m, Method) for m in methods):
        raise UserError(f"--methods-module is {path}, but it has no list METHODS of methods")
    return methods


def choose(
    level: str, names: Sequence[str] | None, extra: Path | None = None, flag: str = "--methods"
) -> list[Method]:
    """The methods of a level, in the order asked for.

    Args:
        level: ``"layer"``, ``"operator"``, ``"encoder"``, ``"context"``, or one of the file's.
        names: as in ``Method.name``; None takes all.
        extra: see ``all_methods``.
        flag: where the names come from, for messages.

    Raises:
        UserError: if a name is unknown at this level.
    """
    known = {method.name: method for method in all_methods(extra) if method.level == level}
    for name in names or ():
        if name not in known:
            raise UserError(
                f"{flag} has {name!r}, which is unknown at level {level!r}; allowed are "
                f"{', '.join(known)}"
            )
    return list(known.values()) if names is None else [known[name] for name in names]
