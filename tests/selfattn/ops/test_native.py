"""What the kernels in C share: threads, torch.compile, checkpoints, vector widths."""

import os
import shutil
from functools import partial

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from benchmarks.testing import assert_close, run_with_grads
from selfattn import ops
from selfattn.masks import PositionalMask
from selfattn.ops.disa import native

FORWARD, BACKWARD = PositionalMask("forward"), PositionalMask("backward")
SHAPES = {"disa": [(2, 0, 4 * 19)] * 4, "mtsa": [(2, 4, 0, 19)] * 5}  # 0: the length

pytestmark = pytest.mark.skipif(
    native.refusal(torch.float32) is not None, reason=str(native.refusal(torch.float32))
)


@pytest.fixture(params=SHAPES)
def kernel(request):
    """An operator, and a function from a length to inputs and a gradient."""

    def drawn(length):
        generator = torch.Generator().manual_seed(3)
        shapes = ([n or length for n in shape] for shape in SHAPES[request.param])
        *values, upstream = (torch.randn(shape, generator=generator) for shape in shapes)
        return values, upstream

    masks = (FORWARD, BACKWARD, BACKWARD, PositionalMask(window=3))
    return partial(getattr(ops, request.param), masks=masks, backend="fused"), drawn


def test_the_number_of_threads_changes_nothing(kernel):
    run, drawn = kernel
    results, before = [], torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(0)
            results.append(run_with_grads(partial(run, dropout_p=0.1), *drawn(70)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_a_compiled_function_holds_the_operator_in_one_graph(kernel):
    attend, drawn = kernel

    def run(*t):
        return attend(t[0] * 2, *t[1:], dropout_p=0.2) + 1

    torch.compiler.reset()  # of the other operator, whose inputs have another shape
    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    results = []
    for function in (run, compiled):
        torch.manual_seed(5)
        results.append(run_with_grads(function, *drawn(12)))
    for want, found in zip(*results, strict=True):
        assert_close("compiled", want, found, 1e-6)
    torch.manual_seed(6)
    assert not torch.equal(compiled(*drawn(12)[0]), results[1][0])  # another seed, other factors


def test_activation_checkpointing_draws_the_same_dropout(kernel):
    run, results = partial(kernel[0], dropout_p=0.3), []
    for function in (run, lambda *t: checkpoint(run, *t, use_reentrant=False)):
        torch.manual_seed(5)
        results.append(run_with_grads(function, *kernel[1](12)))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_any_memory_order_is_read_right(kernel):
    """Features first, and pieces of wider projections, as a layer makes them."""
    run, (x, upstream) = kernel[0], kernel[1](9)
    expected = run_with_grads(run, x, upstream)
    for turn in (lambda t: t.mT.contiguous().mT, lambda t: torch.cat([t, t], -1).chunk(2, -1)[0]):
        got = run_with_grads(lambda *t, turn=turn: run(*map(turn, t)), x, turn(upstream))
        torch.testing.assert_close(got, expected, rtol=0, atol=0)


SCRIPT = """
import torch
from selfattn.masks import PositionalMask
from selfattn.ops import disa, mtsa
torch.manual_seed(0)
masks = [PositionalMask("forward"), PositionalMask(window=5)]
for run, shape, powers in ((disa, (2, 70, 38), (0, 1, 1)), (mtsa, (2, 2, 70, 19), (0, 0, 0, 1))):
    for scale in (1, 60):
        x = [(torch.randn(shape) * scale**n).requires_grad_() for n in powers]
        results = []
        for backend in ("fused", "eager"):
            y = run(*x, masks=masks, backend=backend)
            results.append([y, *torch.autograd.grad(y.square().sum(), x)])
        print(max(float((a - b).norm() / b.norm()) for a, b in zip(*results)))
"""


# Narrower processors, as far as this one can play them.
@pytest.mark.parametrize("flags", ["-mno-avx512f", "-mno-avx"])
def test_each_vector_width_gives_the_same(run_cli, tmp_path, flags):
    if os.uname().machine != "x86_64":
        pytest.skip("the flags are those of x86")
    compiler = shutil.which("cc") or shutil.which("gcc")
    own = {"SELFATTN_CACHE": str(tmp_path), "CC": f"{compiler} {flags}"}
    done = run_cli(["-c", SCRIPT], fresh=False, **own)
    errors = [float(error) for error in done.stdout.split()]
    assert len(errors) == 4 and max(errors) < 5e-6, done.stderr
    assert len(list(tmp_path.iterdir())) == 2
