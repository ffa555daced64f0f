"""Flags <-> configuration; no other file knows both.

Every field of a mechanism's configuration is a flag ``--<mechanism>-<field>``; its help text and
choices come from the field. A flag that is not given leaves the preset's value, and the resolved
values are written back into the arguments, so that a checkpoint holds its complete configuration.
"""

import argparse
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection
from dataclasses import Field, fields
from typing import Any

from selfattn.config import CONFIGS, AttentionConfig
from selfattn.config.base import is_constant
from selfattn.errors import UserError, check_choice
from selfattn.layers import ATTENTIONS
from selfattn_tasks.cli import option

# Without a switch it is fairseq's attention with fairseq's flags in translation, and the core's
# layer in tagging; with a switch, the core's layer in both.
BASELINE = "multihead"
# fairseq's own --attention-dropout sets it.
_NOT_A_FLAG = ("attention_dropout",)


def add_attention_args(parser: ArgumentParser, others: Collection[str] = ()) -> None:
    """Add ``--encoder-attention`` and the switches of every mechanism to fairseq's parser.

    Args:
        parser: with ``argument_default=argparse.SUPPRESS``, as fairseq makes it for a model: a flag
            that is not given must leave no trace in the arguments.
        others: what else may take the place of the attention; it has no switches.
    """
    parser.add_argument(
        "--encoder-attention",
        choices=(*ATTENTIONS, *others),
        help="self-attention of the encoder; multihead is dot-product attention: fairseq's own in "
        "translation, unless a --multihead switch asks for more",
    )
    for name, config in CONFIGS.items():
        if config.as_fairseq():
            parser.add_argument(
                option(f"{name}_projections"),
                choices=("fairseq", "preset"),
                help="biases and initialisation of the projections: as in fairseq's multi-head "
                "attention (default), so that the mechanism is all that differs, or as the "
                "preset's",
            )
    add_switches(parser)


def add_switches(parser: ArgumentParser) -> None:
    """Add the presets and switches of every mechanism to fairseq's parser."""
    for name, config in CONFIGS.items():
        if config.presets:
            parser.add_argument(
                option(f"{name}_preset"),
                choices=tuple(config.presets),
                help=f"published form of {name} (default: the architecture's)",
            )
        for f in _switches(config):
            _add_switch(parser, option(f"{name}_{f.name}"), f)


def attention_config(args: Namespace) -> AttentionConfig | None:
    """The configuration that the arguments ask for; None for the baseline without a switch.

    The resolved values are written back into ``args``.

    Raises:
        UserError: if a switch belongs to another mechanism or has a value that is not allowed.
    """
    name = getattr(args, "encoder_attention", BASELINE)
    check_choice("--encoder-attention", name, ATTENTIONS)
    config_class = CONFIGS[name]
    switches = given_switches(args, name, "--encoder-attention")
    known = {f.name for f in _switches(config_class)}
    if known - switches.keys() <= config_class.formerly.keys():  # resolved: a checkpoint's
        switches = {**config_class.formerly, **switches}
    if getattr(args, f"{name}_projections", "fairseq") == "fairseq":
        switches = config_class.as_fairseq() | switches
    switches["attention_dropout"] = float(getattr(args, "attention_dropout", 0.0))
    try:
        config = config_class.make(getattr(args, f"{name}_preset", None), **switches)
    except UserError as error:
        raise UserError(f"--encoder-attention {name}: {error}") from None
    if config == CONFIGS[BASELINE].make(attention_dropout=config.attention_dropout):
        return None
    store_switches(args, config)
    return config


def given_switches(args: Namespace, name: str, flag: str) -> dict[str, Any]:
    """The switches of a mechanism that are given, by the names of its configuration.

    Args:
        args: fairseq's model arguments.
        name: the mechanism, or anything else that is chosen in its place and has none.
        flag: what chose it, for the message.

    Raises:
        UserError: if a switch of another mechanism is given.
    """
    given = {}
    for owner, config in CONFIGS.items():
        for f in _switches(config):
            switch = f"{owner}_{f.name}"
            if not hasattr(args, switch):
                continue
            if owner != name:  # it would change nothing: that is a mistake, a preset a habit
                raise UserError(
                    f"{option(switch)} {getattr(args, switch)} is a switch of {flag} {owner}, not "
                    f"of {name}; leave it out"
                )
            given[f.name] = getattr(args, switch)
    return given


def store_switches(args: Namespace, config: AttentionConfig) -> None:
    """Write what was resolved back into the arguments, for the checkpoint."""
    for f in _switches(type(config)):
        setattr(args, f"{config.name}_{f.name}", getattr(config, f.name))


def mechanisms() -> list[str]:
    """The names of all attentions but the baseline."""
    return [name for name in ATTENTIONS if name != BASELINE]


def set_defaults(args: Any, **values: Any) -> None:
    """Set arguments that are not given; the first thing that an architecture does.

    Raises:
        SystemExit: if the arguments are those of fairseq-hydra-train, which cannot handle flags
            that are added the argparse way, and prints the traceback of any other exception.
    """
    if not isinstance(args, Namespace):
        raise SystemExit(
            f"fairseq-hydra-train: error: model {args.get('_name')} has no Hydra configuration; "
            "train it with fairseq-train --arch, whose flags have the same names"
        )
    for name, value in values.items():
        setattr(args, name, getattr(args, name, value))


def choose_presets(args: Namespace, published: str | None = None) -> None:
    """Choose a preset for each mechanism that has none: its default, unless it has ``published``.

    That one is published for a kind of model, such as ``"nmt"``.
    """
    for name in mechanisms():
        config = CONFIGS[name]
        preset = published if published in config.presets else config.default_preset
        set_defaults(args, **{f"{name}_preset": preset})


def check_heads(embed_dim: int, num_heads: int, side: str = "encoder") -> None:
    """Refuse heads that do not divide the width of the encoder or decoder.

    Raises:
        UserError: if they do not.
    """
    if num_heads < 1 or embed_dim % num_heads:
        raise UserError(
            f"--{side}-attention-heads {num_heads} does not divide --{side}-embed-dim "
            f"{embed_dim}; choose a divisor of it"
        )


def _switches(config: type[AttentionConfig]) -> list[Field[Any]]:
    return [f for f in fields(config) if f.name not in _NOT_A_FLAG and not is_constant(f)]


def _add_switch(parser: ArgumentParser, flag: str, f: Field[Any]) -> None:
    """Add the flag of one field, which is absent from the arguments unless given."""
    how: dict[str, Any] = {"type": _parser_of(f), "metavar": f.name.upper()}
    if isinstance(f.default, bool):
        how = {"action": argparse.BooleanOptionalAction}
    elif f.metadata["choices"]:
        how = {"choices": f.metadata["choices"]}
    parser.add_argument(flag, help=f.metadata["help"], **how)


def _parser_of(f: Field[Any]) -> Callable[[str], Any]:
    """The parser of a flag's value, by the type of the field; a default of None means integer."""
    if f.name == "window":
        return _windows
    if f.name == "block_length":
        return _block_length
    if f.default is None:
        return int
    return type(f.default)


def _windows(text: str) -> int | tuple[int, ...]:
    """Parse ``5`` or ``3,5,7,9``."""
    try:
        sizes = tuple(int(size) for size in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a window; give a whole number, or one for each head as in 3,5,5,9"
        ) from None
    return sizes if len(sizes) > 1 else sizes[0]


def _block_length(text: str) -> int:
    """Parse ``5``, or ``auto`` as 0."""
    if text != "auto" and not text.isdecimal():
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a block length; give a number of tokens, or auto"
        )
    return 0 if text == "auto" else int(text)
