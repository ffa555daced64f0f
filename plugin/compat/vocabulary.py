"""Checkpoints remember their languages, and their vocabularies, so that others are refused.

Break: a checkpoint holds no trace of the dictionaries. One of another size fails with a traceback,
and one of the same size with other words silently translates to nonsense. Fix: store a hash of each
dictionary's words in the task's state, which is part of every checkpoint.
"""

from typing import Any

from fairseq import tasks
from fairseq.tasks import FairseqTask

from selfattn.errors import UserError
from selfattn_tasks.translation.vocabulary import FINGERPRINTS, fingerprint

from ._patch import wrap


@wrap(tasks, "setup_task")
def remember_languages(original: Any, cfg: Any, **kwargs: Any) -> Any:
    """Store the languages that were inferred from the data's file names in the checkpoint.

    Break: fairseq/tasks/translation.py infers them into a copy of the flags, so that a checkpoint
    does not know its own direction and loads only next to binarised text. Fix: set them in the
    flags that are stored, too.
    """
    task = original(cfg, **kwargs)
    for name in ("source_lang", "target_lang"):
        inferred = getattr(getattr(task, "cfg", None), name, None)
        if inferred is not None and getattr(cfg, name, inferred) is None:
            setattr(cfg, name, inferred)
    return task


@wrap(FairseqTask, "state_dict")
def remember_vocabularies(original: Any, self: FairseqTask) -> dict[str, Any]:
    """Store the hashes with the task's state."""
    return {**original(self), FINGERPRINTS: fingerprints(self)}


@wrap(FairseqTask, "load_state_dict")
def compare_vocabularies(original: Any, self: FairseqTask, state_dict: dict[str, Any]) -> Any:
    """Compare them when that state is loaded."""
    check(self, state_dict, "the checkpoint")
    return original(self, state_dict)


def fingerprints(task: FairseqTask) -> dict[str, tuple[int, str]]:
    """Size and hash of the dictionaries of ``task``, under ``source`` and ``target``.

    Of a task with one for each language they are under the languages: such a task shows others as
    source and target when it translates than in training.
    """
    return {name: fingerprint(symbols) for name, symbols in _symbols(task).items()}


def _symbols(task: FairseqTask) -> dict[str, list[str]]:
    languages = getattr(task, "dicts", None)
    if isinstance(languages, dict):
        return {name: words.symbols for name, words in languages.items()}
    found = {}
    for side in ("source", "target"):
        try:
            dictionary = getattr(task, f"{side}_dictionary", None)
        except NotImplementedError:  # a task without this side
            continue
        if dictionary is not None:
            found[side] = dictionary.symbols
    return found


def check(task: FairseqTask, state: dict[str, Any], checkpoint: str) -> None:
    """Compare a task's dictionaries with those of a checkpoint; one without hashes is accepted.

    Raises:
        UserError: they differ.
    """
    stored = (state or {}).get(FINGERPRINTS, {})
    for side, symbols in _symbols(task).items():
        size, found = fingerprint(symbols)
        # fairseq's denoising task adds <mask> to the words of the file; its BART cuts that row.
        same = (size, found), fingerprint([*symbols, "<mask>"])
        if side not in stored or tuple(stored[side]) in same:
            continue
        old_size, old_fingerprint = stored[side]
        cfg = getattr(task, "cfg", None)
        a_side = side in ("source", "target")
        language = getattr(cfg, f"{side}_lang", None) if a_side else side
        name = f"dict.{language}.txt" if language else "dict.txt"
        data = getattr(cfg, "data", None)
        raise UserError(
            f"the {side} vocabulary {name} of {data or 'the data'} ({size} entries, hash "
            f"{found}) is not the one that {checkpoint} was trained with ({old_size} "
            f"entries, hash {old_fingerprint}): binarise the data with its dictionaries "
            "(fairseq-preprocess --srcdict, --tgtdict)"
        )
