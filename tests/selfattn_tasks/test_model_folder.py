"""Taggers and models of sentences as Hugging Face folders: the same numbers, and back."""

from __future__ import annotations

import copy
import json
import shutil
from functools import partial

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("transformers")

from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    Trainer,
    TrainingArguments,
)

import selfattn_tasks.hf  # noqa: F401
from selfattn.errors import UserError
from selfattn.models.relatedness_head import distribution
from selfattn_tasks import checkpoints, saved
from selfattn_tasks.hf.translator import Translator
from selfattn_tasks.sentences.model.network import SentenceModel, SentenceModelConfig, pad
from selfattn_tasks.sentences.model.predictor import Predictor as SentencePredictor
from selfattn_tasks.sentences.model.state import KEY as SENTENCES
from selfattn_tasks.sentences.model.state import SentenceState
from selfattn_tasks.sentences.record import NLI_LABELS, Example, Kind
from selfattn_tasks.srl import SRL
from selfattn_tasks.srl.tagger.network import Tagger, TaggerConfig, network_input
from selfattn_tasks.srl.tagger.predictor import Query
from selfattn_tasks.srl.tagger.state import KEY, TaggerState
from selfattn_tasks.srl.tagger.sublayer import SUBLAYERS
from selfattn_tasks.words.vocabulary import Vocabulary
from tests.conftest import run_verb

WORDS = ("the", "old", "cat", "chased", "a", "mouse", ".")
ROLES = Vocabulary(WORDS, ("O", "B-V", "B-A0", "I-A0"), ("goat", "tulip", "kite"), "acehot")
QUERIES = [Query(("The", "tulip", "chased", "Xerxes"), 2), Query(WORDS, 3), Query(WORDS, 5)]
# A switch that is a list, the inputs of late layers, and two that are no mechanism of the project.
TAGGERS = {
    "mtsa": {"preset": "sentence", "late_layers": 1},
    "resa": {"late_layers": 2},
    "multihead": {"timing": True, "scale_embedding": False},
    "bilstm": {},
}
PLAIN = {"learning_rate": 0.01, "report_to": [], "use_cpu": True, "save_strategy": "no"}


export = partial(run_verb, "export")


def write(path, network, prefix, task_state, criterion="bio_tagging"):
    """A checkpoint with random weights, and buffers that are not 0."""
    weights = {prefix + name: value.clone() for name, value in network.state_dict().items()}
    for name, value in weights.items():
        if name.endswith("frozen"):
            value.normal_()
    args = {"arch": "x", "criterion": criterion, "dropout": 0.2, "data": "/secret"}
    saved.write(checkpoints.model_folder.checkpoint(weights, args, task_state), path)
    return path


def tagger(path, name, target="both", criterion="bio_tagging", **options):
    torch.manual_seed(1)
    sizes = {"word_dim": 8, "predicate_dim": 8, "layers": 2, "heads": 2, "ffn_dim": 16}
    config = TaggerConfig(
        ROLES.trained_rows, 4, SUBLAYERS[name].make(options.pop("preset", None)), frozen_words=3,
        characters=4, alphabet=ROLES.character_rows, **sizes | options,
    )  # fmt: skip
    state = TaggerState(ROLES, config, target)
    return write(path, Tagger(config), "tagger.", {KEY: state.dump()}, criterion)


def sentences(path, kind, context="mtsa"):
    torch.manual_seed(1)
    labels = {"nli": NLI_LABELS, "classification": ("x", "y")}.get(str(kind), ())
    classes = {"relatedness": 5, "selection": 1}.get(str(kind), len(labels))
    vocabulary = Vocabulary(WORDS, labels, ("goat",))
    config = SentenceModelConfig(
        str(kind), 7, classes, 1, embed_dim=8, context=context, hidden_size=8, head_hidden_size=6
    )
    meta = {"kind": str(kind), "labels": list(labels), "tokens": {}, "inputs": {"/secret": "1"}}
    model = SentenceModel(config)
    state = SentenceState(vocabulary, meta, model.config)
    return write(path, model, "network.", {SENTENCES: state.dump()})


def refused_outputs(model, *inputs, **more):
    for name in ("output_attentions", "output_hidden_states"):
        with pytest.raises(UserError, match=f"{name}=True: the model returns logits and loss al"):
            model(*inputs, **more, **{name: True})
    with pytest.raises(UserError, match="padding_mask is given, but these models read attention_"):
        model(*inputs, **more, padding_mask=inputs[0] == 0)


def refused_labels(kind, folder):
    with pytest.raises(UserError, match="num_labels 77 is not allowed; the model has"):
        kind.from_pretrained(folder, num_labels=77, ignore_mismatched_sizes=True)


