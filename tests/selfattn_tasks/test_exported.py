"""Exported graphs in onnxruntime and in torch against the models that they were made of."""

from __future__ import annotations

import copy
import io
import json
import shutil
import sys
from argparse import Namespace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from selfattn.config import CONFIGS
from selfattn.errors import UserError
from selfattn.layers import build_attention
from selfattn_tasks import checkpoints, saved
from selfattn_tasks.exported import graphs, networks
from selfattn_tasks.sentences.model import state as sentences
from selfattn_tasks.sentences.model.network import SentenceModel, SentenceModelConfig
from selfattn_tasks.srl.tagger import state as srl
from selfattn_tasks.srl.tagger.network import Tagger, TaggerConfig
from selfattn_tasks.words.vocabulary import Vocabulary
from tests.conftest import run_verb

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")

WIDTH, LENGTHS = 8, (1, 2, 3, 7, 64, 100, 511, 512)
LAYERS = {
    "mtsa": {},
    "fast_disa": {},
    "disa": {},
    "biblosa": {"heads": 1, "masks": "backward", "block_length": 4},
    "resa": {},
    "multihead": {},
    "multihead, masks and ALiBi": {"masks": "forward_backward", "positions": "alibi"},
    "multihead, rotary": {"positions": "rotary"},
    "multihead, relative": {"positions": "relative"},
}


class Layers(nn.Module):
    """Some layers, each on the same input."""

    def __init__(self, names):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.ModuleList(
            build_attention(name.split(",")[0], WIDTH, 2, **LAYERS[name]) for name in names
        )
        for layer in self.layers:
            layer.select_all = False

    def forward(self, x, padding):
        return tuple(layer(x, padding) for layer in self.layers)


def batch(count, length, side):
    generator = torch.Generator().manual_seed(length)
    x = 3 * torch.randn(count, length, WIDTH, generator=generator)
    padding = torch.zeros(count, length, dtype=torch.bool)
    half = length // 2
    padding[0, slice(0, half) if side == "left" else slice(length - half, length)] = True
    return x, padding


def run(model, **inputs):
    return model.run(None, {name: t.numpy() for name, t in inputs.items()})


def close(want, found, where=None):
    want, found = want.detach().numpy(), np.asarray(found)
    keep = np.ones(want.shape[:2], bool) if where is None else ~where.numpy()
    np.testing.assert_allclose(found[keep], want[keep], rtol=0, atol=1e-4)


@pytest.fixture(scope="module")
def exported():
    """A function from "blocks" or "the others" to names, model, session and program."""
    made = {}

    def get(which):
        if which not in made:
            names = [n for n in LAYERS if (n == "biblosa") == (which == "blocks")]
            model, block = Layers(names), networks.block_of(Layers(names))
            x, padding = batch(3, 9 * block, "left")
            axes = ("batch", "length")
            outputs = {f"y{i}": (*axes, WIDTH) for i in range(len(names))}
            network = graphs.Network(
                "layers", model, {"x": x, "padding": padding},
                {"x": (*axes, WIDTH), "padding": axes, **outputs}, block,
            )  # fmt: skip
            program = graphs.trace(network)
            content = io.BytesIO()
            torch.export.save(program, content)
            content.seek(0)
            loaded = torch.export.load(content).module(check_guards=False)
            onnx = graphs.onnx_of(program, network).SerializeToString()
            made[which] = names, model, runtime.InferenceSession(onnx), loaded
        return made[which]

    return get


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("which", ["blocks", "the others"])
def test_every_mechanism_at_every_length(exported, which, side):
    assert {name.split(",")[0] for name in LAYERS} == set(CONFIGS)
    names, model, session, program = exported(which)
    block = networks.block_of(model)
    for length in LENGTHS:
        for count in (1, 3):
            x, padding = batch(count, length, side)
            # Whole blocks: the rest is padding, which changes nothing.
            more = -length % block
            wide = nn.functional.pad(x, (0, 0, 0, more))
            hidden = nn.functional.pad(padding, (0, more), value=True)
            with torch.no_grad():
                wanted = model(x, padding)
                in_torch = program(x=wide, padding=hidden)
            for found in (run(session, x=wide, padding=hidden), in_torch):
                for want, result in zip(wanted, found, strict=True):
                    close(want, result[:, :length], padding)


def test_scores_that_underflow_take_the_other_branch(exported):
    """Keys whose scores lie far below others': Algorithm 1 divides 0 by 0 there."""
    names, model, session, program = exported("the others")
    x, padding = batch(1, 7, "right")
    x[0, 2] *= 300
    layer = model.layers[names.index("mtsa")]
    with torch.no_grad():
        q, k, v, s = layer._project(x, padding)
        want = layer(x, padding)
    assert (s.max() - s.min()) > 100
    size = float(want.abs().max())  # hundreds, of which float32 keeps seven digits
    close(want / size, run(session, x=x, padding=padding)[0] / size, padding)
    close(want / size, program(x=x, padding=padding)[0].detach().numpy() / size, padding)


export = partial(run_verb, "export")


