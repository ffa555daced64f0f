"""The tokenizer beside taggers and models of sentences, and pipelines with it."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("transformers")

from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

from selfattn.errors import UserError
from selfattn_tasks.hf import WordTokenizer
from selfattn_tasks.sentences.model.predictor import Predictor
from selfattn_tasks.sentences.record import Example, Kind
from selfattn_tasks.words.vocabulary import FIRST_WORD, Vocabulary
from tests.selfattn_tasks.test_model_folder import export, sentences, tagger

# Both lists hold a word, or a word and its lower case; words with the names of special tokens.
WORDS = Vocabulary(
    ("the", "Cat", "1984", "n't", "<pad>x", "dup", "<<unk>>"),
    (),
    ("Apple", "apple", "the", "The", "dup", "New York", "NASA", "\u00e9t\u00e9", "<unk>"),
)
SPELLED = (
    *"the The THE cat Cat CAT 1984 1,984 n't N'T Apple apple APPLE NASA nasa dup Dup".split(),
    *("<pad>", "<<pad>>", "<unk>", "<<unk>>", "x<pad>x", "<pad>x"),
    *("New York", "new york", "\u0130", "\u00c9T\u00c9"),
)
TEXTS = ["The old goat.", "a Mouse; Xerxes didn't", "", "<pad> the <unk> OLD"]
PAIRS = [("The goat.", "a mouse"), ("a cat chased the old goat", ""), ("", "the"), ("cat", "A")]


def test_a_word_has_the_vocabulary_s_number(tmp_path):
    """As it stands, in lower case, known to the vectors alone, unknown, or special in its name."""
    WordTokenizer.build(WORDS).save_pretrained(tmp_path)
    tokenizer = WordTokenizer.from_pretrained(tmp_path)
    assert tokenizer.is_fast
    words = list(SPELLED)
    expected = WORDS.encode(words)
    assert tokenizer(words, is_split_into_words=True)["input_ids"] == expected
    assert len(set(expected)) > 12 and expected.count(1) > 8
    plain = [word for word in words if " " not in word]
    assert tokenizer("  ".join(plain))["input_ids"] == WORDS.encode(plain)
    batch = tokenizer([words, [], words[:2]], is_split_into_words=True, padding=True)
    with pytest.raises(UserError, match="return_offsets_mapping=True: words of this tokenizer"):
        tokenizer("the goat", return_offsets_mapping=True)
    length = len(words)
    assert batch["input_ids"] == [expected, [0] * length, expected[:2] + [0] * (length - 2)]
    assert batch["attention_mask"][2] == [1, 1] + [0] * (length - 2)


def test_an_added_token_gets_a_number_of_its_own():
    """Also where the vectors hold words that no spelling leads to."""
    known = len(WORDS.words) + len(WORDS.frozen)
    tokenizer = WordTokenizer.build(WORDS)
    assert len(tokenizer) == known + FIRST_WORD
    tokenizer.add_tokens(["foo"])
    assert tokenizer.convert_tokens_to_ids("foo") == known + FIRST_WORD


def test_lower_case_comes_first_where_the_model_has_it():
    tokenizer = WordTokenizer.build(WORDS, {"lowercase": True})
    for ids in (
        tokenizer("The CAT, an Apple didn't!")["input_ids"],
        tokenizer(["The", "CAT", ",", "an", "Apple", "did", "N'T", "!"], is_split_into_words=True)[
            "input_ids"
        ],
    ):
        assert ids == WORDS.encode("the cat , an apple did n't !".split())


@pytest.mark.parametrize("kind", [Kind.CLASSIFICATION, Kind.NLI, Kind.RELATEDNESS])
def test_a_pipeline_gives_what_the_predictor_gives(tmp_path, kind):
    """Also blocks of words, which must not see where a pair's second sentence stood in its row."""
    path = sentences(tmp_path / "model.pt", kind, context="biblosa")
    export("--to", "hf", path, tmp_path / "folder")
    predictor = Predictor.load(tmp_path / "folder")
    tokens = predictor.state.tokens
    single = kind is Kind.CLASSIFICATION
    examples = [
        Example(tuple(map(tokens, e)), None) for e in ([(t,) for t in TEXTS] if single else PAIRS)
    ]
    expected = [prediction.probabilities for prediction in predictor.predict(examples)]
    given = TEXTS if single else [{"text": a, "text_pair": b} for a, b in PAIRS]
    for size in (1, 4):  # alone, and padded
        classify = pipeline("text-classification", str(tmp_path / "folder"), batch_size=size)
        for row, found in zip(expected, classify(given, top_k=None), strict=True):
            labels = classify.model.config.id2label.values()
            best = dict(zip(labels, row, strict=True))
            assert {f["label"]: f["score"] for f in found} == pytest.approx(best, abs=1e-5)
            assert found[0]["label"] == max(best, key=best.__getitem__)
    assert len({tuple(row) for row in expected}) > 2


def test_what_a_pipeline_cannot_do_is_said(tmp_path):
    """A tagger's characters; the second sentence of a pair; candidates."""
    export("--to", "hf", tagger(tmp_path / "tagger.pt", "mtsa"), tmp_path / "folder")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "folder")
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "folder")
    batch = tokenizer("The goat chased Xerxes .", return_tensors="pt")
    assert batch["input_ids"][0].tolist() == model.vocabulary.encode(
        "The goat chased Xerxes .".split()
    )
    for pair in (("a goat", "a cat"), ([("a goat", "a cat")],), ([["a goat", "a cat"]] * 2,)):
        with pytest.raises(UserError, match="reads one text, but is given a pair"):
            tokenizer(*pair)
    with pytest.raises(UserError, match="reads one text, but is given a pair"):
        tokenizer([(["a", "goat"], ["a", "cat"])], is_split_into_words=True)
    with pytest.raises(UserError, match=r"reads spellings, too.*SRL\.from_pretrained"):
        model(**batch)
    export("--to", "hf", sentences(tmp_path / "model.pt", Kind.NLI), tmp_path / "pairs")
    classify = pipeline("text-classification", str(tmp_path / "pairs"))
    with pytest.raises(UserError, match="compares two sentences"):
        classify.model(classify.tokenizer("a goat", return_tensors="pt")["input_ids"])
    with pytest.raises(UserError, match="compares two sentences"):
        classify("a goat")
    cut = classify.tokenizer("a goat", "a", return_tensors="pt", truncation=True, max_length=1)
    with pytest.raises(UserError, match="if truncation cut it off, a larger max_length"):
        classify.model(**cut)
    with pytest.raises(UserError, match=r"\(2, 3, 4\); this model reads two sentences per example"):
        classify.model(torch.ones(2, 3, 4, dtype=torch.long))
    export("--to", "hf", sentences(tmp_path / "choice.pt", Kind.SELECTION), tmp_path / "choice")
    choose = pipeline("text-classification", str(tmp_path / "choice"))
    with pytest.raises(UserError, match="this model reads a question and two candidates or more"):
        choose("a goat")
