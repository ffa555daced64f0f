"""What all operators have in common: their arguments, and references that stand alone."""

import ast
import inspect
import runpy
from pathlib import Path

import pytest
import torch

from selfattn import config, ops
from selfattn.errors import UserError
from selfattn.layers import build_attention
from selfattn.masks import DIRECTIONS, PositionalMask
from selfattn.ops import disa, mtsa
from selfattn.ops.common.dispatch import BACKENDS, OPERATORS
from selfattn.ops.common.operators import mask_of, offsets

FOLDER = Path(ops.__file__).parent
# Arguments of one mechanism alone; the last one is the old name of masks.
OWN = {"mtsa": ["sigma_t"], "disa": ["queries", "keys", "c", "mask"]}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_have_the_same_arguments_in_the_same_order(name):
    parameters = inspect.signature(getattr(ops, name)).parameters.values()
    shared = [p.name for p in parameters if p.kind == p.KEYWORD_ONLY and p.name not in OWN[name]]
    assert shared == ["masks", "padding_mask", "dropout_p", "distance_bias", "backend"]
    assert set(OWN[name]) < {p.name for p in parameters}


def test_configurations_allow_the_backends_that_there_are():
    assert ("auto", *BACKENDS) == config.base.BACKENDS


def test_the_old_name_of_masks_still_works():
    x = torch.randn(2, 5, 4)
    mask = PositionalMask("forward")
    with pytest.warns(DeprecationWarning, match=r"goes in 0\.4; call disa\(masks=...\)"):
        found = disa(x, x, x, mask=mask)
    assert torch.equal(found, disa(x, x, x, masks=mask))
    with pytest.raises(UserError, match="masks is missing"):
        disa(x, x, x)


SIZES = pytest.mark.parametrize(("attend", "count", "heads"), [(disa, 3, ()), (mtsa, 4, (2,))])


@SIZES
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_autocast_leaves_an_operator_in_float32(attend, count, heads, backend):
    x, masks = torch.randn(count, 3, *heads, 9, 8), [PositionalMask("forward"), PositionalMask()]
    with torch.autocast("cpu", torch.bfloat16):
        out = attend(*x, masks=masks, backend=backend)
    assert out.dtype == torch.float32
    assert torch.equal(out, attend(*x, masks=masks, backend=backend))


@SIZES
@pytest.mark.parametrize(("batch", "length"), [(0, 3), (2, 0)])
def test_empty_batches_and_lengths(attend, count, heads, batch, length):
    x = torch.zeros(count, batch, *heads, length, 4, requires_grad=True)
    out = attend(*x, masks=PositionalMask())
    out.sum().backward()
    assert out.shape == x.shape[1:]


@pytest.mark.parametrize("name", OPERATORS)
def test_a_reference_imports_torch_alone(name):
    source = (FOLDER / name / "reference.py").read_text(encoding="utf-8")
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0] if not node.level else ".")
    assert found == {"torch"}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_reference_runs_without_the_rest_of_the_project(name):
    """As a reader would try it: the one file, here in no package."""
    run = runpy.run_path(str(FOLDER / name / "reference.py"))[f"{name}_reference"]
    x = torch.randn(4, 2, 3, 5, 4)
    before = torch.arange(5)[:, None] > torch.arange(5)
    if name == "mtsa":
        y, value = run(*x, before[None, None]), x[2]
    else:
        y, value = run(*x[:3, 0], before[None, ..., None]), x[0, 0]
    assert (y[..., 0, :] == 0).all() and not (y[..., 1:, :] == 0).any()
    assert torch.allclose(y[..., 1, :], value[..., 0, :])


def test_exports_are_noticed_by_versions_of_torch_that_cannot_tell(monkeypatch):
    """2.6 has no ``is_exporting``, and some later ones say yes to torch.compile."""
    monkeypatch.setattr("selfattn.ops.common.autograd._TELLS_EXPORTS", False)
    layer, x = build_attention("mtsa", 16, 2, backend="eager"), torch.randn(2, 5, 16)
    compiled = torch.compile(layer, backend="eager")
    torch.testing.assert_close(compiled(x), layer(x))
    monkeypatch.setattr(torch.compiler, "_is_exporting_flag", True)
    with pytest.raises(UserError, match="depend on the length, which an export may leave open"):
        layer(x)


def test_mtsa_takes_one_mask_for_all_heads():
    x = torch.randn(4, 1, 2, 5, 3)
    mask = PositionalMask("backward")
    assert torch.equal(mtsa(*x, masks=mask), mtsa(*x, masks=[mask, mask]))


def test_offsets_say_all_about_a_mask():
    """What an operator of torch gets in place of a mask is as good as the mask."""
    for direction in DIRECTIONS:
        for include_self in (False, True):
            for window in (None, 1, 3):
                mask = PositionalMask(direction, include_self, window)
                (left,), (right,) = offsets([mask])
                again = mask_of(left, right)
                assert again.offsets == mask.offsets
                assert torch.equal(again.allowed(6), mask.allowed(6))
