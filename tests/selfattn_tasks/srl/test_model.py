"""SRL: raw text in, roles with their characters out."""

import json
import random
import tracemalloc

import numpy as np
import pytest
import torch

from selfattn.config import MTSAConfig
from selfattn.errors import UserError
from selfattn_tasks import checkpoints, saved
from selfattn_tasks.srl import SRL, Sentence, Text
from selfattn_tasks.srl.decode import decode
from selfattn_tasks.srl.tagger.confidence import with_confidence
from selfattn_tasks.srl.tagger.network import Tagger, TaggerConfig, network_input
from selfattn_tasks.srl.tagger.output import FORMATS, Located, pieces
from selfattn_tasks.srl.tagger.predictor import Predictor, Query
from selfattn_tasks.srl.tags import proposition_of
from selfattn_tasks.words.vocabulary import Vocabulary
from tests.scripts.test_show_attention import save_tagger

pytest.importorskip("nltk")

WORDS = ("the", "cat", "chased", "a", "mouse", ".", "it", "ran")
LABELS = ("O", "B-V", "B-A0", "I-A0", "B-A1", "I-A1", "B-AM-TMP", "B-C-A1")


class Finding(Predictor):
    """A predictor that takes known verbs, and any word with an x, for predicates."""

    def places_in(self, reading, rows):
        return [
            [i for i, w in enumerate(reading.sentences[row]) if w in ("chased", "ran") or "x" in w]
            for row in rows
        ]


def members(**more):
    torch.manual_seed(1)
    vocabulary = Vocabulary(WORDS, LABELS, alphabet="acehrt" if "characters" in more else "")
    config = TaggerConfig(
        vocabulary.trained_rows, len(LABELS), MTSAConfig.make("srl"), word_dim=8, layers=2,
        heads=2, ffn_dim=16, alphabet=vocabulary.character_rows, **{"predicate_dim": 8, **more},
    )  # fmt: skip
    return [(Tagger(config), vocabulary)]


@pytest.fixture(scope="module")
def model():
    return SRL(Finding(members()))


def plain(document):
    return [
        [(p.predicate.text, [(s.label, s.text) for s in p.spans]) for p in sentence.propositions]
        for sentence in document.sentences
    ]


def test_spans_are_pieces_of_the_text(model):
    text = "The cat  chased\na mouse. Nobody cared. It ran."
    document = model(text)
    assert [s.text for s in document.sentences] == [
        "The cat  chased\na mouse.", "Nobody cared.", "It ran."
    ]  # fmt: skip
    assert [len(s.propositions) for s in document.sentences] == [1, 0, 1]
    spans = [span for p in document.propositions for span in (p.predicate, *p.spans)]
    assert all(text[span.start : span.end] == span.text for span in spans)
    assert len(spans) > 4
    first = document.sentences[0]
    (found,) = first.propositions
    assert (found.predicate.text, found.predicate.words) == ("chased", (2, 2))
    assert [s.label for s in found.spans if s not in found.arguments] == ["V"]
    assert found.confidence is None
    sure = model(text, confidence=True)
    assert plain(sure) == plain(document)
    for proposition in sure.propositions:
        assert all(0 < piece.confidence <= 1 for piece in (proposition, *proposition.spans))


def test_print_shows_what_predict_prints(model):
    first, second = str(model("The cat chased a mouse. Nobody cared.")).split("\n\n")
    words, roles = first.splitlines()
    assert words.split() == "The cat chased a mouse .".split() and "[V" in roles
    assert second == "Nobody  cared  .\n(no predicate)"


def test_the_roles_are_those_of_the_tagger(model):
    (sentence,) = model("the cat chased it .", tokenized=True).sentences
    words = ("the", "cat", "chased", "it", ".")
    (tags,) = decode(*model.predictor.log_probs([Query(words, 2)]), LABELS, "structured")
    found = [None] * 5
    for span in sentence.propositions[0].spans:
        first, last = span.words
        found[first : last + 1] = [f"{p}-{span.label}" for p in "B" + "I" * (last - first)]
    assert [tag or "O" for tag in found] == tags[:2] + ["B-V"] + tags[3:]


