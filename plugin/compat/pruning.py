"""Leave out layers at generation, on one side only."""

import re
from argparse import Namespace
from typing import Any

from fairseq import checkpoint_utils

from selfattn.errors import UserError
from selfattn_tasks.cli import option

from ._patch import check_flags, wrap


@check_flags
def refuse_in_training(flags: Namespace) -> None:
    """Refuse layers to keep as flags that train a translation model.

    Break: fairseq/models/transformer/transformer_legacy.py, build_model, expects text, but its
    flags are lists of numbers. Fix: name the way that works.
    """
    for name in ("encoder_layers_to_keep", "decoder_layers_to_keep"):
        if isinstance(getattr(flags, name, None), list):
            raise UserError(
                f"{option(name)} is not for training, where fairseq cannot read it: leave layers "
                f"out of the trained model, by fairseq-generate --model-overrides "
                f"\"{{'{name}': '0'}}\""
            )


@wrap(checkpoint_utils, "prune_state_dict")
def prune_one_side(original: Any, state_dict: dict[str, Any], model_cfg: Any) -> Any:
    """Let ``encoder_layers_to_keep`` stand without ``decoder_layers_to_keep``, and vice versa.

    Break: fairseq/checkpoint_utils.py, prune_state_dict, removes all layers of the side that is not
    named, so that the checkpoint does not fit the model. Fix: keep all layers of that side. Layers
    that the checkpoint lacks are refused.
    """
    names = {side: f"{side}_layers_to_keep" for side in ("encoder", "decoder")}
    kept = {side: getattr(model_cfg, name, None) for side, name in names.items()}
    if any(kept.values()):
        for side, name in names.items():
            numbers = _layers(state_dict, side)
            given = kept[side]
            if given and numbers and not {*map(int, given.split(","))} <= {*numbers}:
                raise UserError(
                    f"{name} is {given!r}, but the checkpoint has the layers "
                    f"{', '.join(map(str, numbers))}"
                )
            if not given and numbers:
                setattr(model_cfg, name, ",".join(map(str, numbers)))
    return original(state_dict, model_cfg)


def _layers(state: dict[str, Any], side: str) -> list[int]:
    pattern = re.compile(rf"^{side}\.layers\.(\d+)\.")
    return sorted({int(match[1]) for match in map(pattern.match, state) if match})
