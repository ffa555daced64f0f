"""What the tasks of this folder share."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from fairseq.tasks import FairseqTask

from selfattn.errors import UserError
from selfattn_tasks.words.embeddings import WordVectors
from selfattn_tasks.words.vocabulary import Vocabulary

logger = logging.getLogger(__name__)
T = TypeVar("T")


def is_training(split: str, given: Mapping[str, Any]) -> bool:
    """Whether ``load_dataset`` loads what is trained on, whatever ``--train-subset`` calls it.

    The trainer passes ``data_selector`` for that set alone.
    """
    return split == "train" or "data_selector" in given


def short_enough(
    examples: Sequence[T], words_in: Callable[[T], int], longest: int, what: str
) -> list[T]:
    """Training examples of at most ``--max-length`` words; logs how many are left out.

    Raises:
        UserError: if none is left.
    """
    kept = [example for example in examples if words_in(example) <= longest]
    if not kept:
        raise UserError(
            f"--max-length {longest} leaves none of the {len(examples)} training {what}; raise it"
        )
    if len(kept) < len(examples):
        logger.info(
            "left out %d of %d training %s longer than %d words (--max-length)",
            len(examples) - len(kept), len(examples), what, longest,
        )  # fmt: skip
    return kept


def with_vectors(
    vocabulary: Vocabulary,
    vectors: WordVectors,
    path: object,
    words: Iterable[str] | None = None,
    most: int | None = None,
) -> Vocabulary:
    """Add the words whose vectors checkpoints hold beside the trained ones; log the coverage.

    Args:
        vocabulary: that of the training data.
        vectors: those that training starts from.
        path: their file.
        words: those to add (default: all that have a vector).
        most: how many of them (default: all).

    Raises:
        UserError: if no word of the training data has a vector.
    """
    vocabulary = vocabulary.with_frozen(vectors.words if words is None else words, most)
    known = vocabulary.words
    covered = sum(vectors.row(word) is not None for word in known)
    if not covered:
        raise UserError(
            f"--word-embeddings {path} has no vector of any of the {len(known):,} training words; "
            "give a file of the same language, with words in the same case"
        )
    few = 2 * covered < len(known)  # such as of another language, or in upper case
    logger.log(
        logging.WARNING if few else logging.INFO,
        "%s: %s vectors of width %d; %s of the %s training words (%.1f %%) have one; %s of other "
        "words are kept as they are",
        path, f"{len(vectors.words):,}", vectors.width, f"{covered:,}", f"{len(known):,}",
        100 * covered / len(known), f"{len(vocabulary.frozen):,}",
    )  # fmt: skip
    return vocabulary


def generate_nothing(task: FairseqTask, *args: Any, **kwargs: Any) -> NoReturn:
    """fairseq's hook ``build_generator`` of a task whose models write no text.

    Raises:
        UserError: in any case.
    """
    raise UserError(
        f"{type(task).__name__} has no text to generate; give its checkpoints to `selfattn predict`"
    )
