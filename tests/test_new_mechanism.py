"""A mechanism with its own kernel, added by the list in CONTRIBUTING, and by nothing else."""

import re

import pytest
import torch

from benchmarks.testing import PADDINGS, assert_close, padding_mask
from selfattn.layers import ATTENTIONS
from tests.toys.decay import HERE, DecayCall, decay, native
from tests.toys.decay.reference import decay_reference

CONTRACT = "tests/selfattn/layers/test_contract.py"
PLUGIN = "tests/plugin/test_mechanisms.py"


def test_the_list_names_files_that_mechanisms_have(repo_root):
    text = (repo_root / "CONTRIBUTING.md").read_text("utf-8")
    section = text.partition("\n## A new mechanism\n")[2].partition("\n## ")[0]
    paths = [path for path in re.findall(r"`([\w./<>]+)", section) if "<stem>" in path]
    assert {"selfattn/config/<stem>.py", "selfattn/layers/<stem>.py"} <= set(paths)
    for stem in ("mtsa", "disa"):
        for path in paths:
            assert (repo_root / path.replace("<stem>", stem)).exists(), path


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("length", [1, 2, 9])
def test_the_kernel_against_the_reference(length, padding):
    reason = native.refusal(HERE, torch.float32)
    if reason:
        pytest.skip(reason)
    hidden = padding_mask(padding, 3, length)
    v = torch.randn(3, length, 5, generator=torch.Generator().manual_seed(length))
    grad = torch.randn(3, length, 5, generator=torch.Generator().manual_seed(7))
    results = []
    for backend in ("reference", "fused"):
        leaf = v.clone().requires_grad_()
        y = decay(leaf, hidden, 0.7, backend)
        results.append((y, *torch.autograd.grad(y, leaf, grad)))
    assert_close("results", *results, 1e-5)


def test_the_equation_of_the_call_is_the_reference():
    """What second derivatives and torch.func take."""
    v = torch.randn(2, 6, 4, dtype=torch.float64)
    hidden = padding_mask("right", 2, 6)
    found = DecayCall(0.7).equation((v, None, hidden, None), None, slice(2, 5))
    assert torch.equal(found, decay_reference(v, hidden, 0.7)[:, 2:5])


@pytest.mark.fairseq
def test_what_follows_from_the_two_lists(run_cli, tmp_path):
    """The contract of layers, and fairseq's flags, architectures and help."""
    assert "decay" not in ATTENTIONS  # only in the process below
    done = run_cli(
        ["-m", "pytest", "-q", "-p", "tests.toys.decay.registered", "-p", "no:cacheprovider",
         "-k", "decay-paper or (decay and (help or tagging_architectures or fairseqs_sizes))",
         CONTRACT, PLUGIN],
    ).ok()  # fmt: skip
    passed = int(re.search(r"(\d+) passed", done.stdout)[1])
    assert passed >= 30 and "skipped" not in done.stdout.splitlines()[-1], done.stdout
