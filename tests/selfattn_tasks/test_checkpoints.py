"""Checkpoints as files: unreadable ones, safe writing, averages."""

import argparse
import fractions
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from selfattn.errors import UserError
from selfattn_experiments import averaging
from selfattn_tasks import checkpoints
from selfattn_tasks.saved import find_checkpoint, find_model


def state(value=1.0, **changes):
    """A small checkpoint with the parts that fairseq-train writes; ``value`` fills the weights."""
    tied = torch.full((3, 4), value)
    flags = {"arch": "x", "encoder_layers": 1, "lr": [0.1], **changes.pop("flags", {})}
    return {
        "args": None,
        "cfg": {"model": argparse.Namespace(**flags), "common": {"seed": 1}},
        "model": {
            "encoder.embed_tokens.weight": tied,
            "decoder.embed_tokens.weight": tied,
            "encoder.half": torch.full((2,), value, dtype=torch.float16),
            "encoder.version": torch.tensor([3]),
        },
        "extra_state": {"metrics": [np.float64(0.5), np.zeros(2)], "val_loss": 1.5},
        "last_optimizer_state": {"state": torch.zeros(5)},
        **changes,
    }


def saved(path, *args, **kwargs):
    torch.save(state(*args, **kwargs), path)
    return path


def test_reads_what_fairseq_writes(tmp_path):
    read = checkpoints.read(saved(tmp_path / "a.pt"))
    assert read["cfg"]["model"].arch == "x"
    assert read["extra_state"]["metrics"][0] == 0.5


def test_what_a_module_stores_beside_its_weights_may_be_anything(tmp_path):
    for name, value in (("a.pt", 1.0), ("b.pt", 2.0)):
        kept = {"encoder._extra_state": {"seen": name}}
        saved(tmp_path / name, model=state(value)["model"] | kept, extra_state=["of a script"])
    found = averaging.average([tmp_path / "a.pt", tmp_path / "b.pt"])
    averaging.halve(found)
    assert found["model"]["encoder._extra_state"] == {"seen": "b.pt"}
    assert found["model"]["encoder.embed_tokens.weight"].unique().tolist() == [1.5]


def test_flags_of_parts_without_a_dataclass():
    """fairseq stores those of a task or criterion that has none as a namespace."""
    parts = {name: argparse.Namespace(_name=name, data="x") for name in ("task", "criterion")}
    assert checkpoints.task_flags(state(cfg=parts)) == {"_name": "task", "data": "x"}
    assert checkpoints.criterion(state(cfg=parts)) == "criterion"
    assert checkpoints.task_flags(state())["arch"] == "x" and checkpoints.criterion(state()) is None


def flip(path, where):
    """Flip one bit of a file, where it holds these bytes."""
    content = bytearray(path.read_bytes())
    content[content.index(where) + 1] ^= 64
    path.write_bytes(content)


def test_a_flipped_bit_is_refused_or_harmless(tmp_path):
    whole = saved(tmp_path / "whole.pt").read_bytes()
    expected = checkpoints.read(tmp_path / "whole.pt")["model"]
    refused = 0
    for place in range(0, len(whole), 7):
        content = bytearray(whole)
        content[place] ^= 1 << place % 8
        (tmp_path / "a.pt").write_bytes(content)
        try:
            found = checkpoints.read(tmp_path / "a.pt")["model"]
        except UserError:
            refused += 1
        else:
            assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert refused > 200


