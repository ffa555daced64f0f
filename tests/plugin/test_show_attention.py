"""scripts/show_attention.py on trained translation models."""

import json
import shutil

import numpy as np
import pytest
import torch

pytest.importorskip("matplotlib")

from fairseq.modules import MultiheadAttention

from benchmarks.testing import assert_close
from plugin import looking
from plugin.looking import inspect_fairseq_multihead, load, look
from selfattn.errors import UserError
from selfattn.layers.base import split_heads


@pytest.mark.parametrize("name", ["mtsa", "multihead"])
def test_the_encoder_on_a_sentence(name, trained, run_cli, tmp_path):
    folder, _ = trained(name)
    prefix, numbers = tmp_path / "seen", tmp_path / "seen.json"
    command = ["scripts/show_attention.py", folder / "checkpoint_last.pt", "a1 b2 a1 ZZ"]
    done = run_cli([*command, "--output", prefix, "--json", numbers]).ok()
    assert "unknown to the model" in done.stderr and "INFO" not in done.stderr
    found = json.loads(numbers.read_text(encoding="utf-8"))
    pieces = found["tokens"]
    assert pieces[-1] == "</s>"
    assert "".join(pieces[:-1]).replace("\u2581", " ").split() == ["a1", "b2", "a1", "ZZ"]
    assert done.stdout.startswith(f"{name}, 1 layer, {len(pieces)} tokens: token2token")
    (layer,) = found["layers"]
    totals = np.array(layer["token2token"]).sum(-1)
    assert totals.shape == (2, len(pieces))
    expected = np.ones_like(totals)
    if name == "mtsa":
        expected[0, 0] = expected[1, -1] = 0
        assert np.array(layer["source2token"]).sum(-1) == pytest.approx([1, 1], abs=1e-6)
    np.testing.assert_allclose(totals, expected, atol=1e-6)
    words = (tmp_path / "seen.svg").read_text(encoding="utf-8")
    assert all(piece.replace("\u2581", "_") in words for piece in pieces[:-1])
    assert (tmp_path / "seen.png").read_bytes().startswith(b"\x89PNG")


def test_text_is_lower_cased_as_the_training_s_was(trained, prepared, run_cli, tmp_path):
    folder, _ = trained("mtsa")
    shutil.copytree(prepared, tmp_path / "data")
    path = tmp_path / "data" / "prepared.json"
    summary = json.loads(path.read_text(encoding="utf-8"))
    summary["options"]["cleaning"]["lowercase"] = True
    path.write_text(json.dumps(summary), encoding="utf-8")
    done = run_cli([
        "scripts/show_attention.py", folder / "checkpoint_last.pt", "A1  B2", "--heads", "1",
        "--data", tmp_path / "data" / "data-bin", "--output", tmp_path / "seen",
        "--json", tmp_path / "seen.json",
    ])  # fmt: skip
    assert done.returncode == 0 and "unknown" not in done.stderr, done.stderr
    pieces = json.loads((tmp_path / "seen.json").read_text(encoding="utf-8"))["tokens"]
    assert "".join(pieces) == "\u2581a1\u2581b2</s>"


@pytest.mark.parametrize(
    ("sentence", "flags", "words"),
    [
        (" ", {}, "the sentence is empty"),
        ("a1", {"data": "nowhere"}, "nowhere holds no dict.LANGUAGE.txt"),
        ("a1", {"user_dir": "nowhere"}, "--user-dir nowhere cannot be imported"),
        ("a1 " * 1200, {}, "pieces; the model takes 1024"),
    ],
    ids=["empty", "data", "user-dir", "long"],
)
def test_mistakes_are_refused(trained, sentence, flags, words):
    folder, _ = trained("mtsa")
    with pytest.raises(UserError) as error:
        look(load(folder / "checkpoint_last.pt", **flags), sentence)
    assert words in str(error.value)


def test_a_picture_of_another_kind_is_refused(run_cli):
    done = run_cli(["scripts/show_attention.py", "x.pt", "A dog.", "--output", "cat.jpg"])
    assert done.returncode == 2 and "must end in .png or .svg" in done.stderr


def test_flags_as_hydra_stores_them(monkeypatch):
    """A dictionary, where fairseq-train has a Namespace."""
    state = {"cfg": {"model": {"_name": "transformer_tiny"}}}
    monkeypatch.setattr(looking.checkpoints, "read", lambda path: state)
    looking._check_architecture("x.pt", None)
    state["cfg"]["model"]["_name"] = "elsewhere"
    with pytest.raises(UserError, match=r"x\.pt has the architecture elsewhere, which is not"):
        looking._check_architecture("x.pt", None)


def test_fairseq_s_own_weights_times_values_are_its_output():
    torch.manual_seed(0)
    module = MultiheadAttention(12, 3, dropout=0.3, self_attention=True).double().train()
    x = torch.randn(5, 2, 12, dtype=torch.float64)
    padding = torch.tensor([[True] * 2 + [False] * 3, [False] * 5])
    seen = inspect_fairseq_multihead(module, x, padding)
    assert module.training and not module.skip_embed_dim_check
    v = split_heads(module.v_proj(x).transpose(0, 1), 3)
    y = module.out_proj((seen.token2token @ v).permute(2, 0, 1, 3).flatten(2))
    expected = module.eval()(x, x, x, padding, need_weights=False)[0]
    assert_close("output", expected, y, 1e-12)
    assert seen.masks == ("no direction",) * 3
