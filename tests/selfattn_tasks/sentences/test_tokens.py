"""Words of texts: raw and tokenised text alike, and what the papers split further."""

import pytest

from selfattn_tasks.sentences.tokens import Tokens

RAW = "Don't pour it, they said: it's the cook's well-known o'clock tea (50% milk) -- isn't it?"


@pytest.mark.parametrize(
    "tokenised",
    [
        "Do n't pour it , they said : it 's the cook 's well-known o'clock tea ( 50 % milk ) -- "
        "is n't it ?",
        "Don 't pour it , they said : it 's the cook 's well-known o'clock tea -LRB- 50 % milk "
        "-RRB- -- isn 't it ?",
        "Do n 't pour it , they said : it's the cook's well-known o'clock tea -lrb- 50% milk "
        "-rrb- -- is n 't it ?",
        "Don\u2019t pour it, they said: it\u2019s the cook\u2019s well-known o\u2019clock tea "
        "(50% milk) -- isn\u2019t it?",
    ],
    ids=["treebank", "snli", "cr", "curly"],
)
def test_raw_and_tokenised_text_gives_the_same_words(tokenised):
    words = Tokens()(RAW)
    assert " ".join(words) == (
        "do n't pour it , they said : it 's the cook 's well-known o'clock tea ( 50 % milk ) -- "
        "is n't it ?"
    )
    assert Tokens()(tokenised) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        ("  \t ", ""),
        ("Tea", "tea"),
        ("``Tea'' \u201ctoo\u201d", '" tea " " too "'),
        ("the U.S. has 1,000.5 cups at 3:30.", "the u.s. has 1,000.5 cups at 3:30 ."),
        ("wait... what?!", "wait ... what ? !"),
        ("and/or 1/2 R&B", "and/or 1/2 r&b"),
        ("the dogs' 'tea'", "the dogs ' ' tea '"),
        ("tea\x97milk\x85", "tea \u2014 milk ..."),
        ("caf\u0065\u0301", "caf\u00e9"),
        ("a\u200bb\u00a0c", "ab c"),
        ("tea\\/milk \\*", "tea/milk *"),
        ("-L\u017fB- tea", "[ tea"),
        ("I'd've", "i 'd 've"),
        ("in 'the' can't", "in ' the ' ca n't"),
        ("\u0939\u093f\u0928\u094d\u0926\u0940", "\u0939\u093f\u0928\u094d\u0926\u0940"),
        ("x\u0304, \u0130z!\u0301a", "x\u0304 , i\u0307z ! \u0301 a"),
        ("\u0645\u06cc\u200c\u062e \U0001f600\ufe0f", "\u0645\u06cc\u200c\u062e \U0001f600 \ufe0f"),
    ],
)  # fmt: skip
def test_words(text, words):
    assert " ".join(Tokens()(text)) == words
    assert Tokens()(words) == Tokens()(text)


def test_the_further_split_of_the_papers_keeps_no_empty_words():
    split = Tokens(split_words=True)
    words = split("Don't re-pour -- \"it's\" well~known/new")
    assert " ".join(words) == "do n ' t re - pour - - \" it ' s \" well ~ known / new"
    assert split(" ".join(words)) == words
    assert "" not in words


def test_case_is_kept_where_asked():
    assert Tokens(lowercase=False)("DON'T Pour") == ("DO", "N'T", "Pour")


def test_words_as_words_are_not_split():
    assert Tokens().of_words(["Don't", "a b", "x/y"]) == ("don't", "a b", "x/y")


def test_ten_thousand_words():
    text = "tea and milk, " * 2500
    assert len(Tokens()(text)) == 10_000
