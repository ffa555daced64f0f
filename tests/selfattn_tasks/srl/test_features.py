"""A Hugging Face encoder beside the word vectors: a tiny one with random weights."""

import shutil
import sys

import pytest
import torch

from selfattn.config import MTSAConfig
from selfattn.errors import UserError
from selfattn_tasks import checkpoints, saved
from selfattn_tasks.srl.tagger.features import NONE, Features, FeaturesConfig, piece_input
from selfattn_tasks.srl.tagger.network import Tagger, TaggerConfig, network_input
from selfattn_tasks.srl.tagger.predictor import Predictor, Query
from selfattn_tasks.srl.tagger.state import KEY, PREFIX, TaggerState
from selfattn_tasks.words.vocabulary import Vocabulary
from tests.selfattn_tasks.srl.writers import write_encoder

transformers = pytest.importorskip("transformers")

WORDS = ("The", "cat", "chased", "\u200b", "mice")
QUERIES = [Query(WORDS, 2), Query(("cat", "The"), 0), Query(WORDS, 1)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder") / "bert"
    write_encoder(folder, ("the", "cat", "cha", "##sed", "mice"))
    return folder


@pytest.fixture
def save(folder, tmp_path):
    """A function: the checkpoint of a tagger with features, as --task srl_tagging stores it."""

    def run(tuned):
        features = FeaturesConfig.read(str(folder), tuned=tuned)
        vocabulary = Vocabulary(("the", "cat"), ("O", "B-V", "B-A0", "I-A0"))
        config = TaggerConfig(
            vocabulary.trained_rows, 4, MTSAConfig.make("srl"), word_dim=8, predicate_dim=8,
            layers=1, heads=2, ffn_dim=16, features=features,
        )  # fmt: skip
        tagger = Tagger(config)
        tagger.features.start()
        weights = {PREFIX + name: value for name, value in tagger.state_dict().items()}
        task = {KEY: TaggerState(vocabulary, config).dump()}
        path = tmp_path / "checkpoint_best.pt"
        saved.write({"model": weights, "cfg": {"model": None, "task": 1}, "task_state": task}, path)
        return path, Predictor([(tagger, vocabulary)])

    return run


def test_the_first_piece_of_each_word(folder, caplog):
    """[CLS] the cat cha ##sed mice [SEP]: of a zero-width space the tokenizer leaves nothing."""
    features = Features(FeaturesConfig.read(str(folder), tuned=False))
    ids, firsts = features.pieces(WORDS)
    assert len(ids) == 7 and firsts == [1, 2, 3, NONE, 5]
    assert not caplog.records
    for _ in range(2):
        ids, firsts = features.pieces(["chased"] * 20)
        assert len(ids) == 32 and firsts == [*range(1, 31, 2), *[NONE] * 5]
    (record,) = caplog.records
    assert "a sentence of 20 words has more pieces than the 32" in record.getMessage()


@pytest.mark.parametrize("tuned", [False, True])
def test_features_are_the_encoder_s_hidden_states(folder, tuned):
    """Alone or in a batch; 0 where there is no piece; gradients only if it is tuned."""
    features = Features(FeaturesConfig.read(str(folder), tuned=tuned))
    features.start()
    features.train(not tuned)  # a frozen encoder drops out nothing even then
    rows = [features.pieces(query.words) for query in QUERIES]
    found = features(**piece_input(rows))
    encoder = transformers.AutoModel.from_pretrained(folder).eval()
    for row, (ids, firsts), query in zip(found, rows, QUERIES, strict=True):
        hidden = encoder(torch.tensor([ids])).last_hidden_state[0]
        for vector, word in zip(row, range(5), strict=True):
            has_piece = word < len(query.words) and firsts[word] != NONE
            expected = hidden[firsts[word]] if has_piece else torch.zeros(16)
            torch.testing.assert_close(vector, expected, rtol=1e-4, atol=1e-5)
    assert found.requires_grad is tuned
    assert bool(features.state_dict()) is tuned
    if tuned:
        found.sum().backward()
        grads = {name: p.grad for name, p in features.named_parameters() if "pooler" not in name}
        assert all(grad is not None and grad.isfinite().all() for grad in grads.values())


@pytest.mark.parametrize("tuned", [False, True])
def test_a_saved_model_needs_no_more_than_it_says(save, folder, tmp_path, tuned):
    """Frozen: the encoder in its folder or beside it, the same as in training; tuned: nothing."""
    path, ours = save(tuned)
    expected = ours.log_probs(QUERIES)[0]
    torch.testing.assert_close(Predictor.load(path).log_probs(QUERIES)[0], expected)
    alone = Predictor.load(path).log_probs(QUERIES[1:2])[0]
    torch.testing.assert_close(alone, expected[1:2, :2], rtol=1e-4, atol=1e-5)
    other, hidden = tmp_path / "other", tmp_path / "hidden"
    write_encoder(other, ("the", "cat"))
    shutil.move(folder, hidden)
    try:
        if tuned:
            torch.testing.assert_close(Predictor.load(path).log_probs(QUERIES)[0], expected)
            return
        message = f"the tagger needs the encoder that was in {folder} when it was trained"
        with pytest.raises(UserError, match=message):
            Predictor.load(path)
        beside = shutil.copytree(hidden, tmp_path / folder.name)
        torch.testing.assert_close(Predictor.load(path).log_probs(QUERIES)[0], expected)
        shutil.rmtree(beside)
        shutil.move(other, folder)
        with pytest.raises(UserError, match="is not the one that the tagger was trained with"):
            Predictor.load(path)
        shutil.move(folder, other)
    finally:
        shutil.move(hidden, folder)


def test_a_folder_of_hugging_face_holds_a_tuned_encoder(save, tmp_path):
    """In transformers, too; a tagger with a frozen one is refused."""
    from selfattn_tasks.hf.folder import write

    exported = tmp_path / "exported"
    exported.mkdir()
    path, _ = save(False)
    with pytest.raises(UserError, match="which is no part of it"):
        write(checkpoints.read(path), exported, path)
    path, ours = save(True)
    write(checkpoints.read(path), exported, path)
    assert str(tmp_path) not in (exported / "config.json").read_text()
    expected = ours.log_probs(QUERIES)[0]
    assert torch.equal(Predictor.load(exported).log_probs(QUERIES)[0], expected)
    model = transformers.AutoModelForTokenClassification.from_pretrained(exported).eval()
    pieces = [model.tagger.features.pieces(query.words) for query in QUERIES]
    rows = [model.vocabulary.encode(query.words) for query in QUERIES]
    batch = network_input(rows, [query.predicate for query in QUERIES], pieces=pieces)
    more = {name: batch[name] for name in ("pieces", "firsts")}
    found = model(batch["words"], token_type_ids=batch["indicator"], **more).logits
    keep = batch["words"] != 0
    assert torch.equal(found.log_softmax(-1)[keep], expected[keep])


def test_a_folder_without_a_pooler(folder, tmp_path):
    """Of a masked language model, as most are: transformers draws what is missing at random."""
    bert = transformers.AutoModel.from_pretrained(folder)
    model = transformers.BertForMaskedLM(bert.config).eval()
    other = tmp_path / "mlm"
    shutil.copytree(folder, other)
    model.save_pretrained(other)
    first, second = (FeaturesConfig.read(str(other), tuned=False) for _ in range(2))
    assert first.checksum == second.checksum
    features = Features(first)
    expected = model.bert(torch.tensor([[2, 5, 3]])).last_hidden_state[:, 1:2]
    torch.testing.assert_close(features(torch.tensor([[2, 5, 3]]), torch.tensor([[1]])), expected)
    weights = {n: t for n, t in model.state_dict().items() if "layer.0.output.dense" not in n}
    model.save_pretrained(other, state_dict=weights)
    with pytest.raises(UserError, match="lacks weights of its encoder, such as encoder.layer.0"):
        FeaturesConfig.read(str(other), tuned=False)


def test_mistakes(folder, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"--features .*none is not a folder"):
        FeaturesConfig.read(str(tmp_path / "none"), tuned=False)
    with pytest.raises(UserError, match="holds no encoder with a tokenizer"):
        FeaturesConfig.read(str(tmp_path), tuned=False)
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UserError, match="transformers is not installed: install it with"):
        FeaturesConfig.read(str(folder), tuned=False)
