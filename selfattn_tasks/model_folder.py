"""Hugging Face folders with a tagger or a model of sentences: checkpoints in another form.

``config.json`` holds what a checkpoint stores of its task, words, labels and sizes, and
``model.safetensors`` the weights under the same names, so that whatever reads checkpoints reads
these folders, without transformers. ``selfattn_tasks.hf`` writes them, and has the classes for it.
"""

import os
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from selfattn.errors import UserError, needed

from .files import read_object

CONFIG, WEIGHTS = "config.json", "model.safetensors"
# The task, by fairseq's name -> ``model_type``, and class of ``selfattn_tasks.hf``.
KINDS = {
    "srl_tagging": ("selfattn-srl", "SRLForTokenClassification"),
    "sentences": ("selfattn-sentences", "SentencesForSequenceClassification"),
}

# What ``selfattn_tasks.hf`` does not return.
LACKS = dict.fromkeys(
    ("output_attentions", "output_hidden_states"),
    "the model returns logits and loss alone; `selfattn show` plots its attention",
)


def task_of(config: Mapping[str, Any]) -> str | None:
    """The task of a checkpoint, or of a ``config.json``; None for another than those here."""
    stored = config.get("task_state")
    return next((t for t in KINDS if isinstance(stored, dict) and t in stored), None)


def check_labels(config: Any, count: int) -> None:
    """Refuse ``from_pretrained(num_labels=...)``, which would change the configuration alone.

    Raises:
        UserError: if the configuration does not have as many labels as the model.
    """
    if config.num_labels != count:
        raise UserError(
            f"num_labels {config.num_labels} is not allowed; the model has {count} labels, and "
            "other labels need a model of their own"
        )


def translates(path: Path) -> bool:
    """Whether a file is the ``model.safetensors`` of a translation model of this project.

    Raises:
        UserError: if there is no ``config.json`` beside it.
    """
    kind = ["SelfattnForConditionalGeneration"]
    return path.name == WEIGHTS and read_object(path.parent / CONFIG).get("architectures") == kind


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A folder as the checkpoint that it was made of, without training state.

    Args:
        path: its ``model.safetensors``.

    Raises:
        UserError: if the folder holds another model, is broken, or safetensors is not installed.
    """
    path = Path(path)
    config = read_object(path.parent / CONFIG)
    if task_of(config) is None:
        raise UserError(
            f"{path.parent} holds {config.get('architectures')}, which is neither a tagger nor a "
            "model of sentences; load it with transformers"
        )
    load = needed("safetensors.torch").load
    try:
        weights = load(path.read_bytes())
    except Exception as error:  # safetensors has its own, and the rest is the system's
        raise UserError(f"cannot read the weights {path}: {error}") from None
    return checkpoint(weights, config.get("flags") or {}, config["task_state"])


def checkpoint(
    weights: Mapping[str, Any], args: Mapping[str, Any], task_state: Mapping[str, Any]
) -> dict[str, Any]:
    """A checkpoint for fairseq, of weights by name and flags, that no run can resume from."""
    return {
        "args": Namespace(**args),
        "model": dict(weights),
        "optimizer_history": [
            {"criterion_name": "CrossEntropyCriterion", "optimizer_name": "FairseqAdam"}
            | {"lr_scheduler_state": {"best": None}, "num_updates": 0}
        ],
        "task_state": dict(task_state),
        "extra_state": {"epoch": 0, "batch_offset": 0, "val_loss": None},
        "last_optimizer_state": None,
    }
