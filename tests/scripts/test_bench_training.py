"""scripts/bench_training.py as a user runs it, at tiny sizes."""

import csv
import sys
from pathlib import Path

import pytest

from benchmarks.method import Setup
from selfattn.errors import UserError
from selfattn_experiments.commands.verbs import run_script

SCRIPT = "scripts/bench_training.py"


def measure(run_cli, folder, *args):
    flags = ["--quick", "--no-memory", "--csv", "rows.csv", *args]
    run_cli([SCRIPT, *flags], cwd=folder, timeout=900).ok()
    with (folder / "rows.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_encoder_layers(run_cli, tmp_path):
    rows = measure(run_cli, tmp_path, "--methods", "mtsa:srl", "--layers", "2")
    assert [(row["method"], row["length"]) for row in rows] == [
        ("mtsa:srl", "16"),
        ("mtsa:srl", "64"),
    ]
    layer = 5 * (64 * 64 + 64) + 2 * 2 * 64 + (64 * 64 + 64) + (64 * 64 + 64)
    for row in rows:
        assert (row["level"], row["layers"], row["status"]) == ("encoder", "2", "ok")
        assert int(row["parameters"]) == 2 * layer
        assert row["memory_mib"] == ""


@pytest.mark.fairseq
def test_whole_fairseq_updates(run_cli, tmp_path):
    args = ["--level", "fairseq", "--layers", "1", "--methods", "mtsa:nmt"]
    rows = measure(run_cli, tmp_path, *args)
    assert [(row["status"], row["length"]) for row in rows] == [("ok", "16"), ("ok", "64")]
    linear, norm = 64 * 64 + 64, 2 * 64
    encoder, decoder = 6 * linear + 2 * norm, 10 * linear + 3 * norm
    # 8,000 words and 4 special symbols, shared; a source2token map 16 -> 16 for each of 4 heads.
    size = 8004 * 64 + encoder + decoder + 4 * (16 * 16 + 16)
    assert {int(row["parameters"]) for row in rows} == {size}


@pytest.mark.fairseq
def test_every_method_of_fairseq_builds_a_model_with_its_attention():
    from fairseq.modules import MultiheadAttention

    from benchmarks.fairseq_update import METHODS

    for method in METHODS:
        model = method.build(Setup(embed_dim=64, heads=4, ffn_dim=64, layers=1))
        attention = model.encoder.layers[0].self_attn
        if method.name == "multihead":
            assert isinstance(attention, MultiheadAttention)
        else:
            assert attention.attention.config.name == method.name.partition(":")[0]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--mode", "inference"], "--mode is inference, but --level fairseq measures training"),
        (["--dtype", "float64"], "--dtype is float64, but --level fairseq has float32"),
        (["--methods-module", "own.py"], "--methods-module cannot be combined"),
    ],
)
def test_mistakes_are_found_before_measuring(monkeypatch, args, words):
    monkeypatch.setattr(sys, "argv", [SCRIPT, "--level", "fairseq", *args])
    with pytest.raises(UserError, match=words):
        run_script(Path(SCRIPT).name)
