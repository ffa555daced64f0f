"""Sentences and words of raw text, with their characters."""

import itertools
import sys

import pytest

from selfattn.errors import UserError
from selfattn_tasks.srl.text.segmentation import LONGEST, Segmenter, at_spaces, treebank_forms

pytest.importorskip("nltk")


@pytest.fixture(scope="module")
def segmenter():
    return Segmenter()


def shown(text, sentences):
    return [" ".join(text[a:b] for a, b in words) for words in sentences]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ann's dog can't swim, no?", ["Ann 's dog ca n't swim , no ?"]),
        ('She said "I\'ll pay $4.50."', ["She said \" I 'll pay $ 4.50 . \""]),
        ("Mr. Low left. Dr. Ames (who\nstayed) slept!", ["Mr. Low left .",
                                                         "Dr. Ames ( who stayed ) slept !"]),
        ("A title\n \nThe  rest", ["A title", "The rest"]),
        ("It isn’t “new”.", ["It is n’t “ new ” ."]),
        ("a well-known fact", ["a well-known fact"]),
        ("cannot stop -- gonna go...", ["can not stop -- gon na go ..."]),
        ("Ask (ann@tea.org), see https://t.org/a-b?x=1&y=2 or www.t.org.",
         ["Ask ( ann@tea.org ) , see https://t.org/a-b?x=1&y=2 or www.t.org ."]),
        ("The U.S. team left at 5 p.m. today. No. 5 won, etc. They", [
            "The U.S. team left at 5 p.m. today .", "No. 5 won , etc .", "They"]),
        ("<b>tea</b> 😀 茶", ["< b > tea < /b > 😀 茶"]),
        ("", []),
        (" \n\n\t\n ", []),
    ],
)  # fmt: skip
def test_penn_treebank_words(segmenter, text, expected):
    assert shown(text, segmenter(text)) == expected


def test_hyphens_are_words_where_the_corpus_has_them_so():
    text = "a well-known 15-year-old -x co- F-16"
    assert shown(text, Segmenter(hyphens=True)(text)) == [
        "a well - known 15 - year - old -x co- F - 16"
    ]
    assert shown("mid\u2011June", Segmenter(hyphens=True)("mid\u2011June")) == ["mid \u2011 June"]


def test_a_text_that_is_one_sentence(segmenter):
    text = "Stop. Go on! He left."
    assert len(segmenter(text)) == 3
    assert shown(text, segmenter(text, whole=True)) == ["Stop. Go on ! He left ."]


def test_split_at_spaces():
    assert shown("do n't\tgo .", at_spaces("do n't\tgo .")) == ["do n't go ."]


def test_a_paragraph_of_any_length_has_the_same_sentences(segmenter):
    """NLTK gives up on more than it reads in five seconds."""
    piece = "Mr. Low left at 5 p.m. on May 3. Dr. Ames (who stayed) slept! "
    text = piece * 2_000
    assert shown(text, segmenter(text)) == 2_000 * shown(piece, segmenter(piece))


@pytest.mark.parametrize(
    "text", [". " * 11_000, "go " * (2 * LONGEST + 5), "x" * 100_000, "((" * 3000, "\"'" * 9]
)
def test_sentences_without_end_are_cut(segmenter, text):
    found = segmenter(text)
    assert max(map(len, found)) <= LONGEST
    flat = list(itertools.chain(*found))
    assert "".join(text[a:b] for a, b in flat) == text.replace(" ", "")
    assert flat == sorted(flat)


def test_words_take_the_form_that_training_saw():
    words = ("“", "Yes", "”", "(", "it", "isn’t", ")", '"', "x", '"')
    penn = {"``", "''", "-LRB-", "-RRB-"}
    assert treebank_forms(words, penn) == (
        "``", "Yes", "''", "-LRB-", "it", "isn't", "-RRB-", "``", "x", "''"
    )  # fmt: skip
    lower = treebank_forms(("(", "No", ")"), {"-lrb-", "-rrb-", "no"})  # of a model's dictionary
    assert lower == ("-LRB-", "No", "-RRB-")
    web = {'"', "(", ")", "isn’t"}
    assert treebank_forms(words, web) == ('"', "Yes", '"', "(", "it", "isn’t", ")", '"', "x", '"')


def test_what_nobody_sees_makes_no_other_word(segmenter):
    """Soft hyphens and the like of web pages and PDFs, accents apart from their letters."""
    text = "\ufeffShe didn\u02bct see a bud\u00adget\u200b, cafe\u0301 or mid\u2011June"
    (words,) = segmenter(text)
    assert treebank_forms([text[a:b] for a, b in words], {"caf\u00e9"}) == (
        "She", "did", "n't", "see", "a", "budget", ",", "caf\u00e9", "or", "mid-June"
    )  # fmt: skip
    assert treebank_forms(("\u200b",), ()) == ("\u200b",)


def test_a_quotation_may_go_on_behind_its_sentence(segmenter):
    """Quotes open or close by what they touch; those between spaces take turns."""
    text = 'I left. I ran," he said. "Why (" no ")?" He is 5\' 10" tall--"no" " x "'
    found = [
        treebank_forms([text[a:b] for a, b in words], {"``", "''"}, text, words)
        for words in segmenter(text)
    ]
    assert [[word for word in words if word in ("``", "''")] for words in found] == [
        [], ["''"], ["``", "''", "``", "''"], ["''", "``", "''", "``", "''"],
    ]  # fmt: skip


def test_without_nltk_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "nltk.tokenize.punkt", None)  # as if it were not there
    with pytest.raises(
        UserError, match="nltk is not installed: install it with `pip install nltk`"
    ):
        Segmenter()
