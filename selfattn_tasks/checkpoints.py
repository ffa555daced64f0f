"""Read fairseq checkpoints safely, without importing fairseq.

A checkpoint is a dictionary that ``torch.save`` wrote: ``model`` (the weights), ``cfg`` or ``args``
(every flag of fairseq-train, the model's as an ``argparse.Namespace``), ``task_state``,
``optimizer_history``, ``extra_state`` and ``last_optimizer_state``.
"""

import argparse
import contextlib
import errno
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import nn
from torch.nn.modules.module import _EXTRA_STATE_KEY_SUFFIX

from selfattn.config import CONFIGS
from selfattn.errors import UserError

from . import model_folder
from .files import read_object

Choice = TypeVar("Choice")
# Flags that decide what the weights mean, by how they begin and end; others (data,
# learning rate, a preset's name beside the switches that it set) may differ.
_MODEL_FLAGS = (
    "encoder_", "decoder_", *(f"{name}_" for name in CONFIGS), "share_", "activation_fn",
    "layernorm_", "timing_signal", "features", "tune_features", "characters", "late_layers",
    "word_embed_dim", "context", "embed_dim", "hidden_size", "head_hidden_size", "highway", "pool",
    "no_scale_embedding", "no_token_positional_embeddings",
)  # fmt: skip
_NO_MODEL_FLAGS = (
    "_dropout", "_path", "_layerdrop", "_to_keep", "_preset", "_projections", "_init_gain",
    "_bias_init", "_backend", "_test_selection", "_test_seed", "_dropout_in", "_dropout_out",
    "_freeze_embed",
)  # fmt: skip


@contextlib.contextmanager
def allow_types() -> Iterator[None]:
    """Let ``torch.load`` read, in a block, the harmless types that fairseq stores beside tensors.

    With ``weights_only`` it still refuses to run any other code. Not once per process:
    transformers' Trainer, when it resumes, makes torch forget numpy's types for good.
    """
    import numpy as np

    dtypes = ("float64", "float32", "int64", "int32", "bool")
    functions = {
        "_reconstruct": np.array(0).__reduce__()[0],
        "scalar": np.float64(0).__reduce__()[0],
    }
    # A checkpoint names numpy's functions by the module of the numpy that wrote it: 1.x or 2.x.
    aliases = [
        (function, f"numpy.{core}.multiarray.{name}")
        for name, function in functions.items()
        for core in ("core", "_core")
    ]
    numpy_types = [np.ndarray, np.dtype, *(type(np.dtype(name)) for name in dtypes)]
    wanted: list[Any] = [argparse.Namespace, *numpy_types, *aliases]
    # torch's context forgets its types at the end, even those that were allowed before it.
    allowed = torch.serialization.get_safe_globals()
    with torch.serialization.safe_globals([kind for kind in wanted if kind not in allowed]):
        yield


@contextlib.contextmanager
def explain_reading(path: str | os.PathLike[str], sums: bool = True) -> Iterator[None]:
    """Check a file's checksums, and turn what the block raises into a :class:`UserError`.

    ``torch.load`` ignores the checksums in a checkpoint; verifying them here takes about as long as
    the loading itself, and ``sums=False`` leaves it out.

    Raises:
        UserError: the file is missing, empty, truncated, damaged, not a checkpoint, or contains
            other classes.
    """
    try:
        if sums:
            _check_sums(Path(path))
        yield
    except UserError:
        raise
    except FileNotFoundError as error:
        raise UserError(f"the checkpoint {path} does not exist") from error
    except OSError as error:
        short = error.errno == errno.EINVAL and Path(path).is_file()  # of mmap
        reason = _damaged(Path(path)) if short else error.strerror or error
        raise UserError(f"cannot read the checkpoint {path}: {reason}") from error
    except Exception as error:  # a malformed pickle raises whatever its opcodes run into
        if "allocate" in str(error):  # out of memory: the file may be fine
            raise
        blocked = re.search(r"GLOBAL ([\w.]+)", str(error))
        if blocked:  # without its cause: torch's text tells how to load the object all the same
            raise UserError(
                f"the checkpoint {path} is refused: it holds {blocked.group(1)}, which is not "
                "loaded for safety; a checkpoint of fairseq holds tensors, numbers and text"
            ) from None
        raise UserError(
            f"cannot read the checkpoint {path}: {_reason(Path(path), error)}"
        ) from error


