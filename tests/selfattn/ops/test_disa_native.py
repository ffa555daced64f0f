"""DiSA's kernel in C: dropout, threads, torch.compile, vector widths; test_disa.py has the rest."""

import itertools
from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

from benchmarks.testing import PADDINGS, assert_close, padding_mask, run_with_grads
from selfattn.errors import UserError
from selfattn.masks import PositionalMask
from selfattn.ops.disa import disa, native
from selfattn.ops.disa.equation import equation

FORWARD, BACKWARD = PositionalMask("forward"), PositionalMask("backward")
MASKS = (FORWARD, BACKWARD, BACKWARD, PositionalMask(window=3))

pytestmark = pytest.mark.skipif(
    native.refusal(torch.float32) is not None, reason=str(native.refusal(torch.float32))
)


def inputs(length=33, features=4 * 19):
    """x, a, b and a gradient; a group is more than a vector and no multiple of one."""
    generator = torch.Generator().manual_seed(3)
    *values, upstream = (torch.randn(2, length, features, generator=generator) for _ in range(4))
    return values, upstream


@pytest.mark.parametrize("scale", [1.0, 60.0])  # 60: exp(2a/c) would overflow
@pytest.mark.parametrize("padding", PADDINGS)
def test_dropout_is_what_its_factors_say(padding, scale):
    (x, a, b), upstream = inputs()
    values = [x, a * scale, b * scale]
    hidden = padding_mask(padding, 2, 33)
    options = {"masks": MASKS, "padding_mask": hidden, "dropout_p": 0.4}
    torch.manual_seed(11)
    got = run_with_grads(partial(disa, backend="fused", **options), values, upstream)
    torch.manual_seed(11)
    factors = native.dropout_factors(x, MASKS, 0.4, int(torch.randint(1 << 62, ())))
    assert all(set(f.unique().tolist()) == {0.0, f.max().item()} for f in factors)
    assert all(abs((f > 0).float().mean() - 0.6**0.5) < 0.05 for f in factors)
    drawn = [f.double() for f in factors]
    expected = run_with_grads(
        lambda *t: equation(*t, None, hidden, None, MASKS, 5.0, drawn),
        [t.double() for t in values],
        upstream,
    )
    assert_close("results", expected, got, 5e-6)


def test_a_nan_of_a_real_token_is_seen():
    """Also behind the clamps: whoever sees the key is NaN, and nobody else."""
    bits = torch.tensor([0x7FC00000, 0x7FFFFFFF], dtype=torch.int32)  # numpy's, and a GPU's
    for scale, nan in itertools.product((1.0, 1000.0), bits.view(torch.float32)):
        for broken in range(3):
            values, _ = inputs(12)
            values[1] *= scale
            values[2] *= scale
            values[broken][:, 5, 3] = nan
            found = disa(*values, masks=FORWARD, backend="fused").isnan()
            expected = torch.zeros_like(found)
            expected[:, 5 if broken == 2 else slice(6, None), 3] = True
            assert torch.equal(found, expected)


def test_the_operators_keep_the_rules_of_torch_library():
    values, _ = inputs(7)
    hidden = padding_mask("left", 2, 7)
    ends = [-7, 1, 1, -3], [-1, 7, 7, 3]
    arguments = (*(t.requires_grad_() for t in values), None, hidden, None, None, *ends, 5.0, 0.0)
    torch.library.opcheck(torch.ops.selfattn.disa_native_forward.default, arguments)


def test_a_compiled_function_takes_any_bound_of_scores():
    """Numbers are no constants under dynamic=True."""
    x = torch.randn(3, 2, 9, 8)
    run = lambda c: disa(*x, masks=MASKS, c=c)  # noqa: E731
    fast = torch.compile(run, backend="eager", fullgraph=True, dynamic=True)
    for c in (5.0, 3.0):
        assert torch.equal(run(c), fast(c))


def test_a_checkpoint_that_keeps_some_results_computes_the_same():
    values, upstream = inputs(12)
    run = partial(disa, masks=MASKS, backend="fused")
    keep = partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    kept = run_with_grads(
        lambda *t: checkpoint(run, *t, use_reentrant=False, context_fn=keep), values, upstream
    )
    assert_close("results", run_with_grads(run, values, upstream), kept, 1e-6)


def test_refused_inputs_take_the_next_backend():
    values, _ = inputs(5)
    double = [t.double() for t in values]
    for t, c, reason in ((double, 5.0, "float64"), (values, 11.0, "c 11.0 is above 10.0")):
        with pytest.raises(UserError, match=f"backend 'fused' cannot be used: .*{reason}"):
            disa(*t, masks=MASKS, c=c, backend="fused")
        expected = disa(*t, masks=MASKS, c=c, backend="eager")
        assert torch.equal(disa(*t, masks=MASKS, c=c), expected)
