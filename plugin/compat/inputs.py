"""One sentence for each kind of data and sentence that fairseq cannot use."""

import logging
import os
import re
from argparse import Namespace
from collections.abc import Callable
from typing import Any

import torch
from fairseq import tasks, utils
from fairseq.data import FairseqDataset
from fairseq.iterative_refinement_generator import IterativeRefinementGenerator
from fairseq.search import DiverseBeamSearch
from fairseq.sequence_generator import SequenceGenerator, SequenceGeneratorWithAlignment
from fairseq.tasks import FairseqTask, translation

from selfattn.errors import UserError

from ._patch import check_flags, wrap

logger = logging.getLogger(__name__)
# The schemes of fairseq/data/data_utils.py, post_process.
_REMOVES_BLANKS = ("sentencepiece", "wordpiece", "letter", "_EOW")
_KEEPS_BLANKS = ("@@ ", "@@", "subword_nmt", "silence", "none")


@wrap(tasks, "setup_task")
def explain_data(original: Any, cfg: Any, **kwargs: Any) -> Any:
    """Name the data folder or dictionary that is missing.

    Break: fairseq/tasks/translation.py ends in a traceback of os.listdir or open, or in "Could not
    infer language pair". Fix: check first.
    """
    data = getattr(cfg, "data", None)
    if isinstance(data, str):
        _check_data(data, getattr(cfg, "_name", None) or getattr(cfg, "task", None))
    try:
        task = original(cfg, **kwargs)
    except FileNotFoundError as error:
        raise UserError(
            f"{error.filename or error} does not exist: {data} is not a folder that "
            "fairseq-preprocess wrote for this task and these languages"
        ) from error
    except Exception as error:
        if "Could not infer language pair" not in str(error):
            raise
        raise UserError(
            f"{data} holds no binarised text (such as train.en-de.en.bin): give a folder that "
            f"fairseq-preprocess wrote{_below(str(data))}, or name --source-lang and "
            "--target-lang"
        ) from error
    _warn_about_pieces(task)
    return task


@wrap(translation, "load_langpair_dataset")
def explain_set(original: Any, data_path: str, split: str, *args: Any, **kwargs: Any) -> Any:
    """Name the set that is missing, for which fairseq's error has no file name."""
    try:
        return original(data_path, split, *args, **kwargs)
    except FileNotFoundError as error:
        raise UserError(
            f"the data folder {data_path} has no {split} set ({split}.*.bin): binarise it, or "
            "name existing sets (--train-subset, --valid-subset, --gen-subset)"
        ) from error


def _below(data: str) -> str:
    """What `selfattn prepare` wrote into *data*, for a message."""
    path = os.path.join(data, "data-bin")
    return f" (here {path})" if os.path.isdir(path) else ""


def _check_data(data: str, task: str | None) -> None:
    writer = getattr(tasks.TASK_REGISTRY.get(task), "prepared_by", "fairseq-preprocess")
    for path in utils.split_paths(data):
        if "://" not in path and not os.path.isdir(path):
            what = "is not a folder" if os.path.exists(path) else "does not exist"
            raise UserError(f"the data folder {path} {what}: give the folder that `{writer}` wrote")


def _warn_about_pieces(task: FairseqTask) -> None:
    """Warn if BLEU would be that of pieces, or of text without blanks, instead of words."""
    cfg = getattr(task, "cfg", None)
    if not getattr(cfg, "eval_bleu", False):
        return
    scheme = getattr(cfg, "eval_bleu_remove_bpe", None)
    _check_scheme("--eval-bleu-remove-bpe", scheme)
    has_pieces = any(word.startswith("\u2581") for word in task.target_dictionary.symbols)
    if has_pieces and scheme != "sentencepiece":
        logger.warning(
            "WRONG BLEU AHEAD: --eval-bleu scores SentencePiece pieces, not words, unless "
            "--eval-bleu-remove-bpe sentencepiece is given"
        )
    if scheme == "sentencepiece" and not has_pieces:
        logger.warning(
            "WRONG BLEU AHEAD: --eval-bleu-remove-bpe sentencepiece removes every blank, since no "
            "word of the target dictionary starts with \u2581: leave it out, or name another scheme"
        )


class _Joined:
    """The scheme by which ``--remove-bpe`` (``--post-process``) joins pieces in this process."""

    scheme: str | None = None


@check_flags
def check_joining(flags: Namespace) -> None:
    """Refuse an unknown ``--remove-bpe``, and one that joins otherwise than ``--bpe``.

    Break: an unknown scheme is a NotImplementedError at the first sentence; see also below.
    """
    scheme, bpe = getattr(flags, "post_process", None), getattr(flags, "bpe", None)
    _check_scheme("--remove-bpe", scheme)
    if scheme in _REMOVES_BLANKS and bpe not in (None, scheme):
        raise UserError(
            f"--remove-bpe {scheme} and --bpe {bpe} would both join the pieces, each in its "
            "own way, which leaves no blanks: leave out --remove-bpe, and read the D lines"
        )
    _Joined.scheme = scheme


@wrap(FairseqTask, "build_bpe")
def join_once(original: Any, self: FairseqTask, args: Any) -> Any:
    """Join pieces once where both ``--remove-bpe`` (``--post-process``) and ``--bpe`` would.

    Break: fairseq_cli/generate.py and interactive.py join the pieces by the first and then again by
    the second, which mistakes the blanks between words for blanks between pieces and removes them.
    Fix: the second leaves text alone that the first has joined.
    """
    bpe = original(self, args)
    if bpe is not None and _Joined.scheme in _REMOVES_BLANKS:
        bpe.decode = str
    return bpe


