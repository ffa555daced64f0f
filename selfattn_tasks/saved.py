"""Files of checkpoints: how they are written, and which one of a run people want."""

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from selfattn.errors import UserError

from .cli import is_disk_full
from .files import read_object, writing
from .model_folder import WEIGHTS

# By preference; the last one is the name in fairseq's published folders.
CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt", "model.pt")
# What `selfattn runs` says of a run that is done, in the run's folder.
RECORD = "run.json"
# Models that come with this package, under the names of their folders.
SHIPPED = Path(__file__).resolve().parent / "pretrained"
# Of one model, or of several that are an ensemble.
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


def find_model(path: Path) -> Path:
    """The path, or where nothing has it, the folder of a model that comes with this package."""
    shipped = SHIPPED / path
    # Not Path.exists, which raises an error for a name that is too long, as a text may be.
    is_name = len(path.parts) == 1 and os.path.isdir(shipped) and not os.path.exists(path)
    return shipped if is_name else path


def find_checkpoint(path: Path) -> Path:
    """The checkpoint itself, the best, else the last one of a folder, or that which a run tested.

    Args:
        path: a checkpoint, a ``--save-dir``, a run's folder of `selfattn runs`, a Hugging Face
            folder, or, where nothing has that path, the name of a model that comes with this
            package (``srl-en-small``).

    Raises:
        UserError: if a folder holds none, or a model in several files.
    """
    path = find_model(path)
    if not os.path.exists(path) and len(path.parts) == 1 and not path.suffix:
        shipped = sorted(folder.name for folder in SHIPPED.iterdir() if folder.is_dir())
        raise UserError(
            f"{path} does not exist; give a checkpoint, a folder, or a model that comes with this "
            f"package: {', '.join(shipped)}"
        )
    if not os.path.isdir(path):
        return path
    there = [path / name for name in (*CHECKPOINTS, WEIGHTS) if (path / name).is_file()]
    if not there and (index := path / f"{WEIGHTS}.index.json").is_file():
        raise UserError(
            f"{index} lists several files of weights, but one is needed, {WEIGHTS}; save the model "
            "with a larger max_shard_size"
        )
    if not there and (record := path / RECORD).is_file():
        found = tested(path, read_object(record))
        there = [found] if found is not None and found.is_file() else []
    if not there:
        inside = path / "checkpoints"
        hint = f"; name a file in {inside}" if inside.is_dir() else ""
        raise UserError(f"{path} holds no {' or '.join((*CHECKPOINTS, WEIGHTS))}{hint}")
    return there[0]


def read_each(paths: Paths) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Checkpoints, found as by :func:`find_checkpoint`, and what each holds.

    Raises:
        UserError: if there is none, one is missing or broken, or two hold the same weights.
    """
    from .checkpoints import Distinct, read  # torch takes seconds

    paths = [paths] if isinstance(paths, str | os.PathLike) else paths
    if not paths:
        raise UserError("no checkpoint is given, but at least one is needed")
    seen = Distinct()
    for path in map(find_checkpoint, map(Path, paths)):
        state = read(path)
        seen.add(state["model"], path)
        yield path, state


def tested(folder: Path, record: Mapping[str, Any]) -> Path | None:
    """The checkpoint of a run's folder that was tested, by the record; None if it is silent."""
    test = record.get("test")
    if not isinstance(test, dict):
        return None
    if test.get("average"):
        return folder / "average.pt"
    name = test.get("checkpoint")
    return folder / "checkpoints" / f"checkpoint_{name}.pt" if name else None


def write(state: Any, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint so that *path* is at any time the old file or the whole new one.

    Raises:
        UserError: the disk is full.
    """
    import torch  # seconds, and commands look for models before anything else

    with _writing(Path(path), _tensor_bytes(state)) as file:
        torch.save(state, file)


def copy(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Copy a file so that *target* is at any time the old file or the whole new one.

    Raises:
        UserError: the disk is full.
    """
    with open(source, "rb") as old, _writing(Path(target), os.path.getsize(source)) as new:
        shutil.copyfileobj(old, new, 1 << 20)


@contextlib.contextmanager
def _writing(path: Path, needed: int) -> Iterator[IO[bytes]]:
    """`files.writing`, with one sentence for a full disk."""
    folder = os.path.dirname(os.path.realpath(path))
    free = shutil.disk_usage(folder).free if os.path.isdir(folder) else 0
    try:
        with writing(path) as file:
            yield file
    except Exception as error:
        full = _disk_full(error)
        if full is None:
            raise
        raise UserError(
            f"cannot write {path}: {full.strerror}; the file needs about {_size(needed)} and "
            f"{_size(free)} were left; files written before are intact, so free some space "
            "and run the same command again"
        ) from error


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} KB"


def _disk_full(error: BaseException | None) -> OSError | None:
    """Find the full disk behind an error: torch.save reports it as a RuntimeError."""
    while error is not None:
        if is_disk_full(error):
            return error
        error = error.__cause__ or error.__context__
    return None


def _tensor_bytes(state: Any) -> int:
    """Size in bytes of all tensors in nested containers: nearly the size of the file."""
    from torch import Tensor

    if isinstance(state, Tensor):
        return state.numel() * state.element_size()
    if isinstance(state, dict):
        return sum(map(_tensor_bytes, state.values()))
    if isinstance(state, list | tuple):
        return sum(map(_tensor_bytes, state))
    return 0
