"""Derivatives of the operators beyond a first backward: second ones, and those of torch.func."""

from functools import partial

import pytest
import torch
from torch.func import grad, jacrev, vmap

from benchmarks.testing import LargestTensor, assert_close, padding_mask
from selfattn.errors import UserError
from selfattn.masks import PositionalMask
from selfattn.ops import disa, mtsa
from selfattn.ops.common import autograd
from selfattn.ops.disa import eager as disa_eager
from selfattn.ops.disa import native as disa_native
from selfattn.ops.mtsa import eager as mtsa_eager
from selfattn.ops.mtsa import native as mtsa_native

MASKS = (PositionalMask("forward"), PositionalMask("backward", window=2))
BATCH, LENGTH = 3, 6
REASON = mtsa_native.refusal(torch.float32)
FUSED = pytest.mark.skipif(REASON is not None, reason=str(REASON))
# What a backend is compared in, and the error that it may make.
FORMS = {"eager": (torch.float64, 1e-8), "fused": (torch.float32, 2e-5)}
both = pytest.mark.parametrize("backend", ["eager", pytest.param("fused", marks=FUSED)])
operators = pytest.mark.parametrize("name", ["mtsa", "disa"])


def inputs(name, dtype, bias=True, length=LENGTH, batch=BATCH):
    generator = torch.Generator().manual_seed(5)
    shape = (batch, 2, length, 3) if name == "mtsa" else (batch, length, 4)
    shapes = [shape] * (4 if name == "mtsa" else 3) + [(2, length)] * bias
    return [torch.randn(s, generator=generator).to(dtype) for s in shapes]


def attend(name, backend, hidden=None, dropout_p=0.0, masks=MASKS):
    """The operator as a function of its tensors; the bias by distance may be among them."""
    options = {"padding_mask": hidden, "dropout_p": dropout_p, "backend": backend}

    def run(*t):
        torch.manual_seed(3)
        if name == "mtsa":
            bias = t[4] if len(t) > 4 else None
            return mtsa(*t[:4], masks=masks, sigma_t="logsigmoid", distance_bias=bias, **options)
        return disa(*t[:3], masks=masks, distance_bias=t[3] if len(t) > 3 else None, **options)

    return run


def equation(name, backend, values, hidden, dropout_p):
    """The equation under the dropout factors of a backend."""
    if name == "mtsa":
        module = mtsa_eager._Eager if backend == "eager" else mtsa_native._Native
        call, rest = module(MASKS, "logsigmoid", dropout_p), (hidden,)
    else:
        module = disa_eager._Eager if backend == "eager" else disa_native._Native
        call, rest = module(MASKS, 5.0, dropout_p), (hidden, None)

    def complete(t):
        return (*t, *[None] * (call.projections + 1 - len(t)), *rest)

    torch.manual_seed(3)
    seed = torch.randint(1 << 62, ()) if dropout_p else None
    factors = tuple(f.double() for f in call.factors((*complete(values), seed))) if seed else None
    return lambda *t: call.equation((*complete(t), seed), factors, slice(None))


def by_autograd(run, values):
    leaves = [t.clone().requires_grad_() for t in values]
    first = torch.autograd.grad(run(*leaves).square().sum(), leaves, create_graph=True)
    return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)


def by_backward(run, values):
    leaves = [t.clone().requires_grad_() for t in values]
    run(*leaves).square().sum().backward(create_graph=True)
    first = [t.grad for t in leaves]
    for t in leaves:
        t.grad = None
    sum(g.square().sum() for g in first).backward()
    return [t.grad for t in leaves]


def by_func(run, values):
    places = tuple(range(len(values)))

    def penalty(*t):
        return sum(g.square().sum() for g in grad(lambda *u: run(*u).square().sum(), places)(*t))

    return grad(penalty, places)(*values)


@operators
@both
@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
@pytest.mark.parametrize("padding", ["none", "all"])
@pytest.mark.parametrize("way", [by_autograd, by_backward, by_func])
@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph")
def test_a_gradient_penalty_is_that_of_the_equation(name, backend, padding, dropout_p, way):
    dtype, ratio = FORMS[backend]
    values = inputs(name, dtype, bias=name == "mtsa" or backend == "eager")
    hidden = padding_mask(padding, BATCH, LENGTH)
    formula = equation(name, backend, values, hidden, dropout_p)
    expected = by_autograd(formula, [t.double() for t in values])
    got = way(attend(name, backend, hidden, dropout_p), values)
    for place, (want, found) in enumerate(zip(expected, got, strict=True)):
        assert found.dtype == dtype and want.norm() > 0
        assert_close(f"input {place}", want, found, ratio)


@operators
@both
@pytest.mark.parametrize("padding", ["none", "left"])
def test_dropout_is_the_same_in_every_order_of_memory(name, backend, padding):
    """A replay, as of a second derivative, has other strides than the first pass."""
    dtype, ratio = FORMS[backend]
    batch, axes = (1, (1, 2)) if name == "mtsa" else (BATCH, (0, 1))  # time first
    values = inputs(name, dtype, bias=False, batch=batch)
    turned = [t.transpose(*axes).contiguous().transpose(*axes) for t in values]
    hidden = padding_mask(padding, batch, LENGTH)
    run = attend(name, backend, hidden, 0.3, masks=MASKS[:1] * 2)  # whose heads are one part
    assert_close("output", run(*values), run(*turned), ratio)
    for want, found in zip(by_autograd(run, values), by_autograd(run, turned), strict=True):
        assert_close("gradient", want, found, ratio)


