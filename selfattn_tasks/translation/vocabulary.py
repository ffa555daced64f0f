"""One SentencePiece vocabulary for both languages."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from selfattn.errors import UserError, check_integer, needed

from ..files import write_lines

if TYPE_CHECKING:
    from sentencepiece import SentencePieceProcessor

MODEL_TYPES = ("bpe", "unigram")
# Where a checkpoint's ``task_state`` has the fingerprints of its dictionaries.
FINGERPRINTS = "selfattn_vocabularies"


def fingerprint(entries: Sequence[str]) -> tuple[int, str]:
    """Size and hash of a dictionary of fairseq, by which checkpoints know it."""
    return len(entries), hashlib.sha256("\n".join(entries).encode()).hexdigest()[:16]


def learn(
    sentences: Iterable[str],
    prefix: Path,
    vocab_size: int,
    model_type: str = "bpe",
    character_coverage: float = 1.0,
) -> None:
    """Learn a vocabulary and write ``PREFIX.model`` and ``PREFIX.vocab``; deterministic.

    The text is not normalised further, so that decoding restores it exactly, and every character
    of it gets a piece, unless it only occurs in ``<s>``, ``</s>`` or ``<unk>``.

    Args:
        sentences: clean training text of both languages.
        prefix: where to write.
        vocab_size: pieces, including ``<unk>``, ``<s>`` and ``</s>``.
        model_type: one of MODEL_TYPES.
        character_coverage: the share of the text that the characters with pieces make up; the
            rarest others become ``<unk>``.

    Raises:
        UserError: if the text does not allow this size; the message says which it allows.
    """
    if model_type not in MODEL_TYPES:
        raise UserError(
            f"--vocab-type is {model_type!r}, but must be one of {', '.join(MODEL_TYPES)}"
        )
    check_integer("--vocab-size", vocab_size, 4)
    spm = needed("sentencepiece")
    # Into memory: a model that is written to a file holds the file's name.
    model = io.BytesIO()
    try:
        spm.SentencePieceTrainer.train(
            sentence_iterator=iter(sentences),
            model_writer=model,
            vocab_size=vocab_size,
            model_type=model_type,
            normalization_rule_name="identity",
            character_coverage=character_coverage,
            # Longer lines would be skipped silently.
            max_sentence_length=1 << 20,
            # More threads would sum floats in another order on another machine.
            num_threads=1,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _explained(error, vocab_size) from error
    processor = spm.SentencePieceProcessor(model_proto=model.getvalue())
    pieces = range(processor.get_piece_size())
    prefix.with_name(f"{prefix.name}.model").write_bytes(model.getvalue())
    write_lines(
        prefix.with_name(f"{prefix.name}.vocab"),
        [f"{processor.id_to_piece(i)}\t{processor.get_score(i):g}" for i in pieces],
    )


def _explained(error: RuntimeError, vocab_size: int) -> Exception:
    message = str(error)
    if found := re.search(r"too high .* a value <= (\d+)", message):
        return UserError(
            f"--vocab-size is {vocab_size}, but this training text yields at most {found[1]} pieces"
        )
    if found := re.search(r"smaller than required_chars. \d+ vs (\d+)", message):
        return UserError(
            f"--vocab-size is {vocab_size}, but the different characters of this training text "
            f"alone need at least {found[1]}"
        )
    return error


def load(model: Path) -> SentencePieceProcessor:
    """Load the vocabulary in the file ``model``, whose ``encode`` splits sentences into pieces.

    Raises:
        UserError: if the file is missing or not a SentencePiece model.
    """
    if not model.is_file():
        raise UserError(f"there is no SentencePiece model {model}")
    try:
        processor: SentencePieceProcessor = needed("sentencepiece").SentencePieceProcessor(
            model_file=str(model), out_type=str, num_threads=1
        )
    except RuntimeError:
        raise UserError(f"{model} is not a SentencePiece model, or is damaged") from None
    return processor
