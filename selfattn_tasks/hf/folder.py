"""Write taggers and models of sentences as folders that ``selfattn_tasks.model_folder`` reads."""

import copy
from pathlib import Path
from typing import Any

from safetensors.torch import save

from selfattn.errors import UserError

from .. import checkpoints
from ..files import write_json, writing
from ..model_folder import CONFIG, KINDS, WEIGHTS, task_of
from ..sentences.model.predictor import Predictor as SentencePredictor
from ..sentences.record import SCORES, Kind
from ..srl.tagger.predictor import Predictor as RolePredictor
from ..words.vocabulary import Vocabulary
from .tokenizer import WordTokenizer

# Flags of the way back to fairseq, besides those that decide what weights mean.
_FLAGS = ("arch", "target", "initialiser")


def write(state: dict[str, Any], folder: Path, path: Path) -> tuple[dict[str, Any], int]:
    """Write a checkpoint as a folder, with a tokenizer; weights keep their precision.

    Args:
        state: of a tagger or a model of sentences.
        folder: what to fill.
        path: of the checkpoint.

    Returns:
        the content of ``config.json``, and the number of parameters.

    Raises:
        UserError: if the checkpoint contradicts itself, or the model reads a frozen encoder, which
            is no part of it.
    """
    task = task_of(state)
    assert task is not None
    (SentencePredictor if task == "sentences" else RolePredictor).load(path)  # or say why not
    stored = copy.deepcopy(state["task_state"][task])
    stored.get("meta", {}).pop("inputs", None)  # paths of another machine
    flags = _flags(state, task)
    features = stored["config"].get("features")
    if features and not features["tuned"]:
        raise UserError(
            f"{path} reads the encoder in {features['folder']}, which is no part of it; only "
            "taggers without --features or with --tune-features are exported"
        )
    if features:
        features["folder"] = flags["features"] = Path(features["folder"]).name
    labels = stored["vocabulary"]["labels"] or [str(score) for score in SCORES]
    model_type, architecture = KINDS[task]
    config = {
        "model_type": model_type,
        "architectures": [architecture],
        "dtype": "float32",  # in which transformers computes, however the file stores it
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
        "flags": flags,
        "task_state": {task: stored},
    }
    weights = {name: tensor.contiguous() for name, tensor in state["model"].items()}
    write_json(folder / CONFIG, config)
    with writing(folder / WEIGHTS) as file:
        file.write(save(weights, {"format": "pt"}))
    meta, vocabulary = stored.get("meta", {}), Vocabulary.from_state(stored["vocabulary"])
    pairs = bool(meta) and Kind(meta["kind"]).shape == "pair"
    WordTokenizer.build(vocabulary, meta.get("tokens"), pairs).save_pretrained(folder)
    return config, sum(t.numel() for name, t in weights.items() if not name.endswith(".frozen"))


def _flags(state: dict[str, Any], task: str) -> dict[str, Any]:
    """The flags with which fairseq builds the model again, and trains it further."""
    given = checkpoints.flags(state).items()
    more = {n: v for n, v in given if n in _FLAGS or str(n).endswith("dropout")}
    criterion = checkpoints.criterion(state)
    return checkpoints.model_flags(state) | more | {"task": task, "criterion": criterion}
