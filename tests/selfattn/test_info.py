"""The report on this machine: what is there is named, what is not comes with what to do."""

from __future__ import annotations

import json

import pytest

import selfattn
from selfattn import info

HIDE = """
import runpy, sys
from tests.hidden import hide
hide(*{hidden!r})
sys.argv = ["info", "--json"]
runpy.run_module("selfattn.info", run_name="__main__")
"""


def test_the_command_fits_one_screen(run_cli):
    done = run_cli(["-m", "selfattn.info"]).ok()
    lines = done.stdout.splitlines()
    assert len(lines) <= 30
    for heading in ("Versions", "Attention backends", "Commands"):
        assert heading in lines
    assert any(line.split() == ["selfattn", selfattn.__version__] for line in lines)


def test_json_and_screen_say_the_same(run_cli):
    done = run_cli(["-m", "selfattn.info", "--json"])
    records = [info.Record(**record) for record in json.loads(done.stdout)]
    assert info.render(records) == run_cli(["-m", "selfattn.info"]).stdout.rstrip("\n")
    names = {record.name for record in records}
    assert {"selfattn", "python", "torch", "numpy", "triton", "gcc"} <= names


@pytest.mark.parametrize("hidden", [("torch",), ("triton", "numpy")])
def test_what_is_not_usable_always_comes_with_advice(run_cli, hidden):
    done = run_cli(["-c", HIDE.format(hidden=hidden)]).ok()
    records = {record["name"]: record for record in json.loads(done.stdout)}
    for name in hidden:
        said = "not installed" if name == "triton" else "missing"
        assert records[name]["value"].startswith(said)
    for record in records.values():
        assert record["usable"] or record["advice"], record
    if hidden == ("torch",):
        assert records["torch"]["advice"] == "pip install 'torch>=2.6'"
        assert "torch" in records["all"]["advice"]  # the backends


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
