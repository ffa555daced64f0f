"""What looks wrong in parallel text: found, counted, and not found where nothing is wrong."""

from pathlib import Path

import pytest

from selfattn_tasks.text import ParallelText
from selfattn_tasks.translation.suspicions import suspicions

WHO = (("the cat", "die Katze"), ("a dog", "ein Hund"), ("my aunt", "meine Tante"))
DOES = (("sees", "sieht"), ("hears", "hört"), ("paints", "malt"), ("likes", "mag"))
WHAT = (("the moon", "den Mond"), ("red boats", "rote Boote"), ("Anna", "Anna"))
PAIRS = [tuple(" ".join(w[side] for w in (a, b, c)) for side in (0, 1))
         for a in WHO for b in DOES for c in WHAT]  # fmt: skip


def found(train=PAIRS, **others):
    return suspicions({
        name: ParallelText(Path(f"{name}.en"), Path(f"{name}.de"), list(pairs))
        for name, pairs in {"train": train, **others}.items()
    })  # fmt: skip


def swap(pairs):
    return [(b, a) for a, b in pairs]


def test_clean_text_raises_no_suspicion():
    assert found(valid=PAIRS[:5]) == []
    quiet = [("caf\u00e9\u2026 \u201cSpa\u00df\u201d", "N\u00c3O, 5 \u00b0C & r\u00e9sum\u00e9")]
    assert found([*PAIRS, *quiet], valid=quiet) == []
    assert found([*PAIRS, ("OK", "OK"), ("", "")]) == []  # a copy alone, and an empty pair


@pytest.mark.parametrize("name", ["train", "pair"])
def test_copies(name):
    copies = [(f"line {n}", f"line  {n} ") for n in range(4)]
    (warning,) = suspicions({name: ParallelText(Path("a"), Path("b"), [*PAIRS, *copies])})
    assert warning.startswith("a and b: pairs of identical sides: 4 of 40, the first in line 37")


def test_swapped_sides():
    (warning,) = found(valid=swap(PAIRS[:5]), test=PAIRS[:5])
    assert warning.startswith(
        "valid.en and valid.de: pairs whose words are more common on the other"
    )
    assert " text: 5 of 5, the first in line 1;" in warning
    (warning,) = found([*PAIRS[:33], *swap(PAIRS[33:])])
    assert warning.startswith("train.en and train.de: pairs whose words are more common")
    assert " text: 3 of 36, the first in line 34;" in warning
    assert found(swap(PAIRS), valid=swap(PAIRS[:5])) == []  # alike, so that no count can tell


@pytest.mark.parametrize(
    ("line", "codec"),
    [("sch\u00f6n", "latin-1"), ("\u00c4rger", "cp1252"), ("Stra\u00dfe", "cp1252"),
     ("so \u2013 ja", "cp1252"), ("5 \u00b0C", "latin-1")],
)  # fmt: skip
def test_utf8_read_as_latin1(line, codec):
    misread = line.encode().decode(codec)
    (warning,) = found(valid=[*PAIRS[:2], ("the cat sees", misread)])
    assert warning.startswith("valid.de: lines that look like UTF-8 read as Latin-1")
    assert "): 1, the first is 3;" in warning


@pytest.mark.parametrize("mark", ["<s>", "</s>", "<unk>"])
def test_marks_of_sentences(mark):
    (warning,) = found([*PAIRS, (f"the {mark}cat sees", "die Katze sieht")])
    assert warning.startswith("train.en: lines with <s>, </s> or <unk>, which SentencePiece")


@pytest.mark.parametrize("entity", ["&quot;", "&#39;", "&#x27;", "&amp;"])
def test_entities(entity):
    (warning,) = found([*PAIRS, (f"the {entity}cat{entity} sees", "die Katze sieht")])
    assert warning.startswith("train.en: lines with entities such as &quot;: 1, the first is 37")
