"""Where the parts of a trained translation model lie."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from selfattn.errors import UserError

from .. import checkpoints
from ..saved import CHECKPOINTS

# Its name in fairseq's published folders, and in those of `selfattn prepare translation`.
_SENTENCEPIECE = ("sentencepiece.bpe.model", "spm.model")


def find_parts(
    folder: Path, checkpoint_file: str | None = None, data: str | None = None
) -> dict[str, str]:
    """Find what fairseq's ``from_pretrained`` needs to load the model in *folder*.

    Args:
        folder: a run's ``--save-dir``, or a folder with a checkpoint, its dictionaries and its
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
    given = None if data is None else folder / data if data.startswith(".") else Path(data)
    place, model = find_data(folder, given, lambda: checkpoints.read(folder / there[0]))
    found = {"checkpoint_file": checkpoint_file or there[0], "data_name_or_path": str(place)}
    if model is not None:
        found |= {"bpe": "sentencepiece", "sentencepiece_model": str(model)}
    return found


def find_data(
    folder: Path, data: Path | None, read: Callable[[], dict[str, Any]]
) -> tuple[Path, Path | None]:
    """The folder of a model's dictionaries, and its SentencePiece model if there is one.

    Args:
        folder: of the checkpoint.
        data: as for :func:`find_parts`, but below the working folder.
        read: gives the checkpoint, where that must say what it was trained on.

    Raises:
        UserError: there are no dictionaries.
    """
    place = data or folder
    if data is None and not _has_dictionaries(folder):
        place = Path(str(checkpoints.task_flags(read()).get("data") or "").split(os.pathsep)[0])
    place = place.absolute()
    if not _has_dictionaries(place):
        raise UserError(
            f"{place} holds no dict.LANGUAGE.txt of the model in {folder}; copy the dictionaries, "
            f"spm.model and prepared.json to {folder}, or name their folder to export or show with "
            "--data, in Python with data_name_or_path"
        )
    models = (
        (where / name).absolute()
        for where in (folder, place, place.parent)
        for name in _SENTENCEPIECE
    )
    return place, next(filter(Path.is_file, models), None)


def _has_dictionaries(folder: Path) -> bool:
    return any(folder.glob("dict.*.txt"))
