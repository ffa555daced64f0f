"""Translation models of Hugging Face: what they are searched with, and what they read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers")

import torch
import yaml
from transformers import GenerationConfig

from selfattn.errors import UserError
from selfattn_tasks import saved
from selfattn_tasks.hf.card import About, find_record, read_record, write_card
from selfattn_tasks.hf.pieces import SPECIAL, build_tokenizer
from selfattn_tasks.hf.translation import Search, set_search
from selfattn_tasks.hf.translator import Translator
from selfattn_tasks.text import clean_line
from selfattn_tasks.translation.parts import find_parts
from tests.conftest import run_verb


@pytest.mark.parametrize("beam", [1, 2])
def test_a_search_is_saved(tmp_path, beam):
    settings = GenerationConfig()
    set_search(settings, Search(beam, lenpen=0.5, max_len_a=1.5))
    settings.save_pretrained(tmp_path)
    found = GenerationConfig.from_pretrained(tmp_path)
    assert (found.num_beams, found.max_len_a, found.max_len_b) == (beam, 1.5, 200)
    assert (found.length_penalty, found.early_stopping) == (
        (None, None) if beam == 1 else (0.5, True)
    )


def test_a_text_that_looks_like_a_special_token_is_text():
    """HTML has a tag <s>."""
    translate = Translator.from_pretrained("translation-en-de-small")
    numbers = translate.encode(["<s>Old</s> <pad>"])["input_ids"][0]
    assert numbers[-1] == 2 and not {0, 1, 2} & set(numbers[:-1])
    said = "".join(translate.tokenizer.convert_ids_to_tokens(numbers[:-1])).replace("\u2581", " ")
    assert said.split() == ["<s>Old</s>", "<pad>"]
    assert list(translate.stream("")) == [""]  # one text, not its letters


def test_an_unknown_word_shows_as_in_fairseq(monkeypatch):
    translate = Translator.from_pretrained("translation-en-de-small")
    das, licht, end = translate.encode(["Das Licht"])["input_ids"][0]
    found = torch.tensor([[end, das, 3, licht, end, 1]])
    monkeypatch.setattr(translate.model, "generate", lambda *_, **__: found)
    assert translate("any") == "Das<unk> Licht"


def test_both_texts_of_a_pair_have_an_end():
    """Of a tokenizer that is built now, and of the one that comes along."""
    built = build_tokenizer([*SPECIAL, "a", "b"], None, lowercase=False)
    assert built.encode("a", "b").ids == [4, 2, 5, 2]
    shipped = Translator.from_pretrained("translation-en-de-small").tokenizer
    one, two = (shipped(text)["input_ids"] for text in ("A dog", "A goat"))
    assert shipped("A dog", "A goat")["input_ids"] == one + two


@pytest.mark.parametrize("flag", ["--max-len-a", "--lenpen"])
@pytest.mark.parametrize("number", ["nan", "inf"])
def test_a_length_is_a_number(flag, number):
    with pytest.raises(UserError, match=f"{flag} is {number}, but must be 0 or more"):
        run_verb("export", "--to", "hf", "model.pt", "folder", flag, number)


def test_a_card_takes_any_language_and_any_words(tmp_path):
    """YAML reads a plain no as false; a table's row is one line."""
    about = About("A title", ("translation",), {}, "", ("en", "no"))
    write_card(tmp_path, "name", about, ({}, []), None, "ours | theirs\nand more")
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert yaml.safe_load(card.split("---")[1])["language"] == ["en", "no"]
    assert "\n| data | ours \\| theirs and more |\n" in card


@pytest.mark.parametrize(
    "text",
    [
        "\u039f\u0394\u039f\u03a3 \u03a3 \u03a3\u0391\u03a3.",
        "\u0391\u03a3'\u0391\u03a3' \u03c3",
        "A\u0345\u03a3 1\u03a3",
    ],
)
def test_capital_sigmas_become_small_as_in_training(text):
    """At the end of a word, and nowhere else, as another letter."""
    cleaning = build_tokenizer(SPECIAL, None, lowercase=True).normalizer
    assert cleaning.normalize_str(text) == clean_line(text, lowercase=True)


def test_the_shipped_tokenizer_cleans_as_today():
    """An accent behind a soft hyphen joins its letter when that is gone."""
    shipped = Translator.from_pretrained("translation-en-de-small").tokenizer.backend_tokenizer
    text = "cafe\u00ad\u0301"
    assert shipped.normalizer.normalize_str(text) == clean_line(text) == "caf\u00e9"


def test_the_folder_above_is_found_from_within_a_folder(tmp_path, monkeypatch):
    inside = tmp_path / "inside"
    inside.mkdir()
    for path in (inside / "model.pt", inside / "dict.a.txt", tmp_path / "spm.model"):
        path.touch()
    (tmp_path / "run.json").touch()
    monkeypatch.chdir(inside)
    assert find_parts(Path())["sentencepiece_model"] == str(tmp_path / "spm.model")
    assert find_record(Path("model.pt")) == tmp_path / "run.json"
    with pytest.raises(
        UserError, match="elsewhere holds no dict.* or name their folder to export or show"
    ):
        find_parts(Path(), data="elsewhere")


@pytest.mark.parametrize(
    ("average", "kept", "tested"),
    [(2, None, "average.pt"), (None, "last", "checkpoints/checkpoint_last.pt")],
)
def test_a_runs_folder_is_the_checkpoint_that_was_tested(tmp_path, average, kept, tested):
    """And no other one gets its scores, unless the user names the record."""
    for name in ("average.pt", "checkpoints/checkpoint_best.pt", "checkpoints/checkpoint_last.pt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    with pytest.raises(UserError, match="model.safetensors; name a file in .*checkpoints"):
        saved.find_checkpoint(tmp_path)
    record = {
        "scores": {"test": {"BLEU": 12.5}},
        "test": {"average": average, "checkpoint": kept},
        "updates": 45,
    }
    (tmp_path / "run.json").write_text(json.dumps(record))
    assert saved.find_checkpoint(tmp_path) == tmp_path / tested
    facts, scores = read_record(None, tmp_path / tested)
    assert facts == {"updates of the run": 45} and "| test | BLEU | 12.50 |  |" in scores
    best = tmp_path / "checkpoints" / "checkpoint_best.pt"
    name = Path(tested).name
    assert read_record(None, best)[1] == [
        f"None are recorded: those in run.json are of {name}, not of this."
    ]
    assert read_record(tmp_path / "run.json", best)[1] == scores
    assert read_record(None, tmp_path / "model.pt")[1] == scores
