"""All methods by level and name: the family's mechanisms that exist, and their rivals."""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from benchmarks.encoder import EncoderMethod
from benchmarks.kinds import (
    ContextMethod,
    DiSAOperator,
    DiSAOperatorMethod,
    LayerMethod,
    MTSAOperator,
    OperatorMethod,
    Reference,
)
from benchmarks.method import Method, Setup
from benchmarks.rivals.algorithm1 import AlgorithmOneLayer, algorithm1, mtsa_by_reference
from benchmarks.rivals.dot_product import (
    Directed,
    Explicit,
    MultiHeadAround,
    TorchMultiHead,
    Undirected,
)
from benchmarks.rivals.recurrent import BiRecurrent
from selfattn.config import CONFIGS, AttentionConfig
from selfattn.errors import UserError
from selfattn.layers import ATTENTIONS, build_attention
from selfattn.masks import head_masks
from selfattn.models import CONTEXTS, build_context
from selfattn.ops import mtsa

_LABELS = {
    "multihead": "multi-head layer",
    "mtsa": "MTSA",
    "fast_disa": "Fast-DiSA",
    "disa": "DiSA",
    "biblosa": "Bi-BloSA",
    "resa": "ReSA",
}


def _multihead_reference(directed: bool = False) -> Reference:
    def reference(module: nn.Module, setup: Setup) -> nn.Module:
        masks = head_masks("forward_backward", setup.heads) if directed else None
        slow = MultiHeadAround(setup.embed_dim, setup.heads, Explicit(masks))
        slow.attention.load_state_dict(module.attention.state_dict())  # type: ignore[union-attr]
        return slow

    return reference