def write_broken(kind, path):
    if kind == "truncated":
        content = saved(path).read_bytes()
        path.write_bytes(content[: len(content) // 2])
    elif kind == "flipped":
        flip(saved(path, 1.5), state(1.5)["model"]["encoder.half"].numpy().tobytes())
    elif kind == "no flags":
        flip(saved(path), b"encoder_layers")
    elif kind in ("nan", "infinite"):
        other = state()
        name = "encoder.half" if kind == "nan" else "encoder.embed_tokens.weight"
        other["model"][name].view(-1)[-1] = float(kind[:3])
        torch.save(other, path)
    elif kind == "complex":
        saved(path, model={"phase": torch.full((2,), complex("nan"))})
    elif kind == "weights":
        saved(path, model={"a": 1})
    elif kind == "stub":
        path.write_bytes(b"PK\x03\x04")
    elif kind == "text":
        path.write_text("This is a letter, not a checkpoint.")
    elif kind == "empty":
        path.touch()
    elif kind == "tensors":
        torch.save({"weight": torch.zeros(3)}, path)
    elif kind == "list":
        torch.save([1, 2], path)
    elif kind == "classes":
        torch.save({"model": {}, "args": argparse.Namespace(x=fractions.Fraction(1, 2))}, path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("missing", "does not exist"),
        ("truncated", "truncated or damaged"),
        ("flipped", "the checksum of a/data/"),
        ("no flags", "the checksum of a/data.pkl does not match"),
        ("complex", "cannot be used: its weight phase holds NaN or infinite numbers"),
        ("nan", "cannot be used: its weight encoder.half holds NaN or infinite numbers"),
        ("infinite", "cannot be used: its weight encoder.embed_tokens.weight holds NaN or inf"),
        ("weights", "it is not a fairseq checkpoint"),
        ("stub", "truncated or damaged"),
        ("text", "it is not a fairseq checkpoint"),
        ("empty", "the file is empty"),
        ("tensors", "it holds weight, but should hold 'model' and 'cfg'"),
        ("list", "it holds list, but should hold"),
        ("classes", "is refused: it holds fractions.Fraction, which is not loaded for safety"),
        ("folder", "Is a directory"),
        ("loop", "Too many levels of symbolic links"),
    ],
)
def test_unreadable(kind, message, tmp_path):
    path = tmp_path / "a.pt"
    write_broken(kind, path)
    with pytest.raises(UserError) as caught:
        checkpoints.read(path)
    assert message in str(caught.value) and str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("length", [100, 1000, 2000])
def test_the_task_of_a_truncated_one_is_not_known(length, tmp_path):
    path = tmp_path / "a.pt"
    torch.save(state(), path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(UserError, match="truncated or damaged"):
        checkpoints.by_task(path, {}, None)


LIMITED = """
import resource
import sys
from pathlib import Path
import torch
from selfattn_tasks import saved
from selfattn.errors import UserError
folder = Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    if sys.argv[2] == "write":
        saved.write({"model": torch.zeros(100_000)}, folder / "last.pt")
    else:
        saved.copy(folder / "large.pt", folder / "last.pt")
except UserError as error:
    print(error)
"""


@pytest.mark.parametrize("how", ["write", "copy"])
def test_full_disk_leaves_the_old_file(how, run_cli, tmp_path):
    (tmp_path / "large.pt").write_bytes(bytes(400_000))
    saved(tmp_path / "last.pt")
    before = (tmp_path / "last.pt").read_bytes()
    done = run_cli(["-c", LIMITED, tmp_path, how], fresh=False)
    assert done.returncode == 0 and done.stdout.count("\n") == 1, done.stderr
    assert f"cannot write {tmp_path / 'last.pt'}: File too large" in done.stdout
    assert "needs about 0.4 MB" in done.stdout
    assert (tmp_path / "last.pt").read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["large.pt", "last.pt"]


def test_average(tmp_path):
    # 2^-30 is lost when float32 numbers near 1 are summed in float32
    values = [1.0, 1.5, 2.0, 4.0 + 2**-20]
    paths = [saved(tmp_path / f"{i}.pt", value) for i, value in enumerate(values)]
    average = averaging.average(paths)
    weights = average["model"]
    expected = torch.tensor(values, dtype=torch.float32).double().mean().float()
    assert (weights["encoder.embed_tokens.weight"] == expected).all()
    assert weights["encoder.half"].dtype == torch.float16
    assert weights["encoder.version"].tolist() == [3]
    # tied weights are stored once
    tied = [weights[f"{side}.embed_tokens.weight"].data_ptr() for side in ("encoder", "decoder")]
    assert tied[0] == tied[1]
    assert "last_optimizer_state" not in average
    assert average["cfg"]["model"].arch == "x"


def test_average_of_tied_double_weights(tmp_path):
    paths = []
    for value in (1.0, 3.0):
        double = state(value)
        tied = torch.full((2, 2), value, dtype=torch.float64)
        double["model"] = {"a": tied, "b": tied}
        torch.save(double, tmp_path / f"{value}.pt")
        paths.append(tmp_path / f"{value}.pt")
    assert (averaging.average(paths)["model"]["b"] == 2.0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["model"].pop("encoder.half"), "only one of them has the weight encoder.half"),
        (
            lambda s: s["model"].update({"encoder.half": torch.zeros(3).half()}),
            "encoder.half has shape (3,) against (2,)",
        ),
        (
            lambda s: s["model"].update({"encoder.half": torch.zeros(2)}),
            "encoder.half has type torch.float32 against torch.float16",
        ),
        (
            lambda s: setattr(s["cfg"]["model"], "encoder_attention_heads", 8),
            "--encoder-attention-heads was 8 against None",
        ),
        (
            lambda s: s.update(task_state={"selfattn_vocabularies": {"source": (3, "b")}}),
            "their vocabularies differ (selfattn_vocabularies in their task_state)",
        ),
    ],
    ids=["names", "shapes", "types", "flags", "vocabularies"],
)
def test_average_of_different_models(change, message, tmp_path):
    other = state()
    change(other)
    torch.save(other, tmp_path / "other.pt")
    task = {"selfattn_vocabularies": {"source": (3, "a")}}
    with pytest.raises(UserError) as caught:
        averaging.average([tmp_path / "other.pt", saved(tmp_path / "a.pt", task_state=task)])
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda old, new: None, "a.pt and .*a.pt hold the same weights"),
        (lambda old, new: new.symlink_to(old), "a.pt and .*b.pt hold the same weights"),
        (lambda old, new: new.hardlink_to(old), "a.pt and .*b.pt hold the same weights"),
        (lambda old, new: shutil.copy(old, new), "a.pt and .*b.pt hold the same weights"),
        (lambda old, new: saved(new, flags={"lr": [0.2]}), "hold the same weights"),
    ],
    ids=["name", "symlink", "hard link", "copy", "weights"],
)
def test_average_counts_nothing_twice(make, message, tmp_path):
    old, new = saved(tmp_path / "a.pt"), tmp_path / "b.pt"
    make(old, new)
    paths = [new if new.exists() else old, saved(tmp_path / "c.pt", 2.0), old]
    with pytest.raises(UserError, match=message):
        averaging.average(paths)