@pytest.mark.parametrize("name", TAGGERS)
def test_a_tagger_s_folder_computes_the_same(tmp_path, name):
    """With characters, left-out words, and layers above the mark; in transformers, too."""
    path, folder = tagger(tmp_path / "tagger.pt", name, **TAGGERS[name]), tmp_path / "folder"
    export("--to", "hf", path, folder)
    first, second = SRL.from_pretrained(path), SRL.from_pretrained(folder)
    expected = first.predictor.log_probs(QUERIES)[0]
    assert torch.equal(second.predictor.log_probs(QUERIES)[0], expected)
    for text in ("The goat chased a mouse. A tulip!", ""):
        assert first(text, confidence=True) == second(text, confidence=True)
    refused_labels(AutoModelForTokenClassification, folder)
    model = AutoModelForTokenClassification.from_pretrained(folder).eval()
    assert model.config.id2label == dict(enumerate(ROLES.labels))
    inputs = network_input(
        [model.vocabulary.encode(query.words) for query in QUERIES],
        [query.predicate for query in QUERIES],
        spellings=[model.vocabulary.spell(query.words) for query in QUERIES],
    )
    ids, more = inputs["words"], {name: inputs[name] for name in ("spellings", "places")}
    found = model(ids, token_type_ids=inputs["indicator"], labels=inputs["indicator"], **more)
    refused_outputs(model, ids, **more)
    for types in (2 * inputs["indicator"], inputs["indicator"][:, 1:]):
        with pytest.raises(UserError, match="token_type_ids have shape .* they must be 0 or 1"):
            model(ids, token_type_ids=types, **more)
    keep = ids != 0
    # The predictor reads a sentence once for all its predicates.
    torch.testing.assert_close(found.logits.log_softmax(-1)[keep], expected[keep])
    assert found.loss.isfinite() and found.loss.requires_grad
    with_mask = model(ids + 2 * ~keep, keep.long(), inputs["indicator"], **more)
    torch.testing.assert_close(with_mask.logits[keep], found.logits[keep])


@pytest.mark.parametrize("kind", list(Kind))
def test_a_sentence_model_s_folder_computes_the_same_and_learns(tmp_path, kind):
    path, folder = sentences(tmp_path / "model.pt", kind), tmp_path / "folder"
    export("--to", "hf", path, folder)
    count = {"single": 1, "pair": 2}.get(kind.shape, 3)
    texts = [("the", "old", "goat"), ("a", "cat", "."), ("Xerxes",)]
    examples = [Example(tuple(texts[:count]), None), Example(tuple(texts[::-1][:count]), None)]
    first, second = SentencePredictor.load(path), SentencePredictor.load(folder)
    assert first.predict(examples) == second.predict(examples)
    refused_labels(AutoModelForSequenceClassification, folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    words, missing = pad(
        [[model.state.vocabulary.encode(s) for s in e.sentences] for e in examples]
    )
    expected = first.members[0][0](words, missing)
    assert torch.equal(model(words, missing=missing).logits, expected)
    masked = model(words + 3 * (words == 0), (words != 0).long()).logits
    torch.testing.assert_close(masked, expected)
    refused_outputs(model, words)
    none = words[:0] if kind is Kind.SELECTION else words.new_zeros(0, 5)
    assert len(model(none, token_type_ids=none).logits) == 0
    if kind.shape == "single":
        with pytest.raises(UserError, match="token_type_ids are not all 0, but this model reads"):
            model(words[:, 0], token_type_ids=(words[:, 0] > 2).long())
    for wrong, said in (
        ((words != 0)[0], "must be that of"),
        ((words != 0).float() - 1, "0 and 1"),
    ):
        with pytest.raises(UserError, match=said):
            model(words, wrong)
    label = 3.7 if kind is Kind.RELATEDNESS else 1
    if kind is Kind.RELATEDNESS:
        with pytest.raises(UserError, match=r"between 0.0 and 3.0; scores from 1 to 5 are allowed"):
            model(words, labels=torch.tensor([0.0, 3.0]))
    rows = [{"input_ids": row, "labels": label} for row in words] * 8
    before = model(words, labels=torch.tensor([label] * 2)).loss.item()
    settings = TrainingArguments(tmp_path / "run", max_steps=8, disable_tqdm=True, **PLAIN)
    Trainer(model, settings, train_dataset=rows).train()
    assert model.eval()(words, labels=torch.tensor([label] * 2)).loss.item() < before
    half = copy.deepcopy(model).bfloat16()(words, labels=torch.tensor([label] * 2))
    want = distribution(torch.tensor([3.7] * 2)) if label != 1 else torch.tensor([1, 1])
    assert torch.equal(half.loss, F.cross_entropy(half.logits.float(), want))
    model.save_pretrained(tmp_path / "trained")
    again = SentencePredictor.load(tmp_path / "trained").members[0][0]
    assert torch.equal(again(words, missing), model(words, missing=missing).logits)


def test_half_precision_and_fewer_vectors(tmp_path):
    """What `selfattn average` writes, of a folder, too, stays small, and counts in float32."""
    export("--to", "hf", tagger(tmp_path / "tagger.pt", "mtsa", "arguments"), tmp_path / "tagger")
    less = ("--half", "--keep-vectors", 1, "--output", tmp_path / "small.pt")
    run_verb("average", "--inputs", tmp_path / "tagger", *less)
    export("--to", "hf", tmp_path / "small.pt", tmp_path / "small")
    big, small = ((tmp_path / n / "model.safetensors").stat().st_size for n in ("tagger", "small"))
    assert small < 0.7 * big
    first, second = (
        SRL.from_pretrained(tmp_path / name).predictor for name in ("small.pt", "small")
    )
    assert torch.equal(first.log_probs(QUERIES)[0], second.log_probs(QUERIES)[0])
    assert second.members[0][1].frozen == ("goat",)
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "small")
    assert model.dtype == torch.float32