@operators
def test_second_derivatives_are_those_of_differences(name):
    values = [t.requires_grad_() for t in inputs(name, torch.float64, length=3, batch=2)]
    hidden = padding_mask("left", 2, 3)
    assert torch.autograd.gradgradcheck(attend(name, "eager", hidden), values)


@operators
@both
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(name, backend, dtype):
    values = inputs(name, dtype, bias=False)
    formula = equation(name, backend, values, None, 0.0)
    expected = by_autograd(formula, [t.double() for t in values])
    for want, found in zip(expected, by_autograd(attend(name, backend), values), strict=True):
        assert found.dtype == dtype
        assert_close("half precision", want, found, 0.1 if dtype == torch.bfloat16 else 0.02)


@operators
@pytest.mark.parametrize("elements", [1, 100, 400])
def test_pieces_of_sentences_and_of_queries(monkeypatch, name, elements):
    values, hidden = inputs(name, torch.float64), padding_mask("left", BATCH, LENGTH)
    run = attend(name, "eager", hidden, 0.3)
    expected = by_autograd(run, values)
    monkeypatch.setattr(autograd, "PIECE_ELEMENTS", elements)
    for want, found in zip(expected, by_autograd(run, values), strict=True):
        assert_close("in pieces", want, found, 1e-12)


@operators
def test_memory_of_a_second_derivative_is_that_of_its_pieces(monkeypatch, name):
    monkeypatch.setattr(autograd, "PIECE_ELEMENTS", 1 << 12)
    values = inputs(name, torch.float64, bias=False, length=96)
    with LargestTensor() as seen:
        by_autograd(attend(name, "eager"), values)
    # A query with all of its keys, or what the first pass has; the whole would be 96 times that.
    assert seen.size <= 8 * max(1 << 12, 96 * 96 * 2 * BATCH)


@operators
@both
def test_a_third_derivative_is_refused_where_it_is_asked_for(name, backend):
    """Also where the penalty has another path to the inputs: autograd must not leave it out."""
    leaves = [t.requires_grad_() for t in inputs(name, FORMS[backend][0], bias=False)]
    y = attend(name, backend)(*leaves).square().sum()
    first = torch.autograd.grad(y, leaves, create_graph=True)
    (second,) = torch.autograd.grad(first[0].sum(), leaves[:1], create_graph=True)
    with pytest.raises(UserError, match="no third derivative .*'reference'"):
        torch.autograd.grad(second.sum() + leaves[0].square().sum(), leaves)


@operators
@both
@pytest.mark.parametrize("bias", [False, True])
def test_jacobians_and_samples(name, backend, bias):
    """vmap over gradients of the output, and over samples, each with a table of its own."""
    bias = bias and (name == "mtsa" or backend == "eager")
    dtype, ratio = FORMS[backend]
    values = inputs(name, dtype, bias)
    run, slow = (lambda *t, b=b: attend(name, b)(*t) for b in (backend, "reference"))
    small = [t[..., :3, :] if t.dim() > 2 else t[..., :3] for t in values]
    assert_close("jacobian", jacrev(slow)(*small), jacrev(run)(*small), ratio)
    twice = [torch.stack([t, 2 * t.flip(0)]) for t in values]
    for function in (run, lambda *t: grad(lambda *u: run(*u).square().sum())(*t)):
        found = vmap(function, randomness="same")(*twice)
        for i in range(2):
            assert_close(f"sample {i}", function(*(t[i] for t in twice)), found[i], ratio)


@operators
@both
def test_dropout_under_vmap_follows_its_randomness(name, backend):
    (first, *rest) = inputs(name, FORMS[backend][0], bias=False)
    operator = mtsa if name == "mtsa" else disa
    run = partial(operator, masks=MASKS, dropout_p=0.4, backend=backend)
    twice = torch.stack([first, first])
    same, different = (
        vmap(lambda t: run(t, *rest), randomness=kind)(twice) for kind in ("same", "different")
    )
    assert torch.equal(same[0], same[1])
    assert not torch.equal(different[0], different[1])
    with pytest.raises(RuntimeError, match="random"):
        vmap(lambda t: run(t, *rest))(twice)


@FUSED
@operators
def test_the_operator_that_torch_records_has_no_second_derivative(name):
    """Within a dispatch mode, as in a graph of torch.compile."""
    leaves = [t.requires_grad_() for t in inputs(name, torch.float32, bias=False)]
    with LargestTensor():
        y = attend(name, "fused")(*leaves)
    (first,) = torch.autograd.grad(y.square().sum(), leaves[:1], create_graph=True)
    with pytest.raises(UserError, match="kernel has no second derivative where operators are"):
        torch.autograd.grad(first.square().sum() + y.sum(), leaves)


@FUSED
@operators
def test_batched_gradients_are_refused(name):
    values = [t.requires_grad_() for t in inputs(name, torch.float32, bias=False)]
    y = attend(name, "fused")(*values)
    with pytest.raises(UserError, match="grad has no storage, as with is_grads_batched"):
        torch.autograd.grad(y, values, torch.randn(2, *y.shape), is_grads_batched=True)