@pytest.mark.parametrize(
    ("sizes", "passes"),
    [({"late_layers": 1}, 1), ({}, 2), ({"predicate_dim": 4, "characters": 4}, 2)],
)
def test_finding_and_labelling_share_a_pass_over_the_layers_below_the_predicate(sizes, passes):
    """The answers are those of two passes, each of one sentence alone."""
    ((tagger, vocabulary),) = members(**sizes)
    with torch.no_grad():
        tagger.classifier.weight *= 3
        tagger.classifier.bias[LABELS.index("B-V")] += 7  # some words, not all
    predictor = Predictor([(tagger, vocabulary)], finders=[(tagger, vocabulary)])
    generator = random.Random(1)
    sentences = [
        Sentence(tuple(generator.choices(WORDS, k=1 + i % 7))) for i in range(14)
    ] + [Sentence(())]  # fmt: skip
    alone = [predictor.predicates([s.words])[0] for s in sentences]
    assert 2 < sum(map(len, alone)) < 54
    read = {0: 0, 1: 0}
    for i, layer in enumerate(tagger.layers):
        layer.register_forward_hook(lambda *_, i=i: read.update({i: read[i] + 1}))
    together = predictor.predict(sentences, "strict", find=range(15), confidence=True)
    assert read == {0: passes, 1: 2}
    assert [[p.predicate for p in s.propositions] for s in together] == alone
    for sentence in together:
        for found in sentence.propositions:
            words, place = sentence.words, found.predicate
            rows = torch.tensor([vocabulary.encode(words)])
            batch = network_input(rows.tolist(), [place], spellings=[vocabulary.spell(words)])
            own = torch.log_softmax(tagger(**batch), -1)
            single = decode(own, rows == 0, LABELS, "strict")[0]
            expected = with_confidence(
                [proposition_of(single, place, words[place])], own, rows == 0, LABELS, "strict"
            )
            assert [found] == expected
            assert found.confidence == pytest.approx(expected[0].confidence, abs=1e-6)


def test_bf16_is_near_and_only_where_it_is_asked_for():
    query = [Query(("the", "cat", "chased", "it"), 2)]
    exact, near, again = (
        Predictor(members(), bf16=bf16).log_probs(query)[0] for bf16 in (False, True, False)
    )
    assert torch.equal(exact, again)
    assert near.dtype == torch.float32 and 0 < (near - exact).abs().max() < 0.1


def test_batches_and_streams_give_what_single_texts_give(model):
    texts = [f"{'the cat ' * (i % 5)} chased a mouse . it ran" for i in range(40)]
    single = [plain(model(text)) for text in texts]
    assert [plain(document) for document in model(texts)] == single
    windowed = SRL(model.predictor, window=30)
    assert [plain(document) for document in windowed.stream(iter(texts))] == single
    assert [plain(document) for document in windowed.stream(texts[1])] == single[1:2]


def test_a_stream_reads_as_it_goes_and_holds_one_window(model):
    taken = []

    def endless():
        while True:
            taken.append(1)
            yield "the cat chased a mouse ."

    windowed = SRL(model.predictor, window=70)
    stream = windowed.stream(endless(), tokenized=True)
    next(stream)
    assert len(taken) == 10
    for _ in range(30):
        next(stream)
    tracemalloc.start()
    for _ in range(100):
        next(stream)
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(500):
        next(stream)
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 500_000
    assert len(taken) <= 640


def test_named_predicates(model):
    def places(text, *names):
        return [
            [p.predicate.words[0] for p in sentence.propositions]
            for sentence in model(text, predicates=names).sentences
        ]

    assert places("It ran. A Mouse ran!", "mouse") == [[], [1]]
    assert places("it ran and RAN", "ran") == [[1, 3]]
    assert places("it ran", "0,ran") == [[0, 1]]
    for text, name in (("it ran", "2"), ("It ran. It ran.", "1"), ("it ran", "swam"), ("", "ran")):
        with pytest.raises(UserError, match=f"predicates {name} is neither a word"):
            places(text, name)
        with pytest.raises(UserError, match=f"predicates {name} is neither a word"):
            model(Text(text), predicates=[name])
    texts = [Text("it ran", ("it",)), "the cat chased it"]
    assert [len(list(d.propositions)) for d in model(texts, predicates=["cat"])] == [1, 1]
    assert [len(list(d.propositions)) for d in model(texts, predicates=["dog"])] == [1, 0]
    for both in ("cat,chased", ["cat", "chased"]):  # a string is no list of letters
        assert [len(list(d.propositions)) for d in model([texts[1], "a"], predicates=both)] == [
            2,
            0,
        ]
        assert len(list(model(texts[1], predicates=both).propositions)) == 2


def test_predicates_by_number():
    """A number is a position, also where a word is spelled like it."""
    model = SRL(Predictor(members()))
    texts = ["it ran", "2 ran and 2 more", Text("the 2 ran", (np.int64(2), "the"))]
    documents = model(texts, predicates=[1])
    found = [[p.predicate.text for p in document.propositions] for document in documents]
    assert found == [["ran"], ["ran"], ["the", "ran"]]
    assert plain(model("it ran", predicates=[1])) == plain(documents[0])
    for bad, message in (
        (2, "predicates 2 is neither a word"),
        (-1, "a predicate's position -1 is not allowed; it must be at least 0"),
        (None, "a predicate's position None is not allowed; it must be a whole number"),
    ):
        with pytest.raises(UserError, match=message):
            model("it ran", predicates=["ran", bad])