def test_there_and_back(tmp_path):
    """The checkpoint again, also what only its criterion says; the card; nothing of the machine."""
    path = tagger(tmp_path / "tagger.pt", "mtsa", criterion="bio_crf")
    (tmp_path / "run.json").write_text('{"run": "mtsa-1", "scores": {"wsj": {"f1": 84.8}}}')
    export("--to", "hf", path, tmp_path / "folder", "--license", "mit", "--trained-on", "a toy")
    card = (tmp_path / "folder" / "README.md").read_text(encoding="utf-8")
    for text in (
        'license: "mit"',
        "| data | a toy |",
        "| wsj | f1 | 84.80 |",
        "`selfattn-fairseq[text]`",
    ):
        assert text in card
    assert "secret" not in (tmp_path / "folder" / "config.json").read_text(encoding="utf-8")
    assert SRL.from_pretrained(tmp_path / "folder").predictor.needs_viterbi
    with pytest.raises(UserError, match="is one of the inputs, which would be lost"):
        export("--to", "fairseq", tmp_path / "folder", tmp_path / "folder" / "model.safetensors")
    export("--to", "fairseq", tmp_path / "folder", tmp_path / "back.pt")
    first, second = (checkpoints.read(tmp_path / name) for name in ("tagger.pt", "back.pt"))
    assert first["task_state"] == second["task_state"]
    assert second["args"].dropout == 0.2 and second["args"].task == KEY
    assert all(torch.equal(value, second["model"][name]) for name, value in first["model"].items())


def test_the_same_weights_twice_are_refused(tmp_path):
    """safetensors gives them in another order each time."""
    export("--to", "fairseq", "srl-en-small", tmp_path / "small.pt")
    with pytest.raises(UserError, match="hold the same weights"):
        SRL.from_pretrained(["srl-en-small", tmp_path / "small.pt"])
    path, folder = tagger(tmp_path / "tagger.pt", "mtsa"), tmp_path / "folder"
    export("--to", "hf", path, folder)
    for twice in (["srl-en-small"] * 2, [folder] * 2, [path, folder]):
        with pytest.raises(UserError, match="hold the same weights, which would count twice"):
            SRL.from_pretrained(twice)


@pytest.mark.parametrize("device", ["foo", "cuda:99"])
def test_a_device_that_is_not_there(tmp_path, device):
    path = sentences(tmp_path / "model.pt", Kind.NLI)
    for load, model in (
        (SRL.from_pretrained, "srl-en-small"),
        (Translator.from_pretrained, "translation-en-de-small"),
        (SentencePredictor.load, path),
    ):
        with pytest.raises(UserError, match=f"^the device {device} cannot be used here; cpu can$"):
            load(model, device=device)


ALONE = """
import sys
from tests.hidden import hide
hide("fairseq", "transformers", "plugin")
from selfattn_experiments.commands.verbs import run_script
sys.argv = ["predict", "--model", *sys.argv[1:]]
run_script("predict_srl.py")
"""


