"""``--biblosa-block-length auto``: derived once from the lengths of the training data."""

import logging
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np

from selfattn.block_length import block_length, longest_of_a_batch
from selfattn.errors import UserError
from selfattn_tasks import checkpoints

logger = logging.getLogger(__name__)
FLAG = "--biblosa-block-length"
_LAST = "checkpoint_last.pt"  # fairseq's default of --restore-file: that of --save-dir


def resolve_block_length(args: Namespace, task: Any, attention: str | None = None) -> None:
    """Replace an automatic block length of Bi-BloSA by a number, which every checkpoint then holds.

    A run that starts from a checkpoint takes the number in it; any other derives it from its
    training data (Bi-BloSAN, eq. 19-23). The mechanism is ``attention``, or else what
    ``--encoder-attention`` names.

    Raises:
        UserError: if the lengths of the training data cannot be found.
    """
    if (attention or args.encoder_attention) != "biblosa" or args.biblosa_block_length:
        return
    path = _restored_from(args)
    if path is not None:
        stored = checkpoints.model_flags(checkpoints.read(path))
        args.biblosa_block_length = int(stored.get("biblosa_block_length", 0))
    if args.biblosa_block_length:
        logger.info("%s auto: blocks of %d tokens, as in %s", FLAG, args.biblosa_block_length, path)
        return
    mean, deviation = _training_lengths(args, task)
    sentences = _sentences_of_a_batch(args, mean)
    longest = longest_of_a_batch(mean, deviation, sentences)
    args.biblosa_block_length = block_length(longest, args.biblosa_block_length_extra)
    logger.info(
        "%s auto: blocks of %d tokens by the cube-root rule for %.1f tokens, the longest sentence "
        "to expect among the %.0f of a batch; the training sentences have %.1f tokens, standard "
        "deviation %.1f",
        FLAG, args.biblosa_block_length, longest, sentences, mean, deviation,
    )  # fmt: skip


def _restored_from(args: Namespace) -> Path | None:
    """The checkpoint that fairseq will load into the new model, if it is there."""
    restored = Path(getattr(args, "restore_file", _LAST))
    if str(restored) == _LAST:
        restored = Path(getattr(args, "save_dir", ""), _LAST)
    bases = (getattr(args, name, None) for name in ("continue_once", "finetune_from_model"))
    return next((p for p in (restored, *(Path(b or "") for b in bases)) if p.is_file()), None)


def _training_lengths(args: Namespace, task: Any) -> tuple[float, float]:
    """Mean and standard deviation of the tokens of what the encoder will read in training."""
    known = getattr(task, "sentence_lengths", None)
    if known is not None:
        return known
    subset = getattr(args, "train_subset", "train")
    try:
        if not hasattr(task, "load_dataset"):
            raise FileNotFoundError
        # As the trainer does: a task may tell by the selector that this is the training set.
        task.load_dataset(subset, epoch=1, combine=True, data_selector=None)
    except FileNotFoundError:
        raise UserError(
            f"{FLAG} auto needs the lengths of the training data, but {type(task).__name__} has no "
            f"set {subset!r}; give a number of tokens, such as {FLAG} 4"
        ) from None
    dataset = task.datasets.pop(subset)  # the trainer loads it for itself
    lengths = np.asarray(getattr(dataset, "src_sizes", dataset.sizes))
    return float(lengths.mean()), float(lengths.std())


def _sentences_of_a_batch(args: Namespace, mean: float) -> float:
    """How many sentences of mean length a batch holds, at least 1."""
    tokens, sentences = (getattr(args, name, None) for name in ("max_tokens", "batch_size"))
    limits = [float(sentences)] if sentences else []
    limits += [tokens / mean] if tokens else []
    if not limits:
        raise UserError(
            f"{FLAG} auto needs the size of a batch; give --max-tokens, --batch-size, or a number "
            f"of tokens, such as {FLAG} 4"
        )
    return max(1.0, min(limits))
