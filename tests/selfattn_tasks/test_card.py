"""The first command on the card of an exported model, as a stranger would run it."""

import re
import shlex

import pytest

pytest.importorskip("transformers")

from tests.conftest import run_verb
from tests.selfattn_tasks.test_model_folder import sentences, tagger

MODELS = {
    "arguments": lambda path: tagger(path, "mtsa", "arguments"),
    "predicates": lambda path: tagger(path, "mtsa", "predicates"),
    "both": lambda path: tagger(path, "mtsa"),
    "nli": lambda path: sentences(path, "nli"),
    "relatedness": lambda path: sentences(path, "relatedness"),
    "classification": lambda path: sentences(path, "classification"),
    "selection": lambda path: sentences(path, "selection"),
}


@pytest.mark.parametrize("name", MODELS)
def test_its_command_works_for_that_model(name, tmp_path, capfd):
    run_verb("export", "--to", "hf", MODELS[name](tmp_path / "model.pt"), tmp_path / "folder")
    card = (tmp_path / "folder" / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall("selfattn predict (.*)", card)
    given = {"folder": tmp_path / "folder", "...": "the cat chased a mouse .", "WORD": "chased"}
    given["MODEL_OF_ARGUMENTS"] = tagger(tmp_path / "other.pt", "bilstm", "arguments")
    capfd.readouterr()
    run_verb("predict", *(given.get(word, word) for word in shlex.split(line)))
    assert capfd.readouterr().out.strip()
