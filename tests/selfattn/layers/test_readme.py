"""The table of README.md in selfattn/layers: what PyTorch can do with each layer, cell by cell."""

import re
import warnings
from functools import partial
from pathlib import Path

import pytest
import torch
from torch.autograd.functional import vhp
from torch.func import functional_call, grad, hessian, vmap

import selfattn.layers
from benchmarks.testing import assert_close
from selfattn.config import CONFIGS
from selfattn.errors import UserError
from selfattn.layers import build_attention

WIDTH = 8
LENGTHS = ((3, 7), (2, 8), (4, 13), (1, 1))  # with and without whole blocks of Bi-BloSA


def table():
    """Way and mechanism of each cell, and whether it says yes."""
    text = (Path(selfattn.layers.__file__).parent / "README.md").read_text()
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]
    (_, *mechanisms), _, *rows = [[re.sub(r" \[\d]", "", c.strip()) for c in row] for row in rows]
    for way, *cells in rows:
        for mechanism, cell in zip(mechanisms, cells, strict=True):
            yield way, mechanism, cell == "yes"


CELLS = list(table())


def make(mechanism, dtype=torch.float64, **options):
    torch.manual_seed(0)
    layer = build_attention(mechanism.split()[0], WIDTH, 2, **options).to(dtype).eval()
    if mechanism == "resa that selects":
        layer.select_all = False
    return layer


def tokens(batch=3, length=7, dtype=torch.float64, hide=2):
    """A batch, and its padding mask with ``hide`` tokens of the first sentence."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, length, WIDTH, generator=generator, dtype=torch.float64).to(dtype)
    hidden = torch.zeros(batch, length, dtype=torch.bool)
    hidden[0, : min(hide, length - 1)] = True
    return x, hidden


def weights(layer):
    return {name: parameter.detach() for name, parameter in layer.named_parameters()}


def loss(layer, parameters, x, hidden):
    return functional_call(layer, parameters, (x, hidden)).square().sum()


def second(mechanism):
    """A gradient penalty, by two ways, and a product with the Hessian, against 'reference'."""
    x, hidden = tokens()
    results, products = [], []
    for options in ({}, {"backend": "reference"}):
        layer = make(mechanism, **(options if mechanism != "multihead" else {}))
        for way in ("grad", "backward"):
            leaves = [x.clone().requires_grad_(), *layer.parameters()]
            layer.zero_grad()
            y = layer(leaves[0], hidden).square().sum()
            if way == "grad":
                (first,) = torch.autograd.grad(y, leaves[0], create_graph=True)
            else:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # torch warns of the cycle
                    y.backward(create_graph=True)
                first = leaves[0].grad
            found = torch.autograd.grad(first.square().sum(), leaves, materialize_grads=True)
            results.append(torch.cat([t.flatten() for t in found]))
        run = lambda t, layer=layer: layer(t, hidden).square().sum()  # noqa: E731
        products.append(vhp(run, x, x.flip(0))[1])
    assert_close("product", products[1], products[0], 1e-8)
    assert results[0].norm() > 1.0
    for result in results[:-1]:
        assert_close("penalty", results[-1], result, 1e-8)


def forward_mode(mechanism):
    layer, (x, hidden) = make(mechanism), tokens(1, 4)
    run = lambda t: layer(t, hidden).square().sum()  # noqa: E731
    assert_close("hessian", torch.autograd.functional.hessian(run, x), hessian(run)(x), 1e-8)


def functional(mechanism):
    layer, inputs = make(mechanism), tokens()
    twice = {name: 2 * t for name, t in weights(layer).items()}
    found = functional_call(layer, twice, inputs)
    layer.load_state_dict(twice, strict=False)
    assert torch.equal(found, layer(*inputs))


def gradient(mechanism):
    layer, inputs = make(mechanism), tokens()
    found = grad(lambda p: loss(layer, p, *inputs))(weights(layer))
    expected = torch.autograd.grad(
        layer(*inputs).square().sum(), list(layer.parameters()), materialize_grads=True
    )
    for (name, _), want in zip(layer.named_parameters(), expected, strict=True):
        assert_close(name, want, found[name], 1e-12)


def samples(mechanism):
    layer, (x, hidden) = make(mechanism), tokens()
    of_one = grad(lambda p, t, h: loss(layer, p, t[None], h[None]))
    found = vmap(of_one, (None, 0, 0))(weights(layer), x, hidden)
    for i in range(len(x)):
        for name, want in of_one(weights(layer), x[i], hidden[i]).items():
            assert_close(name, want, found[name][i], 1e-12)


def meta(mechanism):
    layer, (x, hidden) = make(mechanism).to("meta"), tokens()
    x = x.to("meta").requires_grad_()
    y = layer(x, hidden.to("meta"))
    y.sum().backward()
    assert y.is_meta and y.shape == x.grad.shape == x.shape


def dynamic():
    shape = {0: torch.export.Dim("B", max=64), 1: torch.export.Dim("T", max=512)}
    return (shape, shape)


def export(mechanism):
    for backend in ("auto", "reference") if mechanism != "multihead" else (None,):
        layer = make(mechanism, torch.float32, **({"backend": backend} if backend else {}))
        inputs = tokens(dtype=torch.float32)
        program = torch.export.export(layer, inputs, dynamic_shapes=dynamic())
        assert ("selfattn." in str(program.graph)) == (backend == "auto")
        for size in LENGTHS:
            x, hidden = tokens(*size, torch.float32)
            assert_close(str(size), layer(x, hidden), program.module()(x, hidden), 1e-6)


def compiled(mechanism):
    layer = make(mechanism, torch.float32).train()
    torch.compiler.reset()
    fast = torch.compile(layer, backend="eager", fullgraph=True)
    for size in LENGTHS[:3]:  # 1 is compiled for itself
        results = []
        for run in (layer, fast):
            x, hidden = tokens(*size, torch.float32)
            torch.manual_seed(2)  # of selections
            y = run(x.requires_grad_(), hidden)
            y.square().sum().backward()
            results.append((y, x.grad))
        for want, found in zip(*results, strict=True):
            assert_close(str(size), want, found, 1e-5)


def onnx(mechanism, tmp_path):
    evaluator = pytest.importorskip("onnx.reference", reason="onnx is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    layer = make(mechanism, torch.float32)
    inputs = tokens(dtype=torch.float32)
    options = {"dynamo": True, "dynamic_shapes": dynamic(), "verbose": False}
    torch.onnx.export(layer, inputs, tmp_path / "layer.onnx", **options)
    model = evaluator.ReferenceEvaluator(str(tmp_path / "layer.onnx"))
    for size, scale in ((LENGTHS[1], 1.0), (LENGTHS[2], 1.0), (LENGTHS[2], 1e3)):
        x, hidden = tokens(*size, torch.float32)
        x *= scale  # ONNX's logarithm of a sigmoid has no number below -88
        feed = dict(zip(model.input_names, (x.numpy(), hidden.numpy()), strict=True))
        assert_close(str(size), layer(x, hidden), torch.tensor(model.run(None, feed)[0]), 1e-5)


RUN = (second, forward_mode, functional, gradient, samples, meta, export, compiled, onnx)
WAYS = dict(zip(dict.fromkeys(way for way, _, _ in CELLS), RUN, strict=True))


def test_the_table_names_every_mechanism():
    assert {mechanism.split()[0] for _, mechanism, _ in CELLS} == set(CONFIGS)


@pytest.mark.parametrize(("way", "mechanism", "works"), CELLS)
def test_a_cell(way, mechanism, works, request):
    run = WAYS[way]
    more = (request.getfixturevalue("tmp_path"),) if run is onnx else ()
    if works:
        return run(mechanism, *more)
    refusals = "exported with a dynamic length|scaled_dot_product|Failed to"
    with pytest.raises((UserError, RuntimeError, NotImplementedError), match=refusals):
        run(mechanism, *more)


@pytest.mark.parametrize("way", [second, forward_mode])
def test_multihead_has_derivatives_of_all_orders_under_math(way):
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        way("multihead")


@pytest.mark.parametrize("way", [second, forward_mode, samples, meta, compiled])
@pytest.mark.parametrize(
    "switches", [{"masks": "forward_backward"}, {"positions": "alibi"}, {"positions": "relative"}]
)
def test_multihead_with_switches_has_derivatives_of_all_orders(way, switches, monkeypatch):
    """Its operator is then MTSA's."""
    build = partial(build_attention, **switches)
    monkeypatch.setitem(globals(), "build_attention", build)
    way("multihead")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "eager"}, "'eager' cannot be used: its blocks depend on the length"),
        ({"test_selection": "sample", "test_seed": 3}, "cannot be exported with test_seed 3"),
    ],
)
def test_what_cannot_be_exported_is_refused(options, message):
    layer = make("resa that selects", torch.float32, **options)
    with pytest.raises(UserError, match=message):
        torch.export.export(layer, tokens(dtype=torch.float32))


