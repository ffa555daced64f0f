"""Where the parts of a trained translation model lie."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from selfattn.errors import UserError

from .. import checkpoints
from ..saved import CHECKPOINTS

# Its name in fairseq's published folders, and in those of `selfattn prepare translation`.
_SENTENCEPIECE = ("sentencepiece.bpe.model", "spm.model")


def find_parts(
    folder: Path, checkpoint_file: str | None = None, data: str | None = None
) -> dict[str, Any]:
    """Find what fairseq's ``from_pretrained`` needs to load the model in *folder*.

    Args:
        folder: a training's ``--save-dir``, or a folder with a checkpoint, its dictionaries and its
            SentencePiece model.
        checkpoint_file: the file's name; the default is the best, else the last checkpoint.
        data: folder of the dictionaries, below *folder* if it begins with a dot, as in fairseq; the
            default is *folder* if they are there, else the folder that the model was trained on.

    Returns:
        keyword arguments of ``from_pretrained``; with the SentencePiece model, if
        one lies in *folder*, with the dictionaries, or in the folder above them.

    Raises:
        UserError: there is no such checkpoint, or there are no dictionaries.
    """
    names = CHECKPOINTS if checkpoint_file is None else tuple(checkpoint_file.split(os.pathsep))
    there = [name for name in names if (folder / name).is_file()]
    if not there or (checkpoint_file is not None and len(there) < len(names)):
        raise UserError(f"{folder} holds no {' or '.join(n for n in names if n not in there)}")
    if data is not None:
        dictionaries = folder / data if data.startswith(".") else Path(data)
    elif _has_dictionaries(folder):
        dictionaries = folder
    else:
        dictionaries = Path(_trained_on(folder / there[0])).absolute()
    if not _has_dictionaries(dictionaries):
        raise UserError(
            f"{dictionaries} holds no dict.LANGUAGE.txt of the model in {folder}; copy the "
            f"dictionaries, spm.model and prepared.json to {folder}, or name their folder to "
            "export or show with --data, in Python with data_name_or_path"
        )
    dictionaries = dictionaries.absolute()
    found: dict[str, Any] = {
        "checkpoint_file": there[0] if checkpoint_file is None else checkpoint_file,
        "data_name_or_path": str(dictionaries),
    }
    for place in (folder, dictionaries, dictionaries.parent):
        for name in _SENTENCEPIECE:
            if (place / name).is_file():
                model = str((place / name).absolute())
                return {**found, "bpe": "sentencepiece", "sentencepiece_model": model}
    return found


def _has_dictionaries(folder: Path) -> bool:
    return any(folder.glob("dict.*.txt"))


def _trained_on(path: Path) -> str:
    """The first data folder that a checkpoint was trained on; "" if it does not say."""
    flags = checkpoints.task_flags(checkpoints.read(path))
    return str(flags.get("data") or "").split(os.pathsep)[0]
