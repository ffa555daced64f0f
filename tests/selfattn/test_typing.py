"""mypy finds a misspelt switch; the typed keywords are the configurations' switches."""

import re
from dataclasses import fields
from typing import Literal, get_args, get_origin, get_type_hints

import pytest

from selfattn.config import CONFIGS
from selfattn.config.base import is_constant
from selfattn.config.switches import LayerSwitches, Switches
from tests.conftest import ROOT

# A line that ends in a comment has the error that the comment names.
SOURCE = """
import selfattn
from selfattn.config import FastDiSAConfig, MTSAConfig
from selfattn.layers import build_attention
from selfattn.models import Encoder, EncoderLayer

build_attention("mtsa", 64, 4, preset="nmt", window=3, masks="forward", attention_dropout=0.1)
build_attention("mtsa", 64, 4, windw=3)  # windw
build_attention("mtsa", 64, 4, masks="foward")  # foward
MTSAConfig.make("nmt", window=3)
MTSAConfig.make("nmt", windw=3)  # windw
MTSAConfig.make("nmt", sampler="none")  # sampler
layer = EncoderLayer(64, 4, batch_first=True, attention="mtsa", preset="srl", window=(1, 2, 3, 4))
EncoderLayer(64, 4, attention="mtsa", windw=3)  # windw
encoder = Encoder(layer, 2)
print(selfattn.swap(encoder, "mtsa", only="layers.0.*", qk_bias=True).replaced)
selfattn.swap(encoder, "mtsa", qk_bais=True)  # qk_bais
selfattn.swap(encoder, FastDiSAConfig.make(scores="both"))
Encoder.from_torch(encoder, "disa", activation="elu")
Encoder.from_torch(encoder, "disa", activatoin="elu")  # activatoin
"""
# They need not read torch to know about switches.
SKIP = "[mypy]\n[mypy-torch.*,numpy.*]\nfollow_imports = skip\nignore_missing_imports = True\n"


def test_a_misspelt_switch_is_found(tmp_path, run_cli):
    pytest.importorskip("mypy")
    (tmp_path / "small.py").write_text(SOURCE)
    (tmp_path / "mypy.ini").write_text(SKIP)
    done = run_cli(["-m", "mypy", "small.py"], cwd=tmp_path, MYPYPATH=str(ROOT), fresh=True)
    lines = re.findall(r"small\.py:(\d+): error: (.*)", done.stdout)
    source = SOURCE.splitlines()
    expected = {n: line.split("  # ")[1] for n, line in enumerate(source, 1) if "  # " in line}
    assert {int(n) for n, _ in lines} == expected.keys(), done.stdout + done.stderr
    assert all(expected[int(n)] in message for n, message in lines), done.stdout


def test_typed_keywords_are_the_switches():
    known = {
        f.name: (f, config)
        for config in CONFIGS.values()
        for f in fields(config)
        if not is_constant(f)
    }
    typed = get_type_hints(Switches)
    assert typed.keys() == known.keys()
    assert typed.keys() - get_type_hints(LayerSwitches).keys() == {"activation", "bias"}
    for name, hint in typed.items():
        f, config = known[name]
        if get_origin(hint) is Literal:
            assert get_args(hint) == f.metadata["choices"], name
        else:
            assert f.metadata["choices"] is None, name
            own = str(get_type_hints(config)[name])
            assert str(hint).replace("collections.abc.Sequence[int]", "tuple[int, ...]") == own, (
                name
            )