def test_training_flags_may_differ(tmp_path):
    other = saved(tmp_path / "b.pt", 2.0, flags={"lr": [0.2], "encoder_layerdrop": 0.1})
    averaging.average([saved(tmp_path / "a.pt"), other])


def test_latest(tmp_path):
    names = ["checkpoint9.pt", "checkpoint10.pt", "checkpoint_best.pt", "checkpoint_last.pt"]
    names += ["checkpoint_9_900.pt", "checkpoint_10_1000.pt", "checkpoint11.pt.tmp"]
    for name in names:
        (tmp_path / name).touch()
    torch.save({"cfg": {"model": {}}, "model": {}}, tmp_path / "checkpoint_10_1000.pt")
    found = [path.name for path in averaging.latest(tmp_path, 2)]
    assert found == ["checkpoint9.pt", "checkpoint10.pt"]
    found = [path.name for path in averaging.latest(tmp_path, 2, by="update")]
    assert found == ["checkpoint_9_900.pt", "checkpoint_10_1000.pt"]
    with pytest.raises(UserError, match="--last is 3, but .* holds 2 checkpoints by epoch"):
        averaging.latest(tmp_path, 3)
    with pytest.raises(UserError, match="--last is 0"):
        averaging.latest(tmp_path, 0)
    with pytest.raises(UserError, match="is not a folder"):
        averaging.latest(tmp_path / "none", 1)


def test_a_text_in_place_of_a_model_is_no_path():
    text = Path("word " * 80)  # longer than the name of a file may be
    assert find_model(text) == text
    with pytest.raises(UserError, match="does not exist; give a checkpoint, a folder, or a model"):
        find_checkpoint(text)
