"""The flavours of BLEU against n-grams counted by hand."""

import math
from collections import Counter

import pytest

pytest.importorskip("sacremoses")
pytest.importorskip("sacrebleu")

from selfattn.errors import UserError  # noqa: E402
from selfattn.wmt14.bleu import FLAVOURS, bleu_flavours, split_compounds  # noqa: E402


def by_hand(hypotheses, references):
    """Papineni et al. 2002: corpus BLEU of lists of tokens, no smoothing."""
    matches, totals = Counter(), Counter()
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        for n in range(1, 5):
            grams = [
                Counter(tuple(side[i : i + n]) for i in range(len(side) - n + 1))
                for side in (hypothesis, reference)
            ]
            matches[n] += sum((grams[0] & grams[1]).values())
            totals[n] += sum(grams[0].values())
    lengths = [sum(map(len, side)) for side in (hypotheses, references)]
    brevity = min(1.0, math.exp(1 - lengths[1] / lengths[0]))
    return 100 * brevity * math.prod(matches[n] / totals[n] for n in range(1, 5)) ** 0.25


REFERENCES = ['Er sagt: "Die Rich-Text-Datei kostet 3,50 Euro."', "Das E-Mail-Programm ist neu."]
HYPOTHESES = ['Er sagt: "Diese Rich-Text-Datei kostet 3,50 Dollar."', "Das E-Mail-System ist alt."]
# The tokens of Moses, written down by hand; its &quot; stands for the quotation mark.
TOKENISED = [
    ["Er sagt : Q Diese Rich-Text-Datei kostet 3,50 Dollar . Q".split(),
     "Das E-Mail-System ist alt .".split()],
    ["Er sagt : Q Die Rich-Text-Datei kostet 3,50 Euro . Q".split(),
     "Das E-Mail-Programm ist neu .".split()],
]  # fmt: skip
SPLIT = [
    ["Er sagt : Q Diese Rich H Text H Datei kostet 3,50 Dollar . Q".split(),
     "Das E H Mail H System ist alt .".split()],
    ["Er sagt : Q Die Rich H Text H Datei kostet 3,50 Euro . Q".split(),
     "Das E H Mail H Programm ist neu .".split()],
]  # fmt: skip


def test_flavours_by_hand():
    scores = bleu_flavours(HYPOTHESES, REFERENCES)
    assert tuple(scores) == FLAVOURS
    assert scores["tokenised"].bleu == pytest.approx(by_hand(*TOKENISED), abs=0.005)
    assert scores["compound-split"].bleu == pytest.approx(by_hand(*SPLIT), abs=0.005)
    assert scores["compound-split"].bleu > scores["tokenised"].bleu + 1
    assert "tok:moses-de-sacremoses" in scores["tokenised"].signature
    assert "-atat|smooth:none" in scores["compound-split"].signature
    assert "tok:13a|smooth:exp" in scores["sacrebleu"].signature
    assert "tok:intl" in scores["intl"].signature


def test_perfect_and_wordless_translations():
    assert {score.bleu for score in bleu_flavours(REFERENCES, REFERENCES).values()} == {100.0}
    assert bleu_flavours(["", ""], REFERENCES)["compound-split"].bleu == 0
    with pytest.raises(UserError, match="1 translations cannot be scored against 2"):
        bleu_flavours(HYPOTHESES[:1], REFERENCES)


def test_hyphens_are_taken_apart_as_perl_does():
    # What one match has taken is not there for the next: the b of a-b-c.
    assert split_compounds("a-b-c x-yz-w - -- ok-") == (
        "a ##AT##-##AT## b-c x ##AT##-##AT## yz ##AT##-##AT## w - -- ok-"
    )
