"""Batches that cover every sentence and are the same after a resume."""

import atexit
import inspect
import queue
import threading
from argparse import Namespace
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from fairseq.data import data_utils, iterators
from fairseq.tasks import FairseqTask
from fairseq.trainer import Trainer

from selfattn.errors import UserError

from ._patch import check_flags, wrap

EMPTY = (
    "no sentence is left to make a batch of: there is none, or all are longer than "
    "--max-source-positions, --max-target-positions, --tokens-per-sample or --max-tokens allows"
)
_NUMBER = (int, float, torch.Tensor)


@wrap(data_utils, "batch_by_size")
def keep_last_batch(original: Any, indices: Any, *args: Any, **kwargs: Any) -> Any:
    """Keep a last batch that is not a multiple of ``--required-batch-size-multiple`` (8).

    Break: fairseq/data/data_utils.py, batch_by_size, silently drops it, so up to 7 sentences are
    never trained on, validated or translated, and BLEU is computed without them. Fix: append what
    is missing. That nothing is left fails there, too; it may where sentences are typed, which have
    no such multiple.
    """
    if not isinstance(indices, np.ndarray):
        indices = np.fromiter(indices, dtype=np.int64, count=-1)
    if not len(indices) and kwargs.get("required_batch_size_multiple", 1) > 1:
        raise UserError(EMPTY)
    batches = original(indices, *args, **kwargs)
    if kwargs.get("fixed_shapes") is not None:  # for TPUs, in another order
        return batches
    missing = indices[sum(map(len, batches)) :]
    return [*batches, missing] if len(missing) else batches


@check_flags
def refuse_idle_seed(flags: Namespace) -> None:
    """Refuse ``--update-ordered-indices-seed`` where it would act in a resumed run alone."""
    made_anew = str(getattr(flags, "update_epoch_batch_itr", False)).lower() == "true"
    if getattr(flags, "update_ordered_indices_seed", False) and not made_anew:
        raise UserError(
            "--update-ordered-indices-seed changes nothing where batches are made once: add "
            "--update-epoch-batch-itr True, or leave it out"
        )


@wrap(FairseqTask, "get_batch_iterator")
def resume_with_same_batches(original: Any, self: FairseqTask, *args: Any, **kwargs: Any) -> Any:
    """Give a resumed run the batches of the interrupted one.

    Break: fairseq/tasks/fairseq_task.py, get_batch_iterator, distributes sentences of equal length
    over batches at random, by seed and epoch. An uninterrupted run does so once, in epoch 1; a
    resumed one does so again in its own epoch and gets other batches and losses. Fix: always use
    the seed of epoch 1 where batches are made once. Their order still differs between epochs.
    """
    call = inspect.signature(original).bind(self, *args, **kwargs)
    call.apply_defaults()
    given = call.arguments
    dataset, epoch, seed = given["dataset"], given["epoch"], given["seed"]
    made_once = (
        self.can_reuse_epoch_itr(dataset)
        and not given["disable_iterator_cache"]
        and not given["update_epoch_batch_itr"]
        and not getattr(self.cfg, "rebuild_batches", False)
    )
    if not made_once or dataset in self.dataset_to_epoch_iter:
        return original(*call.args, **call.kwargs)
    given["seed"] = seed + 1 - epoch  # fairseq adds the epoch
    iterator = original(*call.args, **call.kwargs)
    iterator.seed = seed
    return iterator


@wrap(iterators.EpochBatchIterator, "__init__")
def tell_workers_the_epoch(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    """Start the processes that load data anew in each epoch.

    Break: fairseq/data/iterators.py, EpochBatchIterator, keeps them, and they their copy of the
    dataset, whose ``set_epoch`` is never called: with ``--num-workers 1``, the default, masks stay
    those of the first epoch, or of that in which a run is resumed. Fix: keep none.
    """
    original(self, *args, **kwargs)
    self.persistent_workers = False


@wrap(iterators.EpochBatchIterator, "_get_iterator_for_epoch")
def shuffle_after_curriculum(
    original: Any, self: Any, epoch: int, shuffle: bool, *args: Any, **kwargs: Any
) -> Any:
    """Shuffle the epochs after ``--curriculum``, whether a run was interrupted or not.

    Break: fairseq/data/iterators.py, EpochBatchIterator, keeps the first epoch's choice together
    with its data loader, so that no epoch is shuffled until the run is resumed. Fix: tell it
    each epoch's.
    """
    if self.dataloader is not None:  # it will be used again
        self.epoch_batch_sampler.shuffle = shuffle
    return original(self, epoch, shuffle, *args, **kwargs)


@wrap(Trainer, "get_valid_iterator")
def keep_training_iterator(
    original: Any, self: Trainer, subset: str, disable_iterator_cache: bool = False
) -> Any:
    """Give ``--valid-subset train`` batches of its own.

    Break: fairseq/tasks/fairseq_task.py, get_batch_iterator, has one iterator for a dataset, of
    which training and validation then take turns: training gets other batches, and every second
    epoch does not take place. Validation also sets the dataset's epoch to 1, by which data that
    change from epoch to epoch (masks) are made. Fix: make new iterators for the validation, and
    leave the epoch.
    """
    if subset != self.cfg.dataset.train_subset:
        return original(self, subset, disable_iterator_cache)
    dataset = self.task.dataset(subset)
    dataset.set_epoch = lambda epoch: None
    try:
        return original(self, subset, True)
    finally:
        del dataset.set_epoch


@wrap(Trainer, "train_step")
def real_batches_last(original: Any, self: Trainer, samples: Any, *args: Any, **kwargs: Any) -> Any:
    """Divide an update by the tokens that are in it, where a process has fewer batches than others.

    Break: fairseq/trainer.py, train_step, fills up the last update of an epoch (``--update-freq``,
    several processes) with a batch that has no gradient. If it is a process's last one, the tokens
    of those before it are forgotten: the update is too large. Fix: it comes first, and counts
    nothing.
    """
    return original(self, sorted(samples, key=bool), *args, **kwargs)


@wrap(FairseqTask, "train_step")
def count_real_batches(
    original: Any, self: FairseqTask, sample: Any, model: Any, criterion: Any, optimizer: Any,
    update_num: int, ignore_grad: bool = False,
) -> Any:  # fmt: skip
    """Count nothing of a batch that has no gradient."""
    loss, size, logged = original(
        self, sample, model, criterion, optimizer, update_num, ignore_grad
    )
    if ignore_grad:
        size = 0 * size
        logged = {n: 0 * v if isinstance(v, _NUMBER) else v for n, v in logged.items()}
    return loss, size, logged


@atexit.register
def stop_batch_threads() -> None:
    """Let the thread that makes batches ahead end before the interpreter does.

    Break: fairseq/data/iterators.py, BackgroundConsumer, is a daemon. A run that ends early,
    as on an error, can die of SIGABRT, because torch cannot be unwound in that thread. Fix: at
    exit, wait for the batch at hand and make no other.
    """
    for thread in threading.enumerate():
        if isinstance(thread, iterators.BackgroundConsumer):
            thread._max_len = 0
            while thread.is_alive():
                with suppress(queue.Empty):  # it waits for room in the queue
                    thread._queue.get_nowait()
                thread.join(0.01)
