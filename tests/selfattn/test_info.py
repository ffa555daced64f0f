"""The report on this machine: what is there is named, what is not comes with what to do."""

from __future__ import annotations

import json

import pytest

import selfattn
from selfattn import info

# Run before info: hide packages from the import system and from importlib.metadata.
HIDE = """
import importlib.metadata, sys
hidden = {hidden!r}
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
real = importlib.metadata.version
def version(name):
    if name.replace("-fixed", "") in hidden:
        raise importlib.metadata.PackageNotFoundError(name)
    return real(name)
importlib.metadata.version = version
from selfattn import info
sys.exit(info.main(["--json"]))
"""


@pytest.fixture
def versions(monkeypatch):
    """Pretend that exactly these distributions are installed."""

    def pretend(**found):
        found = {name.replace("_", "-"): version for name, version in found.items()}
        monkeypatch.setattr(info, "installed", found.get)

    return pretend


def test_the_command_fits_one_screen(run_cli):
    done = run_cli(["-m", "selfattn.info"])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 40
    for heading in ("Versions", "Devices", "Attention backends", "fairseq plugin", "Commands"):
        assert heading in lines
    assert any(line.split() == ["selfattn", selfattn.__version__] for line in lines)


def test_json_and_screen_say_the_same(run_cli):
    done = run_cli(["-m", "selfattn.info", "--json"])
    records = [info.Record(**record) for record in json.loads(done.stdout)]
    assert info.render(records) == run_cli(["-m", "selfattn.info"]).stdout.rstrip("\n")
    names = [record.name for record in records]
    wanted = "selfattn python torch numpy fairseq-fixed sacrebleu sentencepiece seqeval matplotlib"
    assert set(wanted.split()) <= set(names)
    assert {"triton", "CPU", "perl", "--user-dir"} <= set(names)


def test_what_is_not_usable_always_comes_with_advice(run_cli):
    everything = ["fairseq", "fairseq_cli", "sacrebleu", "sentencepiece", "seqeval", "tensorboard"]
    everything += ["tensorboardX", "matplotlib", "triton"]
    done = run_cli(["-c", HIDE.format(hidden=everything)])
    assert done.returncode == 0, done.stderr
    records = {record["name"]: record for record in json.loads(done.stdout)}
    for name in ("fairseq-fixed", "sacrebleu", "sentencepiece", "seqeval", "tensorboard"):
        assert records[name]["value"] == "missing"
    for record in records.values():
        assert record["usable"] or record["advice"], record
    assert "pip install fairseq-fixed==0.12.3.1" in records["fairseq-fixed"]["advice"]
    assert not records["--user-dir"]["usable"]


def test_the_layers_alone_lack_nothing(run_cli):
    """What an extra brings is one line where the extra was never installed, and no fault."""
    everything = "fairseq sacrebleu scipy sentencepiece seqeval tensorboard"
    hidden = [*everything.split(), "tensorboardX", "matplotlib"]
    done = run_cli(["-c", HIDE.format(hidden=hidden)])
    records = [info.Record(**record) for record in json.loads(done.stdout)]
    brought = [record.name for record in records if record.extra and not record.usable]
    assert len(brought) >= 8
    lines = info.render(records).splitlines()
    start = lines.index("Extras")
    assert lines[start + 1].split() == ["fairseq", "not", "installed:", *", ".join(brought).split()]
    assert "pip install 'selfattn[fairseq]'" in lines[start + 2]
    marked = [line.split()[1] for line in lines if line.startswith("!")]
    assert marked == [record.name for record in records if not (record.usable or record.extra)]


def test_a_gap_in_an_installed_extra_is_marked():
    there = info.Record("Versions", "fairseq-fixed", "0.12.3.1", extra="fairseq")
    gap = info.Record("Versions", "seqeval", "missing", False, "to score", extra="fairseq")
    text = info.render([there, gap])
    assert "! seqeval " in text and "Extras" not in text


def test_it_works_without_torch(run_cli):
    done = run_cli(["-c", HIDE.format(hidden=["torch"])])
    assert done.returncode == 0, done.stderr
    records = {record["name"]: record for record in json.loads(done.stdout)}
    assert records["torch"]["advice"] == "pip install 'torch>=2.6'"
    assert "torch" in records["all"]["advice"]  # the backends


def test_stock_fairseq_is_recognised_and_refused(versions, monkeypatch):
    versions(fairseq="0.12.2")
    monkeypatch.setattr(info.sys, "version_info", (3, 11, 7))
    record = info._fairseq()
    assert record.value == "stock fairseq 0.12.2"
    assert not record.usable
    assert "cannot be imported on Python 3.11" in record.advice
    assert "pip install fairseq-fixed==0.12.3.1" in record.advice
    monkeypatch.setattr(info.sys, "version_info", (3, 10, 1))
    assert info._fairseq().usable


def test_both_fairseqs_side_by_side_are_refused(versions):
    versions(fairseq="0.12.2", fairseq_fixed="0.12.3.1")
    record = info._fairseq()
    assert not record.usable
    assert "pip uninstall fairseq fairseq-fixed" in record.advice


def test_a_new_numpy_brings_a_note(versions):
    versions(numpy="2.3.5")
    assert info._numpy() == info.Record("Versions", "numpy", "2.3.5")
    versions(numpy="2.5.0")
    assert info._numpy().usable
    assert "--num-batch-buckets" in info._numpy().advice


def test_tensorboardx_serves_as_well(versions):
    versions(tensorboardX="2.6.5")
    assert info._package("tensorboard", "curves") == info.Record(
        "Versions", "tensorboardX", "2.6.5", extra="fairseq"
    )


def test_a_refused_backend_shows_its_reason(monkeypatch):
    import selfattn.ops

    answer = {"eager": None, "fused on a CPU": "no compiler", "fused on a GPU": "too old"}
    monkeypatch.setattr(selfattn.ops, "backends", lambda: answer)
    eager, on_cpu, on_gpu = info._backends(gpu=True)
    assert eager.usable
    assert (on_cpu.usable, on_cpu.advice) == (False, "no compiler")
    assert (on_gpu.usable, on_gpu.advice) == (False, "too old")
    assert "too old" in info.render([eager, on_gpu])
    # A machine without a GPU has nothing to mend.
    *_, on_gpu = info._backends(gpu=False)
    assert on_gpu.usable
    assert "too old" in on_gpu.value


def test_every_operator_is_reported():
    from selfattn.ops.common.dispatch import OPERATORS

    ways = ("fused on a CPU", "fused on a GPU", "eager", "reference")
    names = {record.name for record in info._backends(gpu=False)}
    assert names == {f"{operator}, {way}" for operator in ("disa", "mtsa") for way in ways}
    assert sorted(OPERATORS) == ["disa", "mtsa"]


def test_an_unknown_flag_is_an_error(run_cli):
    done = run_cli(["-m", "selfattn.info", "--yaml"])
    assert done.returncode == 2
    assert "--yaml" in done.stderr