def _check_sums(path: Path) -> None:
    """Refuse a checkpoint if one of its records does not have the checksum stored with it."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        if file.read(2) != b"PK":
            return  # torch's old format has no checksums; torch says what is wrong with the rest
    try:
        with zipfile.ZipFile(path) as archive:
            record = archive.testzip()
    except Exception as error:  # a damaged directory makes zipfile raise a dozen types
        raise UserError(f"cannot read the checkpoint {path}: {_damaged(path)}") from error
    if record:
        reason = f"the checksum of {record} does not match, and {_damaged(path)}"
        raise UserError(f"cannot read the checkpoint {path}: {reason}")


def _damaged(path: Path) -> str:
    return (
        f"the file is truncated or damaged ({path.stat().st_size:,} bytes); use another checkpoint "
        "of the run, for example an earlier epoch's"
    )


def _reason(path: Path, error: Exception) -> str:
    """Say in a few words why a file is not readable as a checkpoint."""
    if path.stat().st_size == 0:
        return "the file is empty"
    if "EOF" in str(error) or "PytorchStreamReader" in str(error):
        return _damaged(path)
    return (
        f"it is not a fairseq checkpoint ({type(error).__name__}); fairseq-train writes files such "
        "as checkpoint_best.pt"
    )


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a checkpoint onto the CPU.

    Args:
        path: the file, or the weights of a folder that ``model_folder`` wrote.

    Returns:
        the checkpoint; ``["model"]`` maps names to tensors.

    Raises:
        UserError: the file is missing, damaged or not a fairseq checkpoint, or a weight is NaN or
            infinite.
    """
    with explain_reading(path):
        state = _load(path)
        check_content(state, path)
    return state


def by_task(path: str | os.PathLike[str], table: Mapping[str, Choice], otherwise: Choice) -> Choice:
    """What a table has for a checkpoint's task; weights are not read, and so not checked.

    Args:
        path: as for `read`.
        table: keys of the checkpoint's ``task_state``, such as ``sentences``.
        otherwise: for a task of fairseq's own, which stores none of them.

    Raises:
        UserError: the file is missing, damaged or no fairseq checkpoint.
    """
    with explain_reading(path, sums=False):
        if Path(path).name == model_folder.WEIGHTS:
            state = read_object(Path(path).with_name(model_folder.CONFIG))
        else:
            state = _load(path, mmap=zipfile.is_zipfile(path))
        found = state.get("task_state") if isinstance(state, dict) else None
    stored = found if isinstance(found, dict) else {}
    return next((table[key] for key in table if key in stored), otherwise)


def _load(path: str | os.PathLike[str], mmap: bool = False) -> dict[str, Any]:
    if Path(path).name == model_folder.WEIGHTS:
        return model_folder.read(path)
    with allow_types():
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=mmap)
    return state


def updates(path: str | os.PathLike[str]) -> int:
    """How many optimizer steps had been done when the checkpoint ``path`` was saved.

    Raises:
        UserError: the file is missing, truncated or not a fairseq checkpoint, or has no history.
    """
    try:
        return int(read(path)["optimizer_history"][-1]["num_updates"])
    except LookupError:
        raise UserError(f"{path} does not say after how many updates it was saved") from None


def is_weight(name: str) -> bool:
    """Whether an entry of a ``state_dict`` is no extra state, where a module may store anything."""
    return not name.endswith(_EXTRA_STATE_KEY_SUFFIX)


