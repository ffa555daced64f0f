"""The first command on the card of an exported model, as a stranger would run it."""

import re
import shlex

import pytest

pytest.importorskip("transformers")

from selfattn_tasks.sentences.record import Kind
from selfattn_tasks.srl.tagger.predicates import TARGETS
from tests.conftest import run_verb
from tests.selfattn_tasks.test_model_folder import sentences, tagger


@pytest.mark.parametrize("name", [*TARGETS, *Kind], ids=str)
def test_its_command_works_for_that_model(name, tmp_path, capfd):
    path = tmp_path / "model.pt"
    model = tagger(path, "mtsa", name) if name in TARGETS else sentences(path, name)
    run_verb("export", "--to", "hf", model, tmp_path / "folder")
    card = (tmp_path / "folder" / "README.md").read_text(encoding="utf-8")
    (line,) = re.findall("selfattn predict (.*)", card)
    given = {
        "folder": tmp_path / "folder",
        "...": "the cat chased a mouse .",
        "WORD": "chased",
        "MODEL_OF_ARGUMENTS": tagger(tmp_path / "other.pt", "bilstm", "arguments"),
    }
    capfd.readouterr()
    run_verb("predict", *(given.get(word, word) for word in shlex.split(line)))
    assert capfd.readouterr().out.strip()