def test_a_model_that_finds_no_predicates_says_so():
    model = SRL(Predictor(members()))
    sentence = "this model was trained without predicate identification: name the predicates"
    with pytest.raises(UserError, match=sentence):
        model("It ran.")
    assert len(list(model("It ran.", predicates=["ran"]).propositions)) == 1


def test_folder_file_and_ensemble(tmp_path):
    with pytest.raises(UserError, match="holds no checkpoint_best.pt"):
        SRL.from_pretrained(tmp_path)
    save_tagger(tmp_path / "checkpoint_last.pt", "mtsa", "sentence")
    save_tagger(tmp_path / "other.pt", "resa")
    found = [
        plain(SRL.from_pretrained(where)("The cat chased it.", predicates=["chased"]))
        for where in (tmp_path, str(tmp_path / "checkpoint_last.pt"))
    ]
    assert found[0] == found[1]
    both = SRL.from_pretrained([tmp_path, tmp_path / "other.pt"])
    assert len(both.predictor.members) == 2
    with pytest.raises(UserError, match="does not exist"):
        SRL.from_pretrained(tmp_path / "none.pt")


def random_text(generator):
    """Any characters but surrogates, which are no text, with spaces, quotes and words between."""
    blocks = ((32, 126), (9, 13), (0, 31), (0xA0, 0x24F), (0x370, 0x6FF), (0x2000, 0x206F),
              (0x3040, 0x9FFF), (0x1F300, 0x1FAFF), (0xE000, 0x10FFFF))  # fmt: skip
    parts = []
    for _ in range(generator.choice((0, 1, 3, 20, 60))):
        if generator.random() < 0.4:
            parts.append(
                generator.choice(
                    (
                        " ",
                        "\n\n",
                        '"',
                        "''",
                        "``",
                        "’",
                        "...",
                        "<b>",
                        "ran ",
                        "x",
                        "don't",
                        "a-b",
                        "Mr. ",
                        "\u200d",
                        "\u202e",
                        ". ",
                    )
                )
            )
        else:
            parts.append(chr(generator.randint(*generator.choice(blocks))))
    return "".join(parts)


def test_a_thousand_random_strings_have_an_answer(model):
    generator = random.Random(1)
    texts = [random_text(generator) for _ in range(1000)]
    documents = model(texts)
    assert [document.text for document in documents] == texts
    assert sum(len(list(document.propositions)) for document in documents) > 300
    located = []
    for number, document in enumerate(documents):
        end = 0
        for sentence in document.sentences:
            assert sentence.offsets and sentence.start >= end
            for word, (a, b) in zip(sentence.words, sentence.offsets, strict=True):
                assert end <= a < b and document.text[a:b] == word and not word.isspace()
                end = b
            for proposition in sentence.propositions:
                assert all(document.text[s.start : s.end] == s.text for s in proposition.spans)
            located.append(Located(sentence, number, 0))
        kept = "".join(w for s in document.sentences for w in s.words)
        assert kept == "".join(document.text.split())
    for form in FORMATS:
        written = "".join(pieces(located, form)).encode("utf-8").decode("utf-8")
        if form == "jsonl":
            assert len([json.loads(line) for line in written.split("\n")[:-1]]) == len(located)
        elif form == "json":
            assert len(json.loads(written)) == len(located)


def test_two_thousand_words_without_a_full_stop(model):
    (sentence,) = model("the cat chased a mouse " + "the cat a mouse it " * 399).sentences
    assert len(sentence.words) == 2000 and len(sentence.propositions) == 1


def test_a_tagger_of_whole_sequences_is_not_decoded_word_by_word(tmp_path):
    save_tagger(tmp_path / "a.pt", "mtsa", "srl")
    state = checkpoints.read(tmp_path / "a.pt")
    state["cfg"]["criterion"] = {"_name": "bio_crf"}
    saved.write(state, tmp_path / "a.pt")
    model = SRL.from_pretrained(tmp_path / "a.pt", decoder="argmax")
    with pytest.raises(UserError, match="--decoder argmax does not fit a tagger of --criterion"):
        model("the cat", predicates=["cat"], tokenized=True)
    model.decoder = "strict"
    (found,) = model("the cat", predicates=["cat"], tokenized=True).propositions
    assert found.predicate.text == "cat"
