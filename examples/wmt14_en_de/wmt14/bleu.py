"""BLEU in the ways in which English-German results of the time were reported.

The MTSA paper does not say which one it used. All take plain, detokenised text; what differs is
how it is cut into tokens before n-grams are counted. The first two are named after the scripts
that they follow, because either is called "compound splitting" and they give different numbers:

* ``get_ende_bleu.sh`` of tensor2tensor (commit c886a73): the Moses script
  ``replace-unicode-punctuation.perl`` on the translations, the Moses tokenizer, words taken apart
  at their hyphens, ``multi-bleu.perl``. The references are not put through the first step but must
  have plain quotation marks (tensor2tensor's issue 317). The numbers are the highest.
* ``compound_split_bleu.sh`` of fairseq: Moses tokens taken apart at their hyphens on both sides,
  and no character replaced.
* ``tokenised``: the same without taking words apart.
* ``sacrebleu``: sacreBLEU as it comes (``13a``), the one to compare new results with.
* ``intl``: the international tokenisation of ``mteval-v14``, as tensor2tensor's ``t2t-bleu``.

Differs:
    The Moses scripts are sacremoses, a port from Perl; ``multi-bleu.perl`` and ``fairseq-score``
    are sacreBLEU without a tokenizer and without smoothing, which is the same formula.
    tensor2tensor's references with plain quotation marks are a file of its own, and issue 317 says
    how to make them: every Unicode quotation mark becomes a plain one, here double ones ``"`` and
    single ones, and the apostrophe, ``'``. fairseq's script gets references and translations that
    were tokenised before training, in ways that differ with the data set (Google's is split
    already, ``prepare-wmt14en2de.sh`` cuts at hyphens); here plain text is tokenised.
"""

import re
from collections.abc import Sequence

from selfattn.errors import UserError, needed
from selfattn_tasks.translation.metrics import Score

TENSOR2TENSOR, FAIRSEQ = "get_ende_bleu.sh", "compound_split_bleu.sh"
FLAVOURS = (TENSOR2TENSOR, FAIRSEQ, "tokenised", "sacrebleu", "intl")
_COMPOUND = re.compile(r"(\S)-(\S)")
_PLAIN_QUOTES = str.maketrans(
    dict.fromkeys("\u201e\u201c\u201d\u201f\u00ab\u00bb", '"')
    | dict.fromkeys("\u201a\u2018\u2019\u201b\u2039\u203a", "'")
)


def split_compounds(tokens: str) -> str:
    """Take words apart at hyphens, as ``s{(\\S)-(\\S)}{$1 ##AT##-##AT## $2}g`` does.

    >>> split_compounds("ein Rich-Text-Dokument - so")
    'ein Rich ##AT##-##AT## Text ##AT##-##AT## Dokument - so'
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", tokens)


def plain_quotes(text: str) -> str:
    """Typographic quotation marks as plain ones, as tensor2tensor's references have them.

    >>> plain_quotes("\u201eJa\u201c, sagte er, \u201anein\u2018.")
    '"Ja", sagte er, \'nein\'.'
    """
    return text.translate(_PLAIN_QUOTES)


def replace_punctuation(sentences: Sequence[str]) -> list[str]:
    """Plain punctuation for some of Unicode's, as Moses' ``replace-unicode-punctuation.perl``.

    It knows the upper quotation marks, the apostrophe, the ellipsis and the marks and digits of
    Chinese text, and leaves the lower quotation mark, guillemets and dashes.

    Raises:
        UserError: if sacremoses is not installed.
    """
    normaliser = needed("sacremoses").MosesPunctNormalizer(lang="de")
    return [str(normaliser.replace_unicode_punct(sentence)) for sentence in sentences]


def tokenise(sentences: Sequence[str]) -> list[str]:
    """German Moses tokens, separated by spaces.

    Raises:
        UserError: if sacremoses is not installed.
    """
    tokenizer = needed("sacremoses").MosesTokenizer(lang="de")
    return [str(tokenizer.tokenize(sentence, return_str=True)) for sentence in sentences]


def bleu_flavours(hypotheses: Sequence[str], references: Sequence[str]) -> dict[str, Score]:
    """BLEU of German translations, plain text, in each of FLAVOURS, with signatures.

    Raises:
        UserError: if the numbers of sentences differ, or sacremoses or sacrebleu is not installed.
    """
    if len(hypotheses) != len(references):
        raise UserError(
            f"{len(hypotheses)} translations cannot be scored against {len(references)} "
            f"references; the numbers must be equal"
        )
    moses = f"moses-de-sacremoses-{needed('sacremoses').__version__}"
    plain = list(hypotheses), list(references)
    tokens = tokenise(plain[0]), tokenise(plain[1])
    quoted = [plain_quotes(reference) for reference in references]
    replaced = tokenise(replace_punctuation(hypotheses)), tokenise(quoted)
    return {
        TENSOR2TENSOR: _score(_split(replaced), "none", f"{moses}-replaced-atat"),
        FAIRSEQ: _score(_split(tokens), "none", f"{moses}-atat"),
        "tokenised": _score(tokens, "none", moses),
        "sacrebleu": _score(plain, "13a"),
        "intl": _score(plain, "intl"),
    }


def _split(texts: tuple[list[str], ...]) -> tuple[list[str], ...]:
    return tuple([split_compounds(line) for line in text] for text in texts)


def _score(texts: tuple[list[str], ...], tokenizer: str, name: str | None = None) -> Score:
    """BLEU of hypotheses and references; with a ``name``, of text that is tokenised already."""
    BLEU = needed("sacrebleu.metrics").BLEU
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
