"""The examples in docstrings run and give what they say."""

import doctest
import importlib

import pytest

MODULES = ("selfattn.masks", "selfattn.ops.mtsa", "selfattn.layers", "selfattn.layers.mtsa")


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name):
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
