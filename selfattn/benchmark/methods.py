"""All methods by level and name: the family's mechanisms that exist, and their rivals."""

from __future__ import annotations

import copy
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path

from torch import Tensor, nn

from selfattn.benchmark.encoder import EncoderMethod
from selfattn.benchmark.kinds import (
    DiSAOperatorMethod,
    LayerMethod,
    MTSAOperator,
    OperatorMethod,
    Reference,
)
from selfattn.benchmark.method import Method, Setup
from selfattn.benchmark.rivals.algorithm1 import (
    AlgorithmOneLayer,
    algorithm1,
    mtsa_by_reference,
)
from selfattn.benchmark.rivals.convolution import HierarchicalCNN, MultiWindowCNN
from selfattn.benchmark.rivals.disa import DiSABlock, DiSAOperator
from selfattn.benchmark.rivals.dot_product import (
    Directed,
    Explicit,
    MultiHeadAround,
    TorchMultiHead,
    Undirected,
)
from selfattn.benchmark.rivals.recurrent import BiRecurrent
from selfattn.config import CONFIGS, AttentionConfig
from selfattn.errors import UserError
from selfattn.layers import ATTENTIONS, build_attention
from selfattn.masks import head_masks
from selfattn.ops import mtsa


def _multihead_reference(directed: bool = False) -> Reference:
    def reference(module: nn.Module, setup: Setup) -> nn.Module:
        masks = head_masks("forward_backward", setup.heads) if directed else None
        slow = MultiHeadAround(setup.embed_dim, setup.heads, Explicit(masks))
        slow.attention.load_state_dict(module.attention.state_dict())  # type: ignore[union-attr]
        return slow

    return reference


def _family(name: str, preset: str | None) -> LayerMethod:
    """A mechanism of the family in one published form."""
    config = CONFIGS[name].make(preset)
    switchable = "backend" in {field.name for field in fields(config)}

    def build(setup: Setup, backend: str | None = None) -> nn.Module:
        chosen: AttentionConfig = config
        if switchable:
            chosen = config.with_switches(backend=backend or setup.backend)
        return build_attention(chosen, setup.embed_dim, setup.heads)

    def reference(module: nn.Module, setup: Setup) -> nn.Module:
        slow = build(setup, "reference") if switchable else copy.deepcopy(module)
        slow.load_state_dict(module.state_dict())
        return slow

    label = {"mtsa": "MTSA", "multihead": "multi-head layer"}.get(name, name)
    shown = label if preset is None else f"{label} ({preset})"
    return LayerMethod(name if preset is None else f"{name}:{preset}", shown, build, reference)


def _as_published(method: LayerMethod) -> LayerMethod:
    """Algorithm 1 overflows by large scores, also at padded keys: check it with moderate ones."""
    method.garbage = 1.0
    return method


def _algorithm1_layer_reference(module: nn.Module, setup: Setup) -> nn.Module:
    slow = copy.deepcopy(module)
    slow.operator = mtsa_by_reference  # type: ignore[assignment]
    return slow


def _disa_operator() -> Callable[..., Tensor] | None:
    if importlib.util.find_spec("selfattn.ops.disa") is None:
        return None
    found: Callable[..., Tensor] = importlib.import_module("selfattn.ops.disa").disa
    return found


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
        presets: Sequence[str | None] = tuple(CONFIGS[name].presets) or (None,)
        family = [_family(name, preset) for preset in presets]
        if name == "multihead":  # the name belongs to torch's own, the reference
            family[0].name = "multihead:layer"
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
        LayerMethod("multi-cnn", "multi-window CNN", lambda s: MultiWindowCNN(s.embed_dim)),
        LayerMethod("hrchy-cnn", "hierarchical CNN", lambda s: HierarchicalCNN(s.embed_dim)),
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


def _disa(operator: Callable[..., Tensor]) -> list[Method]:
    """DiSA as a layer and as an operator, streamed and textbook."""

    def pair(name: str, label: str, fixed: str | None = None) -> list[Method]:
        def block(setup: Setup) -> nn.Module:
            return DiSABlock(setup.embed_dim, operator, fixed or setup.backend)

        def bare(setup: Setup) -> nn.Module:
            return DiSAOperator(operator, fixed or setup.backend)

        return [
            LayerMethod(name, label, block, _by_reference_backend),
            DiSAOperatorMethod(name, label, bare, _by_reference_backend),
        ]

    return [*pair("disa", "DiSA"), *pair("disa:textbook", "DiSA, textbook", "reference")]


def _by_reference_backend(module: nn.Module, setup: Setup) -> nn.Module:
    slow = copy.deepcopy(module)
    for part in slow.modules():
        if isinstance(part, DiSAOperator):
            part.backend = "reference"
    return slow


def all_methods(extra: Path | None = None) -> list[Method]:
    """Every method that exists.

    Args:
        extra: a Python file whose ``METHODS`` (a list of ``Method``) come in addition.

    Raises:
        UserError: if the file cannot be read or has no such list.
    """
    found = [*_layers(), *_operators()]
    disa = _disa_operator()
    if disa is not None:
        found += _disa(disa)
    found += [
        EncoderMethod(method)
        for method in list(found)
        if method.level == "layer" and method.name.startswith(("multihead", "mtsa"))
    ]
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
        level: ``"layer"``, ``"operator"``, ``"encoder"``, or one of the file's methods' levels.
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