def checkpoint(path, key, prefix, module, state):
    """A file as fairseq's training writes it."""
    weights = {prefix + name: t for name, t in module.state_dict().items()}
    saved.write(
        {"model": weights, "args": Namespace(arch=key), "task_state": {key: state.dump()}}, path
    )


VOCABULARY = Vocabulary(("the", "cat", "Tea"), ("O", "B-V", "B-A0"), ("tea", "milk"), "abc")


@pytest.fixture
def tagger(tmp_path):
    config = TaggerConfig(
        VOCABULARY.trained_rows, 3, CONFIGS["multihead"].make(), frozen_words=2, word_dim=6,
        predicate_dim=2, characters=4, alphabet=VOCABULARY.character_rows, layers=1, heads=2,
        ffn_dim=8, late_layers=1, timing=True,
    )  # fmt: skip
    module, path = Tagger(config), tmp_path / "tagger.pt"
    checkpoint(path, srl.KEY, srl.PREFIX, module, srl.TaggerState(VOCABULARY, config))
    return module.eval(), path


def test_a_tagger(tagger, tmp_path):
    module, path = tagger
    export("--to", "onnx", path, tmp_path / "out")
    facts = json.loads((tmp_path / "out/export.json").read_text())
    session = runtime.InferenceSession(tmp_path / "out/tagger.onnx")
    described = facts["files"]["tagger.onnx"]
    assert [i.name for i in session.get_inputs()] == list(described["inputs"])
    assert [o.name for o in session.get_outputs()] == list(described["outputs"]) == ["log_probs"]
    assert facts["needs_viterbi"] is False
    assert facts["words"] == {"the": 2, "cat": 3, "Tea": 4, "tea": 5, "milk": 6}
    texts = [["the", "cat", "drinks", "tea"], ["milk"]]
    rows = [[facts["words"].get(w, facts["unknown"]) for w in text] for text in texts]
    words = torch.tensor([rows[0], rows[1] + [0] * 3])
    spellings, places = torch.tensor([[2, 4, 3], [2, 3, 0]]), torch.zeros_like(words)
    predicate = torch.tensor([2, 0])
    indicator = (torch.arange(4) == predicate[:, None]).long()
    more = {"spellings": spellings, "places": places}
    want = torch.log_softmax(module(words, indicator, words == 0, **more), -1)
    (found,) = run(session, words=words, predicate=predicate, **more)
    close(want, found, words == 0)
    state = checkpoints.read(path)
    state["cfg"] = {"criterion": {"_name": "bio_crf"}}
    saved.write(state, path)
    export("--to", "onnx", "--overwrite", path, tmp_path / "out")
    assert json.loads((tmp_path / "out/export.json").read_text())["needs_viterbi"] is True


@pytest.fixture
def classifier(tmp_path):
    def make(**switches):
        config = SentenceModelConfig(
            "classification", 3, 3, 2, WIDTH, "resa", 4, 4, switches=switches
        )
        module, path = SentenceModel(config), tmp_path / "sentences.pt"
        module.encoder.context.layer.select_all = False
        meta = {"kind": "classification", "tokens": {"lowercase": True, "split_words": False}}
        state = sentences.SentenceState(VOCABULARY, meta, module.config)
        checkpoint(path, sentences.KEY, sentences.PREFIX, module, state)
        return module.eval(), path

    return make


def test_sentences(classifier, tmp_path):
    module, path = classifier(backend="eager")
    export("--to", "torch", path, tmp_path / "out")
    program = torch.export.load(tmp_path / "out/sentences.pt2").module()
    assert json.loads((tmp_path / "out/export.json").read_text())["labels"] == ["O", "B-V", "B-A0"]
    for count, length in ((1, 1), (3, 9)):
        words = torch.randint(0, 7, (count, 1, length))
        words[:, 0, 0] = 2
        close(torch.log_softmax(module(words), -1), program(words=words).detach())


def test_candidates(tmp_path):
    config = SentenceModelConfig("selection", 3, 1, 2, WIDTH, "mtsa", 4, 4)
    module, path = SentenceModel(config).eval(), tmp_path / "sentences.pt"
    meta = {"kind": "selection", "tokens": {}}
    vocabulary = Vocabulary(VOCABULARY.words, (), VOCABULARY.frozen)
    state = sentences.SentenceState(vocabulary, meta, module.config)
    checkpoint(path, sentences.KEY, sentences.PREFIX, module, state)
    (network,) = networks.read(path).networks
    program = graphs.trace(network).module(check_guards=False)
    for count, size, length in ((1, 3, 1), (2, 6, 5)):
        words = torch.randint(1, 5, (count, size, length))
        missing = torch.zeros(count, size, dtype=torch.bool)
        missing[0, 2] = True
        with torch.no_grad():
            want, found = module(words, missing), program(words=words, missing=missing)
        keep = ~missing[:, 1:]
        torch.testing.assert_close(found[keep], torch.log_softmax(want, -1)[keep])
        assert (found[~keep] == float("-inf")).all()


