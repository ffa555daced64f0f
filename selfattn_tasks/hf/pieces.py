"""A fast tokenizer that gives the numbers of fairseq's dictionary."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from selfattn.errors import UserError, needed

from ..text import CONTROL, INVISIBLE
from ..words.vocabulary import read_symbols

# fairseq's first four entries, in its order.
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
_END = SPECIAL[2]
_SPACE = "\u2581"
_BPE = 2  # TrainerSpec.ModelType of SentencePiece
# A capital sigma that ends a word: str.lower() makes another letter of it, Lowercase does not.
_CASED = r"[\p{Cased}&&[^\p{Case_Ignorable}]]"
_FINAL_SIGMA = rf"{_CASED}\p{{Case_Ignorable}}*\K\u03a3(?!\p{{Case_Ignorable}}*{_CASED})"


def read_dictionary(path: Path) -> list[str]:
    """The entries of a ``dict.LANGUAGE.txt``, the four special ones first.

    Raises:
        UserError: if the file is missing, broken or empty.
    """
    return [*SPECIAL, *read_symbols(path)]


def build_tokenizer(entries: Sequence[str], model: Path | None, lowercase: bool) -> Any:
    """A tokenizer whose numbers are the places in the dictionary.

    Args:
        entries: of the dictionary.
        model: SentencePiece's model; None where words are split at spaces.
        lowercase: whether the training text was lower-cased.

    Returns:
        ``tokenizers.Tokenizer``; pieces that the dictionary lacks have numbers behind it.

    Raises:
        UserError: if the dictionary is not one of these pieces.
    """
    t = needed("tokenizers", "selfattn[hf]")
    numbers = {entry: i for i, entry in enumerate(entries)}
    if model is None:
        if piece := next((entry for entry in entries if entry.startswith(_SPACE)), None):
            raise UserError(
                f"the dictionary has the piece {piece!r}, but there is no SentencePiece model that "
                "makes such pieces of text: copy spm.model into the dictionary's folder"
            )
        tokenizer = t.Tokenizer(t.models.WordLevel(numbers, unk_token=SPECIAL[3]))
        tokenizer.pre_tokenizer = t.pre_tokenizers.WhitespaceSplit()
    else:
        tokenizer = t.Tokenizer(_segmentation(t, numbers, model))
        tokenizer.pre_tokenizer = t.pre_tokenizers.Metaspace()
        tokenizer.decoder = t.decoders.Metaspace()
    tokenizer.normalizer = _cleaning(t, lowercase)
    tokenizer.post_processor = t.processors.TemplateProcessing(
        single=f"$A {_END}", pair=f"$A {_END} $B {_END}", special_tokens=[(_END, numbers[_END])]
    )
    return tokenizer


def _cleaning(t: Any, lowercase: bool) -> Any:
    """What ``selfattn_tasks.text.clean_line`` does, in the same order."""
    n, space = t.normalizers, t.Regex(r"[\s\x1c-\x1f]+")
    steps = [
        n.Replace(t.Regex(INVISIBLE.pattern), ""),
        n.Replace(space, " "),
        n.Replace(t.Regex(CONTROL.pattern), ""),
        n.Replace(_SPACE, "_"),
        *([n.Replace(t.Regex(_FINAL_SIGMA), "\u03c2"), n.Lowercase()] if lowercase else []),
        n.Replace(space, " "),
        n.Strip(),
        n.NFC(),
    ]
    return n.Sequence(steps)


def _segmentation(t: Any, numbers: Mapping[str, int], path: Path) -> Any:
    """SentencePiece's BPE or unigram model with the dictionary's numbers."""
    spm = needed("sentencepiece.sentencepiece_model_pb2", "sentencepiece protobuf").ModelProto()
    try:
        spm.ParseFromString(path.read_bytes())
    except Exception as error:  # protobuf's own types, which depend on its version
        raise UserError(f"{path} is not a SentencePiece model, or is damaged: {error}") from None
    scores = {p.piece: p.score for p in spm.pieces if p.type == p.NORMAL}
    strange = [e for e in numbers if not (e in scores or e in SPECIAL or e.startswith("madeup"))]
    if strange or spm.normalizer_spec.precompiled_charsmap:
        what = f"the dictionary holds {strange[0]!r}" if strange else "it changes characters itself"
        raise UserError(
            f"{path} does not fit a tokenizer of these pieces: {what}; prepare the data with "
            f"`selfattn prepare translation`"
        )
    vocabulary = {**numbers}
    for piece in scores:
        vocabulary.setdefault(piece, len(vocabulary))
    unknown = SPECIAL[3]
    if spm.trainer_spec.model_type == _BPE:
        merges = [
            (piece[:i], piece[i:])
            for piece in sorted(scores, key=lambda piece: -scores[piece])
            for i in range(1, len(piece))
            if piece[:i] in scores and piece[i:] in scores
        ]
        return t.models.BPE(vocabulary, merges, unk_token=unknown, fuse_unk=True)
    # Entries that are no pieces must never be chosen.
    ranked = [(piece, scores.get(piece, float("-1e9"))) for piece in vocabulary]
    return t.models.Unigram(ranked, vocabulary[unknown], False)