def _layer(
    name: str, label: str, config: AttentionConfig, wide: bool = False, backend: str | None = None
) -> LayerMethod:
    """A mechanism of the family.

    Args:
        name: of the method.
        label: of the method.
        config: the mechanism and its switches.
        wide: make each head as wide as the input, as in the published sentence encoders.
        backend: of the operator; None takes the run's.
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


def _multihead_rivals() -> list[LayerMethod]:
    """The multi-head layer with what a user would pick instead of MTSA."""
    config = CONFIGS["multihead"]
    return [
        _layer("multihead:masks", "multi-head layer, masks", config.make(masks="forward_backward")),
        _layer(
            "multihead:window",
            "multi-head layer, masks, window 64",
            config.make(masks="forward_backward", window=64),
        ),
        _layer("multihead:relative", "multi-head, relative", config.make(positions="relative")),
        _layer("multihead:rotary", "multi-head, rotary", config.make(positions="rotary")),
        _layer("multihead:alibi", "multi-head, ALiBi", config.make(positions="alibi")),
    ]


def _as_published(method: LayerMethod) -> LayerMethod:
    """Algorithm 1 overflows by large scores, also at padded keys: check it with moderate ones."""
    method.garbage = 1.0
    return method


def _algorithm1_layer_reference(module: nn.Module, setup: Setup) -> nn.Module:
    slow = copy.deepcopy(module)
    slow.operator = mtsa_by_reference  # type: ignore[assignment]
    return slow


def _cnn(name: str, **switches: Any) -> Callable[[Setup], nn.Module]:
    """A context of sentence encoders, as wide as the papers have it for an input of that width."""
    return lambda setup: build_context(name, setup.embed_dim, setup.embed_dim, **switches)


def _layers() -> list[Method]:
    found: list[Method] = [
        LayerMethod(
            "multihead",
            "multi-head, torch",
            lambda s: TorchMultiHead(s.embed_dim, s.heads),
            _multihead_reference(),
        ),
        LayerMethod(
            "multihead:weights",
            "multi-head, torch, with weights",
            lambda s: TorchMultiHead(s.embed_dim, s.heads, need_weights=True),
            _multihead_reference(),
        ),
        LayerMethod(
            "multihead:directed",
            "multi-head under MTSA's masks",
            lambda s: MultiHeadAround(s.embed_dim, s.heads, Directed()),
            _multihead_reference(directed=True),
        ),
    ]
    for name in ATTENTIONS:
        family = _family(name)
        if name == "multihead":  # the name belongs to torch's own, the reference
            family[0].name = "multihead:layer"
            family += _multihead_rivals()
        found += family
    found += [
        _as_published(
            LayerMethod(
                "mtsa:algorithm1",
                "MTSA, Algorithm 1",
                lambda s: AlgorithmOneLayer(s.embed_dim, s.heads),
                _algorithm1_layer_reference,
            )
        ),
        LayerMethod("bi-lstm", "Bi-LSTM", lambda s: BiRecurrent(s.embed_dim, "lstm")),
        LayerMethod("bi-gru", "Bi-GRU", lambda s: BiRecurrent(s.embed_dim, "gru")),
        LayerMethod("multi-cnn", "multi-window CNN", _cnn("multi_cnn", per_token=True)),
        LayerMethod("hrchy-cnn", "hierarchical CNN", _cnn("hrchy_cnn")),
    ]
    return found


def _operators() -> list[Method]:
    def directed_reference(module: nn.Module, setup: Setup) -> nn.Module:
        return Explicit(head_masks("forward_backward", setup.heads))

    def mtsa_method(name: str, label: str, layout: str, rival: bool = False) -> OperatorMethod:
        def build(setup: Setup) -> nn.Module:
            def chosen(*tensors: Tensor, **switches: object) -> Tensor:
                return mtsa(*tensors, **switches, backend=setup.backend)  # type: ignore[arg-type]

            return MTSAOperator(algorithm1 if rival else chosen, layout, setup.heads)

        def reference(module: nn.Module, setup: Setup) -> nn.Module:
            return MTSAOperator(mtsa_by_reference, layout, setup.heads)

        return OperatorMethod(name, label, build, reference, count=4)

    return [
        OperatorMethod("sdpa", "dot product", lambda s: Undirected(), lambda m, s: Explicit()),
        OperatorMethod(
            "sdpa:directed",
            "dot product under MTSA's masks",
            lambda s: Directed(),
            directed_reference,
        ),
        mtsa_method("mtsa", "MTSA, half forward, half backward", "forward_backward"),
        mtsa_method("mtsa:undirected", "MTSA without direction", "none"),
        _as_published(
            mtsa_method("mtsa:algorithm1", "MTSA, Algorithm 1", "forward_backward", rival=True)
        ),
    ]


def _disa() -> list[Method]:
    """DiSA as published, as a layer and as an operator, streamed and textbook."""
    config = CONFIGS["disa"].make("code")

    def pair(name: str, label: str, backend: str | None = None) -> list[Method]:
        def build(setup: Setup) -> nn.Module:
            return DiSAOperator(backend or setup.backend)

        def reference(module: nn.Module, setup: Setup) -> nn.Module:
            return DiSAOperator("reference")

        return [
            _layer(name, label, config, wide=True, backend=backend),
            DiSAOperatorMethod(name, label, build, reference),
        ]

    return [*pair("disa", "DiSA"), *pair("disa:textbook", "DiSA, textbook", "reference")]


def _contexts() -> list[Method]:
    """Contexts of sentence encoders that give a vector a token, beside torch's Bi-LSTM.

    A direction is as wide as the input, that of Bi-BloSA four fifths of it (published: 300, 240).
    """
    switches: dict[str, dict[str, Any]] = {"multi_cnn": {"per_token": True}}

    def build(setup: Setup, name: str) -> nn.Module:
        width = setup.embed_dim * 4 // 5 if name == "biblosa" else setup.embed_dim
        return build_context(name, setup.embed_dim, width, **switches.get(name, {}))

    found: list[Method] = [
        ContextMethod(name, f"{_LABELS.get(name, name)}, context", partial(build, name=name))
        for name in CONTEXTS
        if name != "vanilla"
    ]
    torch_lstm = ContextMethod(
        "torch-lstm", "Bi-LSTM, torch", lambda s: BiRecurrent(s.embed_dim, "lstm")
    )
    return [*found, torch_lstm]


def all_methods(extra: Path | None = None) -> list[Method]:
    """Every method that exists.

    Args:
        extra: a Python file whose ``METHODS`` (a list of ``Method``) come in addition.

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


def choose(level: str, names: Sequence[str] | None, extra: Path | None = None) -> list[Method]:
    """The methods of a level, in the order asked for.

    Args:
        level: ``"layer"``, ``"operator"``, ``"encoder"``, ``"context"``, or one of the file's.
        names: as in ``Method.name``; None takes all.
        extra: see ``all_methods``.

    Raises:
        UserError: if a name is unknown at this level.
    """
    known = {method.name: method for method in all_methods(extra) if method.level == level}
    for name in names or ():
        if name not in known:
            raise UserError(
                f"--methods has {name!r}, which is unknown at level {level!r}; allowed are "
                f"{', '.join(known)}"
            )
    return list(known.values()) if names is None else [known[name] for name in names]
