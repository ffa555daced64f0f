"""BLEU in the ways in which English-German results of the time were reported.

The MTSA paper does not say which one it used. All take plain, detokenised text; what differs is
how it is cut into tokens before n-grams are counted:

* ``compound-split``: tensor2tensor's ``get_ende_bleu.sh``, which is the Moses tokenizer, compounds
  taken apart at their hyphens, and ``multi-bleu.perl``. The numbers are higher than the others.
* ``tokenised``: the same without taking compounds apart.
* ``sacrebleu``: sacreBLEU as it comes (``13a``), the one to compare new results with.
* ``intl``: the international tokenisation of ``mteval-v14``, as tensor2tensor's ``t2t-bleu``.

Differs:
    The Moses tokenizer is sacremoses, a port of the Perl script; ``multi-bleu.perl`` is
    sacreBLEU without a tokenizer and without smoothing, which is the same formula.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..errors import UserError
from ..report.translations import Score

FLAVOURS = ("compound-split", "tokenised", "sacrebleu", "intl")
_COMPOUND = re.compile(r"(\S)-(\S)")


def split_compounds(tokens: str) -> str:
    """Take words apart at hyphens, as ``s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g`` does.

    >>> split_compounds("ein Rich-Text-Dokument - so")
    'ein Rich ##AT##-##AT## Text ##AT##-##AT## Dokument - so'
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", tokens)


def tokenise(sentences: Sequence[str], language: str = "de") -> list[str]:
    """Moses tokens, separated by spaces.

    Raises:
        UserError: if sacremoses is not installed.
    """
    tokenizer = _sacremoses().MosesTokenizer(lang=language)
    return [str(tokenizer.tokenize(sentence, return_str=True)) for sentence in sentences]


def bleu_flavours(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Score]:
    """BLEU of German translations in each of FLAVOURS, with signatures.

    Args:
        hypotheses (Sequence[str]): plain text, one sentence each.
        references (Sequence[str]): likewise.

    Raises:
        UserError: if the numbers of sentences differ, or sacremoses or sacrebleu is not installed.
    """
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} translations cannot be scored against {len(references)} "
            f"references; the numbers must be equal"
        )
    moses = f"moses-de-sacremoses-{_sacremoses().__version__}"
    plain = list(hypotheses), list(references)
    tokens = tokenise(hypotheses), tokenise(references)
    split = tuple([split_compounds(line) for line in text] for text in tokens)
    return {
        "compound-split": _score(split, "none", f"{moses}-atat"),
        "tokenised": _score(tokens, "none", moses),
        "sacrebleu": _score(plain, "13a"),
        "intl": _score(plain, "intl"),
    }


def _score(texts: tuple[list[str], ...], tokenizer: str, name: str | None = None) -> Score:
    """BLEU of hypotheses and references; with a ``name``, of text that is tokenised already."""
    try:
        from sacrebleu.metrics import BLEU
    except ImportError:
        raise UserError(
            "sacrebleu is not installed: install it with `pip install sacrebleu`"
        ) from None
    if name is None:
        metric = BLEU(tokenize=tokenizer)
    else:
        # force: the text is tokenised on purpose, so no warning.
        metric = BLEU(tokenize=tokenizer, smooth_method="none", force=True)
    hypotheses, references = texts
    result = metric.corpus_score(hypotheses, [references])
    signature = str(metric.get_signature())
    if name is not None:
        signature = signature.replace(f"tok:{tokenizer}", f"tok:{name}")
    return Score(round(float(result.score), 2), signature)


def _sacremoses() -> Any:
    try:
        import sacremoses
    except ImportError:
        raise UserError(
            "sacremoses is not installed: install it with `pip install sacremoses`"
        ) from None
    return sacremoses
