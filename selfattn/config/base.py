"""What all configurations share: switches, presets, validation.

A field's metadata holds its help text and its allowed values; the fairseq plugin makes its flags
from the same metadata, so that a switch is described in one place.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from numbers import Real
from typing import Any, ClassVar, ParamSpec, TypeVar, get_type_hints

from ..errors import LARGEST, UserError, check_boolean, check_integer, check_rate, meant

ACTIVATIONS = ("none", "relu", "elu", "gelu", "tanh")
BACKENDS = ("auto", "fused", "eager", "reference")
DISTANCES = ("none", "linear", "log")
SHARINGS = ("per_head", "shared", "joint")  # of a source2token network, by the heads
P = ParamSpec("P")
C = TypeVar("C", bound="AttentionConfig")


def switch(
    default: Any,
    help: str,
    choices: tuple[str, ...] | None = None,
    *,
    least: int = 1,
    most: int = LARGEST,
    positive: bool = False,
) -> Any:
    """A field of a configuration with its help text and what it may hold.

    Args:
        default: its default.
        help: its help text.
        choices: its values, where they are few.
        least: smallest value of a field with the type int.
        most: largest value of a field with the type int.
        positive: whether a field with the type float must be above 0.
    """
    limits = {"least": least, "most": most, "positive": positive}
    return field(default=default, metadata={"help": help, "choices": choices, **limits})


def constant(value: Any) -> Any:
    """A field that a mechanism inherits and has no choice about: no flag is made of it."""
    return field(default=value, metadata={"help": "fixed", "choices": (value,)})


# The projections of fairseq's multi-head attention: biases, and a smaller start of q, k and v.
FAIRSEQS = {
    **dict.fromkeys(("qk_bias", "value_bias", "output_bias"), True),
    "qkv_init_gain": 1 / math.sqrt(2),
}


def is_constant(f: Field[Any]) -> bool:
    """Whether a field of a configuration was made by :func:`constant`."""
    return len(f.metadata.get("choices") or ()) == 1


@dataclass(frozen=True)
class AttentionConfig:
    """What all mechanisms share. Subclasses add switches and presets.

    Raises:
        UserError: if a switch has a value that is not allowed.
    """

    name: ClassVar[str] = ""
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    default_preset: ClassVar[str | None] = None
    # What checkpoints have that were made before a switch was one: what was fixed then.
    formerly: ClassVar[Mapping[str, Any]] = {}

    attention_dropout: float = switch(0.0, "probability of dropping an attention weight")

    @classmethod
    def make(
        cls: Callable[P, C], preset: str | None = None, *args: P.args, **switches: P.kwargs
    ) -> C:
        """A configuration from a preset and the switches that differ from it.

        Args:
            preset: a name from ``presets``; None takes ``default_preset``.
            *args: none; type checkers need it beside the switches.
            **switches: fields of the class; they win over the preset.

        Returns:
            The validated configuration.

        Raises:
            UserError: if the preset, a switch or a value is unknown.
        """
        own: Any = cls  # a type of which checkers know the constructor's keywords alone
        preset = own.default_preset if preset is None else preset
        if preset is not None and (not isinstance(preset, str) or preset not in own.presets):
            allowed = ", ".join(own.presets) or "none: it has no presets"
            raise UserError(f"preset {preset!r} is unknown for {own.name!r}; allowed: {allowed}")
        own._check_names(switches)
        base = own.presets[preset] if preset is not None else {}
        return own(*args, **{**base, **switches})

    @classmethod
    def checked(cls: type[C], config: Any) -> C:
        """What a layer was given as its configuration.

        Raises:
            UserError: if it is none of this mechanism.
        """
        # By name, too: a configuration may inherit the switches of another mechanism's.
        if not isinstance(config, cls) or config.name != cls.name:
            raise UserError(
                f"config is {config!r}; it must be a configuration of {cls.name!r}, such as "
                f"{cls.__name__}.make()"
            )
        return config

    def with_switches(self: C, **switches: Any) -> C:
        """A copy with some switches changed.

        Raises:
            UserError: if a switch or a value is unknown.
        """
        self._check_names(switches)
        return replace(self, **switches)

    @classmethod
    def switch_names(cls) -> list[str]:
        """The fields that are a choice."""
        return [f.name for f in fields(cls) if not is_constant(f)]

    @classmethod
    def as_fairseq(cls) -> dict[str, Any]:
        """Switches for the projections of fairseq's multi-head attention; none of Fast-DiSA."""
        known = cls.switch_names()  # multihead has these projections in any case
        return {s: v for s, v in FAIRSEQS.items() if s in known and "output_bias" in known}

    @classmethod
    def _check_names(cls, switches: Mapping[str, Any]) -> None:
        known = cls.switch_names()
        for name in switches:
            if name not in known:
                near = meant(name, known)
                hint = f"do you mean {near!r}? " if near else ""
                raise UserError(
                    f"attention {cls.name!r} has no switch {name!r}; {hint}its switches are "
                    f"{', '.join(known)}"
                )

    def __post_init__(self) -> None:
        types = get_type_hints(type(self))
        for f in fields(self):
            value = getattr(self, f.name)
            choices = f.metadata.get("choices")
            if choices is not None and value not in choices:
                raise UserError(
                    f"{f.name} {value!r} is not allowed for attention {self.name!r}; allowed are "
                    f"{', '.join(map(str, choices))}"
                )
            if isinstance(f.default, bool):
                check_boolean(f.name, value)
            if is_constant(f) or (value is None and f.default is None):
                continue
            if types[f.name] in (int, int | None) and "least" in f.metadata:
                value = check_integer(f.name, value, f.metadata["least"], f.metadata["most"])
                object.__setattr__(self, f.name, value)  # of numpy's, too
            if types[f.name] is float:
                if not (isinstance(value, Real) and math.isfinite(value)):
                    raise UserError(
                        f"{f.name} {value!r} is not allowed; it must be a finite number"
                    )
                object.__setattr__(self, f.name, float(value))
            if f.name.endswith("dropout"):
                check_rate(f.name, value)
            if f.metadata.get("positive") and not value > 0:
                raise UserError(f"{f.name} {value} is not allowed; it must be above 0")
