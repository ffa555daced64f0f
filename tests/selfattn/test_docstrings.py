"""The examples in docstrings run and give what they say."""

import doctest
import importlib
import re

import pytest

from selfattn.config import MTSAConfig
from selfattn.layers import MTSA
from tests.conftest import ROOT

MODULES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for floor in ("selfattn", "selfattn_tasks")
    for path in sorted((ROOT / floor).rglob("*.py"))
    if re.search(r">>> (?!.*\+SKIP)", path.read_text(encoding="utf-8"))
]


def test_modules_with_examples_are_found():
    """An empty list would be a skipped test."""
    assert {"selfattn.masks", "selfattn_tasks.srl.formats.bio"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    if ".hf." in name:
        pytest.importorskip("transformers")
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_help_names_each_preset():
    for preset in MTSAConfig.presets:
        assert f"- ``{preset}``:" in MTSA.__doc__