def test_the_command_needs_neither_fairseq_nor_transformers(tmp_path, run_cli):
    export("--to", "hf", tagger(tmp_path / "tagger.pt", "mtsa"), tmp_path / "folder")
    more = ["the old cat chased a mouse .", "--tokenized", "--predicates", "chased"]
    done = run_cli(["-c", ALONE, tmp_path / "folder", *more, "--format", "jsonl"]).ok()
    assert json.loads(done.stdout)["propositions"]


def test_what_is_refused(tmp_path):
    path, folder = sentences(tmp_path / "model.pt", Kind.NLI), tmp_path / "folder"
    export("--to", "hf", path, folder)
    (tmp_path / "run.json").write_text('{"attempts": 3}')
    for words, message in (
        ((path, folder), "already exists"),
        ((path, tmp_path, "--overwrite"), "holds something else"),
        ((path, tmp_path / "x"), "run.json is not a record"),
        ((folder, tmp_path / "x"), "is a Hugging Face folder already"),
        (("srl-en-small", tmp_path / "x"), "srl-en-small is a Hugging Face folder already"),
    ):
        with pytest.raises(UserError, match=message):
            export("--to", "hf", *words)
    with pytest.raises(UserError, match="is a file; --to fairseq takes a Hugging Face folder"):
        export("--to", "fairseq", path, tmp_path / "x")
    (tmp_path / "run.json").unlink()
    export("--to", "hf", path, folder, "--overwrite")
    inside = folder / "model.pt"
    shutil.copy(path, inside)
    for form, mark in (("hf", "model.safetensors"), ("torch", "export.json")):
        (folder / mark).touch()
        with pytest.raises(UserError, match="model.pt, one of the inputs, lies in the destination"):
            export("--to", form, inside, folder, "--overwrite")
    inside.unlink()
    for words in (("hf", path, tmp_path / "x"), ("fairseq", folder, tmp_path / "x")):
        with pytest.raises(SystemExit):
            export("--to", *words, "--beam", 3)
    assert not (tmp_path / "x").exists()
    for content, message in (
        ("{", "it is not JSON"),
        ("[]", "it holds no JSON object"),
        ('{"architectures": ["Bert"]}', "neither a tagger nor a model of sentences"),
        ('{"task_state": {"sentences": {"config": 3}}}', "another version of this project"),
        ('{"task_state": {"srl_tagging": {"config": {}}}}', "another version of this project"),
    ):
        (folder / "config.json").write_text(content)
        kind = SRL.from_pretrained if "srl" in content else SentencePredictor.load
        with pytest.raises(UserError, match=message):
            kind(folder)
    shutil.rmtree(folder)
    export("--to", "hf", path, folder)
    (folder / "model.safetensors").write_bytes(b"\x07\x00")
    with pytest.raises(UserError, match="cannot read the weights"):
        SentencePredictor.load(folder)


def test_a_module_of_sentence_transformers(tmp_path):
    """Its vectors are the predictor's; it saves, loads and learns."""
    library = pytest.importorskip("sentence_transformers")
    from selfattn_tasks.hf.embedding import SentenceEmbedding

    path, folder = sentences(tmp_path / "model.pt", Kind.CLASSIFICATION), tmp_path / "folder"
    export("--to", "hf", path, folder)
    module = SentenceEmbedding.load(str(folder))
    model = library.SentenceTransformer(modules=[module], device="cpu")
    texts = ["The old goat.", "a mouse", "Xerxes", ""]
    expected = SentencePredictor.load(path)
    examples = [Example((expected.state.tokens(text),), None) for text in texts]
    vectors = model.encode(texts)
    assert vectors.shape == (4, model.get_embedding_dimension())
    torch.testing.assert_close(
        torch.from_numpy(vectors), torch.from_numpy(expected.embed(examples))
    )
    from sentence_transformers.sentence_transformer.losses import CosineSimilarityLoss

    loss, optimizer = CosineSimilarityLoss(model), torch.optim.Adam(model.parameters(), 0.01)
    pair = [model.preprocess(texts[:2]), model.preprocess(texts[1:3])]
    found = []
    for _ in range(8):
        found.append(loss(pair, torch.tensor([1.0, -1.0])))
        optimizer.zero_grad()
        found[-1].backward()
        optimizer.step()
    assert found[-1] < found[0]
    half = SentenceEmbedding.load(str(folder), model_kwargs={"dtype": torch.float16})
    assert half.model.dtype == torch.float16
    model.save(str(tmp_path / "saved"))
    again = library.SentenceTransformer(
        str(tmp_path / "saved"), trust_remote_code=True, device="cpu", local_files_only=True
    )
    assert (again.encode(texts) == model.encode(texts)).all()
    assert (again.encode(texts) != vectors).any()
