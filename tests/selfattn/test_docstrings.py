"""The examples in docstrings run and give what they say."""

import doctest
import importlib

import pytest

from selfattn.config import MTSAConfig
from selfattn.layers import MTSA

MODULES = ["selfattn.masks", "selfattn.ops.mtsa", "selfattn.layers", "selfattn.layers.mtsa"]
MODULES += ["selfattn.models." + name for name in ("encoder_layer", "torch_encoder", "swapping")]


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0


def test_help_names_each_preset():
    for preset in MTSAConfig.presets:
        assert f"- ``{preset}``:" in MTSA.__doc__
