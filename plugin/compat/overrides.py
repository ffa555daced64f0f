"""``--model-overrides`` and ``--optimizer-overrides``: dictionaries of what there is to change."""

import re
from argparse import SUPPRESS, ArgumentParser, Namespace
from collections.abc import Mapping
from typing import Any

from selfattn.config import CONFIGS
from selfattn.errors import UserError
from selfattn_tasks.cli import option

from ..args import add_attention_args
from ._patch import check_flags
from .literals import literal

# What only training can choose: it would change nothing, or fit no weights.
_FIXED = ("_preset", "_projections", "encoder_attention")
_LAYERS = re.compile(r"\d+(, *\d+)*")


@check_flags
def check_overrides(flags: Namespace) -> None:
    """Refuse overrides that are not dictionaries, and switches of attentions that are none.

    Break: fairseq's commands end in a traceback, or run them, and add whatever is named to the
    model's flags, where it does nothing. Fix: look before anything is loaded.
    """
    for name in ("optimizer_overrides", "model_overrides"):
        text = getattr(flags, name, None) or "{}"
        given = literal(text)
        if not (isinstance(given, dict) and all(isinstance(key, str) for key in given)):
            raise UserError(
                f"{option(name)} is {text!r}, but must be a dictionary such as {{'a': 1}}"
            )
    _check_layers(given)
    _check_switches(given)


def _check_layers(given: Mapping[str, Any]) -> None:
    """Refuse layers to keep that fairseq could not read."""
    for name in ("encoder_layers_to_keep", "decoder_layers_to_keep"):
        kept = given.get(name)
        if kept is not None and not (isinstance(kept, str) and _LAYERS.fullmatch(kept)):
            raise UserError(
                f"--model-overrides has {name} {kept!r}, but must name layers, as in '0,2'"
            )


def _check_switches(given: Mapping[str, Any]) -> None:
    """Refuse what looks like a switch of an attention and is none."""
    prefixes = tuple(f"{name}_" for name in CONFIGS)
    named = [key for key in given if key.startswith(prefixes) or key == "encoder_attention"]
    if not named:
        return
    parser = ArgumentParser(argument_default=SUPPRESS)
    add_attention_args(parser)
    known = {action.dest for action in parser._actions}
    for key in named:
        if key not in known or key.endswith(_FIXED):
            why = "is fixed by training" if key in known else "is no flag of an attention"
            raise UserError(
                f"--model-overrides names {key}, which {why}; name switches of the attention"
            )
