"""Leave out layers at generation, on one side only."""

import re
from typing import Any

from fairseq import checkpoint_utils

from ._patch import wrap


@wrap(checkpoint_utils, "prune_state_dict")
def prune_one_side(original: Any, state_dict: dict[str, Any], model_cfg: Any) -> Any:
    """Let ``encoder_layers_to_keep`` stand without ``decoder_layers_to_keep``, and vice versa.

    Break: fairseq/checkpoint_utils.py, prune_state_dict, removes all layers of the side that is not
    named, so that the checkpoint does not fit the model. Fix: keep all layers of that side.
    """
    names = {side: f"{side}_layers_to_keep" for side in ("encoder", "decoder")}
    kept = {side: getattr(model_cfg, name, None) for side, name in names.items()}
    if any(kept.values()):
        for side, name in names.items():
            numbers = _layers(state_dict, side)
            if not kept[side] and numbers:
                setattr(model_cfg, name, ",".join(map(str, numbers)))
    return original(state_dict, model_cfg)


def _layers(state: dict[str, Any], side: str) -> list[int]:
    pattern = re.compile(rf"^{side}\.layers\.(\d+)\.")
    return sorted({int(match[1]) for match in map(pattern.match, state) if match})
