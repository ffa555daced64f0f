"""The flavours of BLEU against n-grams counted by hand."""

import math
from collections import Counter

import pytest

pytest.importorskip("sacremoses")
pytest.importorskip("sacrebleu")

from selfattn.errors import UserError
from wmt14.bleu import FLAVOURS, bleu_flavours, plain_quotes, replace_punctuation, split_compounds


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
    # Without typographic marks both scripts do the same.
    for name in FLAVOURS[:2]:
        assert scores[name].bleu == pytest.approx(by_hand(*SPLIT), abs=0.005)
        assert scores[name].bleu > scores["tokenised"].bleu + 1
    assert "tok:moses-de-sacremoses" in scores["tokenised"].signature
    assert scores["get_ende_bleu.sh"].signature != scores["compound_split_bleu.sh"].signature
    assert "-replaced-atat|smooth:none" in scores["get_ende_bleu.sh"].signature
    assert "-atat|smooth:none" in scores["compound_split_bleu.sh"].signature
    assert "tok:13a|smooth:exp" in scores["sacrebleu"].signature
    assert "tok:intl" in scores["intl"].signature


# Quotation marks, apostrophe, ellipsis and both dashes.
TYPOGRAPHIC = (
    [
        "Sie fragt: „Wo ist das E-Mail-Programm …“ – Peter’s Rechner steht hier.",
        "Er sagt: “Ein Wort-Paar”, »viele Wort-Paare«, ‚kein Paar‘—und geht.",
    ],
    [
        "Sie fragt: „Wo ist das E-Mail-Programm?“ – Peter’s Rechner steht dort.",
        "Er sagt: „Ein Wort-Paar“, »viele Wort-Paare«, ‚kein Paar‘—und geht.",
    ],
)
# By hand: H is ##AT##-##AT##, Q a plain double and A a plain single quotation mark.
SPLIT_TYPOGRAPHIC = [
    ["Sie fragt : „ Wo ist das E H Mail H Programm … “ – Peter ’ s Rechner steht hier .".split(),
     "Er sagt : “ Ein Wort H Paar ” , » viele Wort H Paare « , ‚ kein Paar ‘ — und geht .".split()],
    ["Sie fragt : „ Wo ist das E H Mail H Programm ? “ – Peter ’ s Rechner steht dort .".split(),
     "Er sagt : „ Ein Wort H Paar “ , » viele Wort H Paare « , ‚ kein Paar ‘ — und geht .".split()],
]  # fmt: skip
# Translations lose what Moses' script knows, references all quotation marks.
REPLACED_TYPOGRAPHIC = [
    ["Sie fragt : „ Wo ist das E H Mail H Programm ... Q – Peter A s Rechner steht hier .".split(),
     "Er sagt : Q Ein Wort H Paar Q , » viele Wort H Paare « , ‚ kein Paar ‘ — und geht .".split()],
    ["Sie fragt : Q Wo ist das E H Mail H Programm ? Q – Peter A s Rechner steht dort .".split(),
     "Er sagt : Q Ein Wort H Paar Q , Q viele Wort H Paare Q , A kein Paar A — und geht .".split()],
]  # fmt: skip


def test_typographic_marks_as_either_script_treats_them():
    scores = bleu_flavours(*TYPOGRAPHIC)
    expected = {
        "get_ende_bleu.sh": by_hand(*REPLACED_TYPOGRAPHIC),
        "compound_split_bleu.sh": by_hand(*SPLIT_TYPOGRAPHIC),
    }
    assert abs(expected["get_ende_bleu.sh"] - expected["compound_split_bleu.sh"]) > 5
    for name, bleu in expected.items():
        assert scores[name].bleu == pytest.approx(bleu, abs=0.005)
    # The reason for plain references: these marks are in all outputs alike.
    hypotheses = ["Er sagt “Ja”, und der Hund schläft.", "Peter’s Hund, sagt er, schläft …"]
    references = ["Er sagt „Ja“, und der Hund schläft.", "Peter’s Hund, sagt er, schläft ..."]
    scores = bleu_flavours(hypotheses, references)
    assert scores["get_ende_bleu.sh"].bleu == 100 > scores["compound_split_bleu.sh"].bleu + 20


def test_which_marks_are_replaced():
    assert replace_punctuation(["“a” ’b …", "„c“ «d» ‚e‘ – — -"]) == [
        '"a" \'b ...',
        '„c" «d» ‚e‘ – — -',
    ]
    assert plain_quotes("„a“ ”b‟ «c» ‚d‘ ’e‛ ‹f› … –") == "\"a\" \"b\" \"c\" 'd' 'e' 'f' … –"


def test_perfect_and_wordless_translations():
    assert {score.bleu for score in bleu_flavours(REFERENCES, REFERENCES).values()} == {100.0}
    for name in FLAVOURS[:2]:
        assert bleu_flavours(["", ""], REFERENCES)[name].bleu == 0
    with pytest.raises(UserError, match="1 translations cannot be scored against 2"):
        bleu_flavours(HYPOTHESES[:1], REFERENCES)


def test_hyphens_are_taken_apart_as_perl_does():
    # What one match has taken is not there for the next: the b of a-b-c.
    assert split_compounds("a-b-c x-yz-w - -- ok-") == (
        "a ##AT##-##AT## b-c x ##AT##-##AT## yz ##AT##-##AT## w - -- ok-"
    )
