"""scripts/show_attention.py on taggers; translation models: tests/plugin/test_show_attention.py."""

import json
import struct
import xml.etree.ElementTree
from dataclasses import replace

import numpy as np
import pytest
import torch

from selfattn.errors import UserError
from selfattn_experiments.commands.show import tagger_on
from selfattn_experiments.commands.verbs import run_script
from selfattn_tasks import saved
from selfattn_tasks.capture import inspections
from selfattn_tasks.srl import SRL
from selfattn_tasks.srl.tagger.network import Tagger, TaggerConfig
from selfattn_tasks.srl.tagger.predictor import Predictor, Query
from selfattn_tasks.srl.tagger.state import KEY, PREFIX, TaggerState
from selfattn_tasks.srl.tagger.sublayer import SUBLAYERS
from selfattn_tasks.words.vocabulary import Vocabulary

pytest.importorskip("matplotlib")
pytest.importorskip("nltk")

WORDS = ("the", "old", "cat", "chased", "a", "mouse", ".")


def save_tagger(path, name, preset=None):
    """A checkpoint of a tagger with random weights, as --task srl_tagging stores it."""
    torch.manual_seed(1)
    vocabulary = Vocabulary(WORDS, ("O", "B-V", "B-A0", "I-A0"))
    config = TaggerConfig(
        vocabulary.trained_rows, 4, SUBLAYERS[name].make(preset), word_dim=8, predicate_dim=8,
        layers=2, heads=2, ffn_dim=16,
    )  # fmt: skip
    weights = {PREFIX + name: value for name, value in Tagger(config).state_dict().items()}
    task = {KEY: TaggerState(vocabulary, config).dump()}
    cfg = {"model": None, "task": {"_name": KEY}}
    saved.write({"model": weights, "cfg": cfg, "task_state": task}, path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("taggers")
    save_tagger(folder / "mtsa.pt", "mtsa", "sentence")
    save_tagger(folder / "resa.pt", "resa")
    save_tagger(folder / "cnn.pt", "cnn")
    (folder / "text.pt").write_text("no checkpoint")
    return folder


@pytest.fixture
def show(folder, run_cli):
    return lambda *args: run_cli(["scripts/show_attention.py", *args], cwd=folder)


def test_a_tagger_s_layers_as_pictures_and_numbers(show, folder):
    done = show("mtsa.pt", "The old $x$ chased a mouse .", "--tokenized", "--predicate", "chased",
                "--layer", "all", "--output", "cat.png", "--json", "cat.json")  # fmt: skip
    names = [f"cat-layer{n}.{ending}" for n in (1, 2) for ending in ("png", "svg")]
    assert done.stdout.splitlines() == [
        "mtsa, 2 layers, 7 tokens: token2token, source2token, gate",
        "wrote cat-layer1.png and cat-layer1.svg",
        "wrote cat-layer2.png and cat-layer2.svg",
        "wrote cat.json",
    ], done.stderr
    assert sorted(p.name for p in folder.glob("cat-*")) == names

    width, height = struct.unpack(">II", (folder / names[0]).read_bytes()[16:24])
    assert 500 < width < 4000 and 500 < height < 4000
    tree = xml.etree.ElementTree.parse(folder / names[1])
    texts = [element.text for element in tree.iter("{http://www.w3.org/2000/svg}text")]
    for word in ("The", "old", "$x$", "chased", "mouse", "."):
        assert texts.count(word) >= 5, word

    found = json.loads((folder / "cat.json").read_text(encoding="utf-8"))
    words = ["The", "old", "$x$", "chased", "a", "mouse", "."]
    assert (found["tokens"], found["predicate"]) == (words, 3)
    predictor = Predictor.load([folder / "mtsa.pt"])
    tagger = predictor.members[0][0]
    layers = [layer.attention for layer in tagger.layers]
    seen = inspections(tagger, layers, lambda: predictor.log_probs([Query(words, 3)]))
    for layer, inspection in zip(found["layers"], seen, strict=True):
        for part in ("token2token", "source2token", "gate"):
            expected = getattr(inspection, part)[0].numpy()
            np.testing.assert_allclose(np.array(layer[part]), expected, atol=1e-8)
        forward, backward = np.array(layer["token2token"])
        assert layer["masks"] == ["forward", "backward"]
        np.testing.assert_allclose(forward.sum(-1), [0, 1, 1, 1, 1, 1, 1], atol=1e-7)
        np.testing.assert_allclose(backward.sum(-1), [1, 1, 1, 1, 1, 1, 0], atol=1e-7)
        assert (np.triu(forward) == 0).all() and (np.tril(backward) == 0).all()


@pytest.mark.parametrize("hyphen", ["-", "x"])
def test_a_tagger_s_words_are_those_that_it_labels(show, folder, hyphen):
    state = torch.load(folder / "mtsa.pt", weights_only=False)
    state["task_state"][KEY]["vocabulary"]["words"][0] = hyphen
    torch.save(state, folder / "hyphen.pt")
    text = "The well-known cat (she) didn't chase."
    show("hyphen.pt", text, "--predicate", "chase", "--json", "hyphen.json").ok()
    model = SRL.from_pretrained(folder / "hyphen.pt")
    (sentence,) = model(text, predicates=["chase"]).sentences
    assert json.loads((folder / "hyphen.json").read_text())["tokens"] == list(sentence.words)
    assert ("-" in sentence.words) == (hyphen == "-")


def test_a_tagger_reads_brackets_as_its_training_writes_them(folder):
    ((tagger, vocabulary),) = Predictor.load([folder / "mtsa.pt"]).members
    predictor = Predictor([(tagger, replace(vocabulary, words=("-LRB-", *WORDS[1:])))])
    typed, written = (tagger_on(predictor, (word, "chased"), 1) for word in ("(", "-LRB-"))
    assert typed.tokens == ("(", "chased")
    assert torch.equal(typed.layers[1].gate, written.layers[1].gate)


def test_selected_tokens_of_one_head_and_one_part(show, folder):
    show("resa.pt", "The old cat chased a mouse.", "--predicate", "3", "--what",
         "selection,token2token", "--heads", "2", "--json", "resa.json").ok()  # fmt: skip
    (layer,) = json.loads((folder / "resa.json").read_text(encoding="utf-8"))["layers"]
    assert (layer["layer"], layer["heads"]) == (2, [2])
    assert len(layer["selected_heads"]) == len(layer["selected_dependents"]) == 7
    assert "gate" not in layer
    assert "selected tokens" in (folder / "attention.svg").read_text(encoding="utf-8")


CAT = "The old cat chased the mouse."


def test_a_mistake_ends_the_command_with_one_sentence(show):
    done = show("mtsa.pt", CAT, "--what", "all")
    assert (done.returncode, done.stdout) == (2, "")
    allowed = "token2token, source2token, gate, selection"
    assert done.stderr == (
        f"show_attention.py: error: --what all is unknown; allowed are {allowed}\n"
    )


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["none.pt", CAT], "the checkpoint none.pt does not exist"),
        (["text.pt", CAT], "text.pt: it is not a fairseq checkpoint"),
        (["mtsa.pt", CAT], "no predicate is named; give --predicate WORD or POSITION"),
        (["mtsa.pt", CAT, "--predicate", "dog"], "--predicate dog is neither a word"),
        (["mtsa.pt", CAT, "--predicate", "the"], "the sentence has it at 0 and 4"),
        (["mtsa.pt", " ", "--predicate", "0"], "the sentence is empty"),
        (["mtsa.pt", CAT, "--predicate", "3", "--layer", "3"], "the model has the layers 1 to 2"),
        (["mtsa.pt", CAT, "--predicate", "3", "--heads", "1,9"], "--heads 9: layer 2 has"),
        (["mtsa.pt", CAT, "--data", "x"], "--data x is for a translation that fairseq trained"),
        (["mtsa.pt", CAT, "--user-dir", "x"], "--user-dir x is for a translation that fairseq"),
        (["translation-en-de-small", CAT, "--data", "x"], "--data x is for a translation that"),
        (["translation-en-de-small", CAT, "--tokenized"], "--tokenized is for taggers and"),
        (["mtsa.pt", CAT, "--heads", "one"], "--heads one is not allowed"),
        (
            ["mtsa.pt", CAT, "--predicate", "3", "--what", "selection"],
            "mtsa has none; it has",
        ),
        (["cnn.pt", CAT, "--predicate", "3"], "ContextSublayer is not an attention layer"),
        (
            ["mtsa.pt", CAT, "--output", "no/cat"],
            "--output is no/cat.png, but there is no folder no",
        ),
        (["mtsa.pt", CAT, "--output", "."], "--output is ., which is a folder"),
    ],
    ids=lambda value: "" if isinstance(value, str) else " ".join(value[2:]) or value[0],
)
def test_mistakes_are_refused(folder, monkeypatch, args, words):
    monkeypatch.chdir(folder)
    monkeypatch.setattr("sys.argv", ["show_attention.py", *args])
    before = sorted(folder.iterdir())
    with pytest.raises(UserError) as error:
        run_script("show_attention.py")
    assert words in str(error.value)
    assert sorted(folder.iterdir()) == before
