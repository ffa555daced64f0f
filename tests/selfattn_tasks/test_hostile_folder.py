"""Hostile and broken Hugging Face folders: nothing they hold runs, nothing is written outside."""

import json
import pickle
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file
from transformers import AutoModelForSeq2SeqLM, AutoModelForTokenClassification, AutoTokenizer

from selfattn.errors import UserError
from selfattn.hf import (
    SelfattnConfig,
    SelfattnForConditionalGeneration,
    SelfattnTokenizer,
)
from selfattn_tasks import checkpoints, model_folder
from selfattn_tasks.hf.pieces import SPECIAL, build_tokenizer
from selfattn_tasks.hf.translation import read_folder, read_model, to_fairseq
from selfattn_tasks.srl import SRL
from tests.selfattn_tasks.test_model_folder import export, tagger


class Payload:
    def __reduce__(self):
        return Path.touch, (Path("ran"),)


def save_translation(folder):
    """A small model of the words a and b."""
    config = SelfattnConfig(
        vocab_size=6,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=1000,
    )
    SelfattnForConditionalGeneration(config).save_pretrained(folder)
    names = dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), SPECIAL, strict=True))
    tokenizer = build_tokenizer([*SPECIAL, "a", "b"], None, lowercase=False)
    SelfattnTokenizer(tokenizer_object=tokenizer, known=6, **names).save_pretrained(folder)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder, in which a payload leaves the file ``ran``."""
    monkeypatch.chdir(tmp_path)
    save_translation("model")
    yield tmp_path / "model"
    assert not (tmp_path / "ran").exists(), "the payload ran"


def edit(path, **changes):
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_pickles_are_not_loaded(folder):
    (folder / "model.safetensors").unlink()
    torch.save({"lm_head.weight": Payload()}, folder / "pytorch_model.bin")
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        AutoModelForSeq2SeqLM.from_pretrained(folder)
    (folder / "pytorch_model.bin").rename(folder / "model.safetensors")
    edit(folder / model_folder.CONFIG, task_state={"srl_tagging": {}})
    with pytest.raises(UserError, match="cannot read the weights"):
        checkpoints.read(folder / "model.safetensors")


def test_code_in_a_folder_is_not_run(folder):
    """The registered classes are taken, and transformers does not ask for any trust."""
    (folder / "evil.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    code = {f"Auto{kind}": "evil.Evil" for kind in ("Config", "Model", "ModelForSeq2SeqLM")}
    edit(folder / model_folder.CONFIG, auto_map=code)
    edit(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": [None, "evil.Evil"]})
    model = AutoModelForSeq2SeqLM.from_pretrained(folder)
    assert isinstance(model, SelfattnForConditionalGeneration)
    assert isinstance(AutoTokenizer.from_pretrained(folder), SelfattnTokenizer)


def test_a_language_is_no_path(folder):
    place = folder / "a" / "b"
    place.mkdir(parents=True)
    edit(folder / model_folder.CONFIG, source_lang="/../../x")
    before = sorted(folder.rglob("*"))
    with pytest.raises(UserError, match=r"config.json: the language '/\.\./\.\./x' is not allowed"):
        to_fairseq(folder, place / "model.pt")
    assert sorted(folder.rglob("*")) == before


def test_a_weight_that_is_missing_is_not_drawn(folder):
    weights = load_file(folder / "model.safetensors")
    del weights["decoder.norm.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(UserError, match=r"model.safetensors lacks decoder.norm.weight"):
        read_folder(folder)


def test_json_without_end_is_one_sentence(folder):
    (folder / model_folder.CONFIG).write_text('{"a":' + "[" * 100_000)
    with pytest.raises(UserError, match="config.json cannot be read .it is not JSON: maximum"):
        model_folder.translates(folder / model_folder.WEIGHTS)


@pytest.mark.parametrize(
    ("task", "said"),
    [("translation", "train with --source-lang and --target-lang"), ("masked_lm", "it is not one")],
)
def test_a_checkpoint_that_does_not_say_its_languages(task, said, tmp_path):
    """fairseq itself guesses them by the names of the data's files, and does not store them."""
    flags = {"_name": task, "source_lang": None, "data": f"{tmp_path}:elsewhere"}
    (tmp_path / "dict.en.txt").touch()
    with pytest.raises(UserError, match=said):  # nor is the file read again, whatever its name
        read_model(tmp_path / "runs" / "12:30.pt", None, {"cfg": {"task": flags}, "model": {}})


def test_weights_in_several_files_are_said(tmp_path):
    export("--to", "hf", tagger(tmp_path / "tagger.pt", "mtsa"), tmp_path / "folder")
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "folder")
    model.save_pretrained(tmp_path / "parts", max_shard_size="2kB")
    with pytest.raises(UserError, match="index.json lists several files .* larger max_shard_size"):
        SRL.from_pretrained(tmp_path / "parts")