def test_a_sampler_that_takes_one_token_after_the_other_is_exported_for_one_length():
    layer, inputs = make("resa that selects", sampler="iterative"), tokens()
    program = torch.export.export(layer, inputs, strict=False).module()
    torch.testing.assert_close(program(*inputs), layer(*inputs))
    shapes = ({1: torch.export.Dim("length")},) * 2
    with pytest.raises(UserError, match="'iterative'.* can be exported for one length"):
        torch.export.export(layer, inputs, dynamic_shapes=shapes, strict=False)
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    with pytest.raises(torch.onnx.OnnxExporterError):
        torch.onnx.export(layer, inputs, dynamo=True, dynamic_shapes=shapes)


@pytest.mark.parametrize("backend", ["eager", "fused"])
def test_what_a_backend_cannot_do_is_refused(backend):
    layer, (x, hidden) = make("mtsa", torch.float32, backend=backend), tokens(dtype=torch.float32)
    with pytest.raises(UserError, match=f"{backend!r} cannot be used: it has no forward-mode"):
        torch.func.jvp(lambda t: layer(t, hidden), (x,), (x,))
    with pytest.raises(UserError, match=f"backend {backend!r} cannot be used: "):
        layer.to("meta")(x.to("meta"))


def test_onnx_gets_operators_of_pytorch_alone_and_no_samples(monkeypatch):
    monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
    inputs = tokens(dtype=torch.float32)
    layer = make("resa that selects", torch.float32)
    assert "selfattn." not in str(torch.export.export(layer, inputs).graph)
    with pytest.raises(UserError, match="sampled selection cannot be exported to ONNX"):
        torch.export.export(layer.train(), inputs)


@pytest.mark.filterwarnings("ignore:.*(trace|jit)")
@pytest.mark.parametrize(
    ("switches", "traced"),
    [
        ({}, True),
        ({"positions": "rotary"}, True),
        ({"positions": "relative"}, True),
        ({"positions": "alibi"}, False),
        ({"distance": "log"}, False),
        ({"masks": "forward"}, False),
    ],
)
def test_a_trace_serves_every_length_or_is_refused(switches, traced):
    """Footnote 7."""
    layer = make("multihead", **switches)
    if not traced:
        with pytest.raises(UserError, match="cannot be traced"):
            torch.jit.trace(layer, tokens())
        return
    graph = torch.jit.trace(layer, tokens())
    for shape in LENGTHS:
        torch.testing.assert_close(graph(*tokens(*shape)), layer(*tokens(*shape)))