def test_what_cannot_be_exported_gets_a_sentence(classifier, tagger, tmp_path, monkeypatch):
    _, path = classifier(test_selection="sample")
    with pytest.raises(UserError, match="'sample' cannot be exported: a graph draws no samples"):
        export("--to", "torch", path, tmp_path / "out")
    for more in ("--int8", "--lenpen 0"):
        with pytest.raises(SystemExit):
            export("--to", "torch", *more.split(), path, tmp_path / "out")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "export.txt").touch()
    for more, message in (((), "already exists"), (("--overwrite",), "holds something else")):
        with pytest.raises(UserError, match=message):
            export("--to", "torch", path, tmp_path / "other", *more)
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(UserError, match=r"pip install 'selfattn\[onnx\]'"):
        export("--to", "onnx", tagger[1], tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def translation(tmp_path_factory):
    """A translation model, and what it became: 8-bit weights would not be equal."""
    pytest.importorskip("transformers")
    from selfattn.hf import SelfattnConfig, SelfattnForConditionalGeneration, SelfattnTokenizer
    from selfattn_tasks.hf import pieces
    from selfattn_tasks.hf.translation import to_fairseq

    folder = tmp_path_factory.mktemp("translation")
    entries = [*pieces.SPECIAL, *"abcdefgh"]
    config = SelfattnConfig(
        vocab_size=len(entries), attention="multihead", hidden_size=8, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=8, source_lang="en", target_lang="de",
    )  # fmt: skip
    torch.manual_seed(3)
    model = SelfattnForConditionalGeneration(config).eval()
    model.save_pretrained(folder / "hf")
    tokenizer = pieces.build_tokenizer(entries, None, False)
    SelfattnTokenizer(tokenizer_object=tokenizer, known=len(entries)).save_pretrained(folder / "hf")
    to_fairseq(folder / "hf", folder / "model.pt")
    export("--to", "onnx", folder / "model.pt", folder / "out")
    first, second = map(networks.read, (folder / "model.pt", saved.find_checkpoint(folder / "hf")))
    assert first.facts == second.facts
    assert [n.describe() for n in first.networks] == [n.describe() for n in second.networks]
    return model, folder / "out"


def test_a_folder_in_half_precision_becomes_graphs_in_float32(translation, tmp_path):
    model, folder = translation
    shutil.copytree(folder.parent / "hf", tmp_path / "half")
    copy.deepcopy(model).bfloat16().save_pretrained(tmp_path / "half")
    encoder, _ = networks.read(saved.find_checkpoint(tmp_path / "half")).networks
    encoded, _ = graphs.trace(encoder).module(check_guards=False)(**encoder.inputs)
    assert encoded.dtype == torch.float32


def test_a_resized_model_knows_no_more_pieces(translation, tmp_path):
    """As transformers' recipes resize it: to the tokenizer, which has more than the dictionary."""
    from transformers import AutoTokenizer

    from selfattn_tasks.hf.translation import to_fairseq

    model, folder = translation
    shutil.copytree(folder.parent / "hf", tmp_path / "hf")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "hf", known=10)
    tokenizer.save_pretrained(tmp_path / "hf")
    with pytest.raises(UserError, match="has 12 tokens, but its dictionary 10: its embeddings"):
        to_fairseq(tmp_path / "hf", tmp_path / "model.pt")
    encoder, _ = networks.read(saved.find_checkpoint(tmp_path / "hf")).networks
    lacking, unknown = (encoder.module(torch.tensor([[4, n, 5, 2]]))[0] for n in (11, 3))
    assert torch.equal(lacking, unknown)
    assert not torch.equal(unknown, encoder.module(torch.tensor([[4, 9, 5, 2]]))[0])


def test_a_translation_step_by_step(translation):
    model, folder = translation
    facts = json.loads((folder / "export.json").read_text())
    encoder, step = (runtime.InferenceSession(folder / f"{n}.onnx") for n in ("encoder", "step"))
    for side in ("left", "right"):
        source = torch.randint(4, 12, (3, 5))
        source[0, :2] = facts["padding"] if side == "left" else source[0, :2]
        source[0, 3:] = facts["padding"] if side == "right" else source[0, 3:]
        encoded, memory = run(encoder, source=source)
        close(model.encoder(source).last_hidden_state, encoded, source == facts["padding"])
        target = torch.randint(4, 12, (3, 4))
        target[:, 0] = facts["start"]
        want = torch.log_softmax(model(source, decoder_input_ids=target).logits, -1)
        past = np.zeros((*memory.shape[:4], 0, memory.shape[5]), np.float32)
        for i in range(4):
            inputs = {"source": source.numpy(), "memory": memory, "past": past}
            found, past = step.run(None, inputs | {"token": target[:, i : i + 1].numpy()})
            close(want[:, i], found)
    assert (folder / "tokenizer.json").exists()
    # tokenizer.json gives a piece that the dictionary lacks a number behind it: it is unknown.
    lacking, unknown = (torch.tensor([[4, n, 5, 2]]) for n in (model.config.vocab_size, 3))
    for found, want in zip(*(run(encoder, source=s) for s in (lacking, unknown)), strict=True):
        np.testing.assert_array_equal(found, want)