def _check_scheme(flag: str, scheme: str | None) -> None:
    if scheme is not None and scheme not in (*_REMOVES_BLANKS, *_KEEPS_BLANKS):
        raise UserError(
            f"{flag} is {scheme!r}, but must be one of "
            f"{', '.join((*_REMOVES_BLANKS, *_KEEPS_BLANKS[1:]))}"
        )


@wrap(FairseqTask, "get_interactive_tokens_and_lengths")
def count_lines(
    original: Any, self: FairseqTask, lines: list[str], encode_fn: Callable[[str], str]
) -> Any:
    """Count fairseq-interactive's lines over the whole input, for the message below."""
    before = getattr(self, "selfattn_lines", range(0))
    self.selfattn_lines = range(before.stop, before.stop + len(lines))
    return original(self, lines, encode_fn)


@wrap(FairseqTask, "filter_indices_by_size")
def explain_long_sentence(
    original: Any, self: FairseqTask, indices: Any, dataset: Any, *args: Any, **kwargs: Any
) -> Any:
    """Name the sentence that is too long.

    Break: fairseq/tasks/fairseq_task.py, filter_indices_by_size, raises a bare Exception with the
    sentence's number in its batch. Fix: one sentence.
    """
    try:
        return original(self, indices, dataset, *args, **kwargs)
    except Exception as error:
        match = re.match(r"Size of sample #(\d+) is invalid \(=(.*?)\) since ", str(error))
        if match is None:
            raise
        allowed = args[0] if args else kwargs.get("max_positions")
        size = re.sub(r"np\.\w+\((\d+)\)", r"\1", match.group(2))
        raise UserError(_too_long(self, int(match.group(1)), size, allowed)) from error


@wrap(FairseqDataset, "batch_by_size")
def explain_small_batch(original: Any, self: FairseqDataset, *args: Any, **kwargs: Any) -> Any:
    """Say that ``--max-tokens`` does not hold the longest sentence.

    Break: fairseq/data/fairseq_dataset.py, batch_by_size, asserts it. Fix: one sentence.
    """
    try:
        return original(self, *args, **kwargs)
    except AssertionError as error:
        if "max_tokens" not in str(error):
            raise
        limit = kwargs.get("max_tokens", args[1] if len(args) > 1 else None)
        longest = max(self.num_tokens(index) for index in args[0])
        raise UserError(
            f"--max-tokens (in validation --max-tokens-valid) is {limit}, but the longest sentence "
            f"has {longest} tokens: raise it, or drop sentences of that length"
        ) from error


@wrap(SequenceGenerator, "_generate")
def number_rows(
    original: Any, self: SequenceGenerator, sample: dict[str, Any], *args: Any, **kwargs: Any
) -> Any:
    """Give diverse beam search the rows of a batch, not its sentences' places in the data.

    Break: fairseq/search.py, DiverseBeamSearch, counts overlaps by row and looks them up by
    ``sample["id"]``: other sentences' overlaps, or an IndexError. Fix: without ids,
    fairseq/sequence_generator.py numbers the rows itself.
    """
    if isinstance(self.search, DiverseBeamSearch):
        sample = {name: value for name, value in sample.items() if name != "id"}
    return original(self, sample, *args, **kwargs)


@wrap(SequenceGenerator, "generate")
@wrap(SequenceGeneratorWithAlignment, "generate")
@wrap(IterativeRefinementGenerator, "generate")
def translate_nothing_to_nothing(
    original: Any, self: Any, models: Any, sample: dict[str, Any], *args: Any, **kwargs: Any
) -> Any:
    """Give an empty source, such as an empty line of fairseq-interactive, an empty translation.

    Break: fairseq's generators translate a lone end of sentence to something. Fix: replace it by
    the empty hypothesis, whatever else is in the batch.
    """
    found = original(self, models, sample, *args, **kwargs)
    tokens = sample["net_input"].get("src_tokens")
    # A language model starts from the end of a sentence; speech is not integers.
    if not hasattr(models[0], "encoder") or tokens is None or tokens.is_floating_point():
        return found
    words = (tokens != self.eos) & (tokens != self.pad)
    if (dictionary := getattr(models[0].encoder, "dictionary", None)) is not None:
        words &= tokens != dictionary.bos()  # with which some tasks begin a sentence
    for row in (~words.any(-1)).nonzero()[:, 0].tolist():
        found[row] = [_nothing(self.eos)]
    return found


def _nothing(eos: int) -> dict[str, Any]:
    """The hypothesis without words."""
    return {
        "tokens": torch.tensor([eos]),
        "score": torch.tensor(0.0),
        "attention": None,
        "alignment": torch.empty(0, 2, dtype=torch.long),
        "positional_scores": torch.zeros(1),
        "steps": 0,  # of models that refine what they have written
        "history": [],
    }


def _too_long(task: FairseqTask, index: int, size: str, allowed: Any) -> str:
    lines = getattr(task, "selfattn_lines", None)
    if lines is not None:
        place, advice = f"line {lines.start + index + 1} of the input", "split it"
    else:
        place = f"sentence {index + 1} of the data"
        advice = (
            "shorten it, or leave such sentences out with --skip-invalid-size-inputs-valid-test"
        )
    return (
        f"{place} is too long: it has {size} tokens (source, target), and the model and the flags "
        f"allow {allowed} (--max-source-positions, --max-target-positions): {advice}"
    )