def check_content(state: Any, path: str | os.PathLike[str]) -> None:
    """Check that what was read from ``path`` is a fairseq checkpoint with finite weights.

    Raises:
        UserError: it lacks ``model``, or both ``cfg`` and ``args``, or a weight is not finite.
    """
    keys = list(state) if isinstance(state, dict) else [type(state).__name__]
    has_flags = isinstance(state, dict) and (state.get("cfg") or state.get("args"))
    if "model" not in keys or not has_flags:
        found = ", ".join(map(str, keys[:5])) or "nothing"
        raise UserError(
            f"{path} is not a fairseq checkpoint: it holds {found}, but should hold 'model' and "
            "'cfg'"
        )
    for name, tensor in state["model"].items():
        if not is_weight(name):
            continue
        tensor = torch.view_as_real(tensor) if tensor.is_complex() else tensor
        # The two extremes are NaN if any number is; isfinite() would cost eight times as much.
        real = tensor.is_floating_point() and tensor.numel()
        if real and not torch.stack(tensor.aminmax()).isfinite().all():
            raise UserError(
                f"{path} cannot be used: its weight {name} holds NaN or infinite numbers; use a "
                "checkpoint from before training diverged"
            )


class Distinct:
    """Checks that no two of the checkpoints that are used together are the same."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, ...], str | os.PathLike[str]] = {}

    def add(self, weights: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
        """Add the weights of the checkpoint ``path``.

        Raises:
            UserError: an earlier one, under whatever name, has the same weights.
        """
        # By name: safetensors reads the same file in another order each time.
        names = sorted(filter(is_weight, weights))
        ordered = (weights[name].cpu().contiguous() for name in names)
        tensors = (t.reshape(-1).view(torch.uint8) for t in ordered)
        sums = tuple(zlib.crc32(t.numpy().data) for t in tensors)
        if sums in self._seen:
            raise UserError(
                f"{self._seen[sums]} and {path} hold the same weights, which would count twice"
            )
        self._seen[sums] = path


def fill(model: nn.Module, state: Mapping[str, Any], prefix: str, path: object) -> None:
    """Load the weights of the checkpoint ``path`` whose names begin with ``prefix``, without it.

    Raises:
        UserError: if they are not those of the model.
    """
    weights = state["model"].items()
    own = {name.removeprefix(prefix): value for name, value in weights if name.startswith(prefix)}
    try:
        model.load_state_dict(own)
    except RuntimeError as error:
        raise UserError(f"{path} does not hold the weights that it describes: {error}") from None


def flags(state: dict[str, Any]) -> dict[str, Any]:
    """All flags of a checkpoint's model.

    Args:
        state: a checkpoint, or a dictionary with the model's flags under ``args``.

    Returns:
        values by name as argparse spells it, ``encoder_attention`` for example.
    """
    return _plain(state.get("args") or (state.get("cfg") or {}).get("model"))


def task_flags(state: dict[str, Any]) -> dict[str, Any]:
    """All flags of the task of the checkpoint ``state``, such as ``data`` and ``source_lang``."""
    return _plain((state.get("cfg") or {}).get("task")) or flags(state)


def criterion(state: dict[str, Any]) -> str | None:
    """The name of the criterion that the checkpoint ``state`` was trained with, if it says so."""
    found = _plain((state.get("cfg") or {}).get("criterion"))
    return found.get("_name") or flags(state).get("criterion")


def save_interval(state: dict[str, Any]) -> int:
    """After how many updates a checkpoint by update was due in training; 0: there were none."""
    found = _plain((state.get("cfg") or {}).get("checkpoint")) or flags(state)
    return max(0, int(found.get("save_interval_updates") or 0))


def _plain(found: Any) -> dict[str, Any]:
    """What fairseq stores of a part: a dictionary, or a namespace where it has no dataclass."""
    return dict(vars(found) if isinstance(found, argparse.Namespace) else found or {})


def model_flags(state: dict[str, Any]) -> dict[str, Any]:
    """The :func:`flags` of the checkpoint ``state`` that decide what its weights mean."""
    return {
        name: value
        for name, value in flags(state).items()
        if str(name).startswith(_MODEL_FLAGS) and not str(name).endswith(_NO_MODEL_FLAGS)
    }
