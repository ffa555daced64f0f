"""Average the weights of several checkpoints of one run."""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from selfattn.errors import UserError
from selfattn_tasks.checkpoints import (
    Distinct,
    criterion,
    flags,
    is_weight,
    model_flags,
    read,
    save_interval,
    updates,
)
from selfattn_tasks.cli import option

logger = logging.getLogger(__name__)

_PATTERNS = {
    "epoch": re.compile(r"checkpoint(\d+)\.pt"),
    "update": re.compile(r"checkpoint_\d+_(\d+)\.pt"),
}


def latest(folder: str | os.PathLike[str], count: int, by: str = "epoch") -> dict[Path, int]:
    """The newest checkpoints of a run.

    Args:
        folder: the run's ``--save-dir``.
        count: how many.
        by: ``"epoch"`` for ``checkpointN.pt``, ``"update"`` for ``checkpoint_E_N.pt``, and for
            ``checkpointN.pt`` of the same interval: where an epoch ends, fairseq writes only these.

    Returns:
        *count* files, the oldest first, each with its epoch or update.

    Raises:
        UserError: if there is no such folder, or it holds fewer.
    """
    if count < 1:
        raise UserError(f"--last is {count}, but at least 1 checkpoint is needed")
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"--dir {folder} is not a folder")
    found = _named(folder, by)
    if by == "update":
        found = sorted(found + _ends_of_epochs(folder, found, count))
    if len(found) < count:
        name, flags = {
            "epoch": ("checkpointN.pt", f"with --keep-last-epochs {count}"),
            "update": (
                "checkpoint_EPOCH_UPDATE.pt",
                f"with --keep-interval-updates {count} and without --no-epoch-checkpoints",
            ),
        }[by]
        raise UserError(
            f"--last is {count}, but {folder} holds {len(found)} checkpoints by {by} ({name}): "
            f"give fewer, or train {flags}"
        )
    return {path: number for number, path in found[-count:]}


def _named(folder: Path, by: str) -> list[tuple[int, Path]]:
    matches = [(_PATTERNS[by].fullmatch(path.name), path) for path in folder.iterdir()]
    return sorted((int(match.group(1)), path) for match, path in matches if match)


def _ends_of_epochs(
    folder: Path, found: Sequence[tuple[int, Path]], count: int
) -> list[tuple[int, Path]]:
    """Ends of epochs that are due by update, too, among the newest ``count``."""
    epochs = [path for _, path in reversed(_named(folder, "epoch"))]
    newest = [path for _, path in found[-1:]] + epochs
    interval = save_interval(read(newest[0])) if newest else 0
    ends: list[tuple[int, Path]] = []
    for path in epochs if interval else ():
        update = updates(path)
        if len(found) >= count and update < found[-count][0] or len(ends) == count:
            break
        if update % interval == 0:
            ends.append((update, path))
    return ends


def average(paths: Sequence[str | os.PathLike[str]]) -> dict[str, Any]:
    """Average the weights of checkpoints of one architecture, summing in float64.

    Args:
        paths: the files, the newest last: everything but the weights is taken from it.

    Returns:
        A checkpoint that fairseq-generate loads, without optimizer state. Tensors
        keep their dtype; integer tensors are the last checkpoint's; shared tensors stay shared.

    Raises:
        UserError: if there is no file, one cannot be read, their weights, model flags, vocabularies
            or ``bio_crf`` and another criterion differ, or two hold the same weights.
    """
    if not paths:
        raise UserError("there is no checkpoint to average: at least 1 is needed")
    last = read(paths[-1])
    seen = Distinct()
    seen.add(last["model"], paths[-1])
    last.pop("last_optimizer_state", None)
    if isinstance(extra := last.get("extra_state"), dict):
        for name in ("ema", "ema_fp32_params"):  # of --store-ema, of the last one alone
            extra.pop(name, None)
    weights = last["model"]
    sums = {
        name: t.to(torch.float64, copy=True)
        for name, t in weights.items()
        if is_weight(name) and t.is_floating_point()
    }
    for path in paths[:-1]:
        state = read(path)
        for difference in _differences(last, state):  # the first one says enough
            raise UserError(f"{path} cannot be averaged with {paths[-1]}: {difference}")
        if flags(state).get("seed") != flags(last).get("seed"):
            logger.warning(
                "%s and %s are of runs with different seeds: unless both were fine-tuned from one "
                "model, their average is worse than either; predict with both as an ensemble",
                path, paths[-1],
            )  # fmt: skip
        seen.add(state["model"], path)
        for name, total in sums.items():
            total += state["model"][name]
    shared: dict[tuple[Any, ...], torch.Tensor] = {}
    for name, total in sums.items():
        old = weights[name]
        key = (old.data_ptr(), old.shape, old.stride(), old.dtype) if old.numel() else (name,)
        if key not in shared:
            shared[key] = (total / len(paths)).to(old.dtype)
        weights[name] = shared[key]
    last["averaged_from"] = [Path(path).name for path in paths]
    return last


def halve(state: dict[str, Any]) -> None:
    """Turn the weights of a checkpoint into half precision; whoever loads it has float32 again.

    Shared tensors stay shared.

    Raises:
        UserError: if a weight is beyond 65,504, the largest number of float16.
    """
    weights = {name: tensor for name, tensor in state["model"].items() if is_weight(name)}
    halves = {id(t): t.half() for t in weights.values() if t.is_floating_point()}
    for name, tensor in weights.items():
        state["model"][name] = half = halves.get(id(tensor), tensor)
        if half.is_floating_point() and not half.isfinite().all():
            raise UserError(f"--half: the weight {name} is too large for half precision")


def _differences(state: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    """Why the weights of two checkpoints do not mean the same."""
    weights, other_weights = state["model"], other["model"]
    for name in sorted(set(weights) ^ set(other_weights)):
        yield f"only one of them has the weight {name}"
    for name in filter(is_weight, weights):
        tensor = weights[name]
        shape, other_shape = tuple(tensor.shape), tuple(other_weights[name].shape)
        if shape != other_shape:
            yield f"{name} has shape {other_shape} against {shape}"
        if tensor.dtype != other_weights[name].dtype:
            yield f"{name} has type {other_weights[name].dtype} against {tensor.dtype}"
    own, others = model_flags(state), model_flags(other)
    for name in sorted(set(own) | set(others)):
        # A checkpoint from before a flag has none where later ones have 0.
        if (own.get(name) or 0) != (others.get(name) or 0):
            yield f"{option(name)} was {others.get(name)} against {own.get(name)}"
    criterions = {criterion(other), criterion(state)}
    if len(criterions) == 2 and "bio_crf" in criterions:  # of whole sequences: it needs Viterbi
        yield f"--criterion was {criterion(other)} against {criterion(state)}"
    words, other_words = _vocabularies(state), _vocabularies(other)
    for name in sorted(set(words) & set(other_words)):
        if words[name] != other_words[name]:
            yield f"their vocabularies differ ({name} in their task_state)"


def _vocabularies(state: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint's task remembers of its vocabularies: hashes, or a tagger's words."""
    stored = state.get("task_state") or {}
    return {
        name: value.get("vocabulary", value) if isinstance(value, dict) else value
        for name, value in stored.items()
    }
