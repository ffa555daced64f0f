"""`selfattn info`: the layers' report, and what fairseq, the tasks and the comparison need."""

from __future__ import annotations

import json

import pytest

from selfattn import info as core
from selfattn.info import Record
from selfattn_experiments.commands import info

HIDE = """
import sys
from tests.hidden import hide
hide(*{hidden!r})
sys.argv = ["selfattn", "info", "--json"]
from selfattn_experiments.__main__ import main
main()
"""


@pytest.fixture
def versions(monkeypatch):
    """Pretend that exactly these distributions are installed."""

    def pretend(**found):
        found = {name.replace("_", "-"): version for name, version in found.items()}
        for module in (core, info):
            monkeypatch.setattr(module, "installed", found.get)

    return pretend


def test_the_command_fits_one_screen(run_cli):
    done = run_cli(["-m", "selfattn_experiments", "info"]).ok()
    lines = done.stdout.splitlines()
    assert len(lines) <= 40
    headings = [line for line in lines if line in info.SECTIONS]
    plugin = "Extras" not in lines  # of a Python without fairseq
    assert headings == [s for s in info.SECTIONS if plugin or s != "fairseq plugin"]


def test_json_and_screen_say_the_same(run_cli):
    done = run_cli(["-m", "selfattn_experiments", "info", "--json"])
    records = [Record(**record) for record in json.loads(done.stdout)]
    text = run_cli(["-m", "selfattn_experiments", "info"]).stdout
    assert core.render(info.grouped(records)) == text.rstrip("\n")
    names = [record.name for record in records]
    wanted = "selfattn python torch numpy fairseq-fixed sacrebleu sentencepiece seqeval matplotlib"
    wanted += " PyYAML tabulate tqdm"
    assert set(wanted.split()) <= set(names)
    assert {"triton", "CPU", "perl", "--user-dir"} <= set(names)


@pytest.fixture(scope="module")
def bare(run_cli):
    """The records of a Python that has torch and no extra."""
    hidden = "fairseq fairseq_cli sacrebleu scipy sentencepiece seqeval tensorboard tensorboardX"
    done = run_cli(["-c", HIDE.format(hidden=[*hidden.split(), "matplotlib", "triton"])]).ok()
    return [Record(**record) for record in json.loads(done.stdout)]


def test_what_is_not_usable_always_comes_with_advice(bare):
    records = {record.name: record for record in bare}
    for name in ("fairseq-fixed", "sacrebleu", "sentencepiece", "seqeval", "tensorboard"):
        assert records[name].value == "missing"
    for record in bare:
        assert record.usable or record.advice, record
    assert "pip install fairseq-fixed==0.12.3.1" in records["fairseq-fixed"].advice
    assert not records["--user-dir"].usable


def test_the_layers_alone_lack_nothing(bare):
    """What an extra brings is one line where the extra was never installed, and no fault."""
    brought = [record.name for record in bare if record.extra and not record.usable]
    assert len(brought) >= 8
    lines = core.render(info.grouped(bare)).splitlines()
    start = lines.index("Extras")
    assert lines[start + 1].split() == ["fairseq", "not", "installed:", *", ".join(brought).split()]
    assert "pip install 'selfattn[fairseq]'" in lines[start + 2]
    marked = [line.split()[1] for line in lines if line.startswith("!")]
    assert marked == [record.name for record in bare if not (record.usable or record.extra)]


def test_a_gap_in_an_installed_extra_is_marked():
    there = Record("Versions", "fairseq-fixed", "0.12.3.1", extra="fairseq")
    gap = Record("Versions", "seqeval", "missing", False, "to score", extra="fairseq")
    text = core.render(info.grouped([there, gap]))
    assert "! seqeval " in text and "Extras" not in text


def test_it_works_without_torch(run_cli):
    done = run_cli(["-c", HIDE.format(hidden=["torch"])]).ok()
    records = {record["name"]: record for record in json.loads(done.stdout)}
    assert records["torch"]["advice"] == "pip install 'torch>=2.6'"


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


@pytest.mark.parametrize("number", [(3, 10), (3, 13)])
def test_a_python_that_fairseq_was_not_tried_with_is_a_fault_only_beside_fairseq(
    monkeypatch, number
):
    monkeypatch.setattr(info.sys, "version_info", (*number, 0))
    python = Record("Versions", "python", "3.x")
    for fairseq, usable in (("missing", True), ("0.12.3.1", False)):
        found = info._python(python, Record("Versions", "fairseq-fixed", fairseq))
        assert found.usable == usable
        assert "fairseq was tried on Python 3.11 and 3.12 only; the rest works" in found.advice


def test_a_new_numpy_brings_a_note():
    """But where fairseq is not installed, or numpy is old."""
    old, new = (Record("Versions", "numpy", version) for version in ("2.3.5", "2.5.0"))
    fairseq = Record("Versions", "fairseq-fixed", "0.12.3.1")
    assert info._numpy(old, fairseq) == old
    assert info._numpy(new, Record("Versions", "fairseq-fixed", "missing")) == new
    new = info._numpy(new, fairseq)
    assert new.usable
    assert "--num-batch-buckets" in new.advice


def test_tensorboardx_serves_as_well(versions):
    versions(tensorboardX="2.6.5")
    assert info._package("tensorboard", "curves") == Record(
        "Versions", "tensorboardX", "2.6.5", extra="fairseq"
    )
