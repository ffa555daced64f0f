"""The fused MTSA as an operator of torch: compile, autocast, checkpointing, refusals."""

from __future__ import annotations

import importlib.util
import threading
from unittest import mock

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

from benchmarks.testing import assert_close, padding_mask, run_with_grads
from selfattn.masks import PositionalMask
from selfattn.ops.common.fused import DTYPES, draw_seed, dropout_factors
from selfattn.ops.mtsa.equation import equation, mtsa_slow
from selfattn.ops.mtsa.fused import configs, launch, mtsa_fused, refusal

TRITON = importlib.util.find_spec("triton") is not None
pytestmark = [
    pytest.mark.skipif(not TRITON, reason="Triton is not installed"),
    pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning"),
]
MASKS = (PositionalMask("forward"), PositionalMask("backward", include_self=True, window=4))
SWITCHES = ([-(1 << 29), 0], [-1, 4], "identity", 0.0)  # MASKS as offsets, sigma_t, no dropout
FORWARD = torch.ops.selfattn.mtsa_fused_forward.default
BACKWARD = torch.ops.selfattn.mtsa_fused_backward.default
NAMES = ("out", "dq", "dk", "dv", "ds")


def inputs(device, length=9, dtype=torch.float32):
    generator = torch.Generator().manual_seed(42)
    shape = (2, length, len(MASKS), 16)
    drawn = [torch.randn(shape, generator=generator).to(device, dtype) for _ in range(5)]
    *x, upstream = (t.transpose(1, 2) for t in drawn)
    return x, upstream


def attend(q, k, v, s, hidden=None, dropout_p=0.0):
    return mtsa_fused(q, k, v, s, MASKS, hidden, "identity", dropout_p)


def test_torch_finds_no_fault_with_the_operators(device):
    """Schema, fake implementations (shapes, strides, dtypes), autograd registration, tracing."""
    x, upstream = inputs(device)
    hidden = padding_mask("left", 2, 9).to(device)
    leaves = [t.requires_grad_() for t in x]
    arguments = (*leaves, None, hidden, None, *SWITCHES, True)
    torch.library.opcheck(FORWARD, arguments)
    with torch.no_grad():
        saved = FORWARD(*arguments)
        fixed = [t.detach() for t in x]
        torch.library.opcheck(BACKWARD, (upstream, list(saved), *fixed, *arguments[4:]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_shapes_are_known_without_running(dtype):
    with FakeTensorMode():
        x = [torch.empty(3, 70, 2, 25, dtype=dtype).transpose(1, 2) for _ in range(4)]
        saved = FORWARD(*x, None, torch.zeros(3, 70, dtype=torch.bool), None, *SWITCHES, True)
        out, flags, bounds, den, row_max, shift, *weights = saved
        assert out.shape == x[2].shape
        assert out.dtype == dtype
        assert out.transpose(1, 2).is_contiguous()
        assert bounds.shape == (3, 3)
        assert den.shape == (6, 70, 25)
        assert row_max.shape == (6, 70)
        assert flags.shape == (6, 1)
        assert shift.shape == (6, 25)
        assert [(t.shape, t.dtype) for t in weights] == [((6, 70, 25), dtype)] * 2
        grads = BACKWARD(out, list(saved), *x, None, None, None, *SWITCHES, True)
        assert [(g.shape, g.dtype) for g in grads] == [(t.shape, t.dtype) for t in x]
        nothing = FORWARD(*x, None, None, None, *SWITCHES, False)
        assert not any(t.numel() for t in nothing[2:]), "kept for a backward that never comes"


def test_traced_without_a_machine():
    """make_fx sees two operators, whatever the device could do."""

    def step(q, k, v, s):
        out = FORWARD(q, k, v, s, None, None, None, *SWITCHES, True)[0]
        return torch.autograd.grad(out.sum(), (q, k, v, s))

    x = [torch.randn(1, 2, 5, 16, requires_grad=True) for _ in range(4)]
    graph = make_fx(step, tracing_mode="fake")(*x)
    code = graph.code
    assert code.count("selfattn.mtsa_fused_forward") == 1
    assert code.count("selfattn.mtsa_fused_backward") == 1


@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
def test_compiled_whole(device, dropout_p):
    """No graph break, and the same numbers; under dropout, the same from the same seed."""
    x, upstream = inputs(device)
    hidden = padding_mask("right", 2, 9).to(device)

    def layer(q, k, v, s):
        return attend(q * 1.0, k, v, s, hidden, dropout_p) + 1.0

    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.manual_seed(1)
    expected = run_with_grads(layer, x, upstream)
    torch.manual_seed(1)
    got = run_with_grads(compiled, x, upstream)
    torch.testing.assert_close(got, expected, rtol=0, atol=0)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointing_draws_the_same_dropout(device, use_reentrant):
    x, upstream = inputs(device)

    def kept(*t):
        return attend(*t, dropout_p=0.3)

    torch.manual_seed(1)
    expected = run_with_grads(kept, x, upstream)
    torch.manual_seed(1)
    got = run_with_grads(lambda *t: checkpoint(kept, *t, use_reentrant=use_reentrant), x, upstream)
    torch.testing.assert_close(got, expected, rtol=0, atol=0)


def test_autocast_takes_mixed_dtypes(device):
    x, upstream = inputs(device)
    with torch.autocast(device.type, torch.bfloat16):
        mixed = run_with_grads(
            lambda q, k, v, s: attend(q.bfloat16(), k, v.bfloat16(), s), x, upstream
        )
    assert mixed[0].dtype == torch.bfloat16
    assert [g.dtype for g in mixed[1:]] == [torch.float32] * 4
    rounded = [t.bfloat16().double() for t in x[:3]] + [x[3].double()]
    expected = run_with_grads(
        lambda *t: mtsa_slow(*t, MASKS, None, "identity", 0.0), rounded, upstream
    )
    assert_close("results", expected, mixed, 2e-2)


def test_any_layout_of_memory_and_of_gradients(device):
    """Transposed features are copied, expanded gradients and slices of a projection are not."""
    x, upstream = inputs(device)
    expected = run_with_grads(attend, x, upstream)
    packed = torch.cat([t.transpose(1, 2).flatten(2) for t in x], -1)
    leaf = packed.clone().requires_grad_()
    views = [t.unflatten(2, (2, 16)).transpose(1, 2) for t in leaf.chunk(4, -1)]
    attend(*views).backward(upstream)
    for want, found in zip(expected[1:], leaf.grad.chunk(4, -1), strict=True):
        assert torch.equal(want.transpose(1, 2).flatten(2), found)
    turned = [t.mT.contiguous().mT.requires_grad_() for t in x]
    assert turned[0].stride(-1) != 1
    attend(*turned).sum().backward()
    ones = run_with_grads(attend, x, torch.ones_like(upstream))
    for t, want in zip(turned, ones[1:], strict=True):
        assert torch.equal(t.grad, want)


def test_what_is_saved_may_come_back_in_another_order(device):
    """From the CPU, as FSDP and others offload it, and for each sample of vmap."""
    x, upstream = inputs(device)
    expected = run_with_grads(attend, x, upstream)
    with torch.autograd.graph.save_on_cpu(pin_memory=True):
        got = run_with_grads(attend, x, upstream)
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    samples = vmap(grad(lambda *t: (attend(*t) * upstream[:1]).sum(), (0, 1, 2, 3)))
    for name, want, found in zip(
        NAMES[1:], expected[1:], samples(*(t[:, None] for t in x)), strict=True
    ):
        assert_close(name, want[:1], found[0], 1e-6)


FAR_APART = """
import sys, torch
from selfattn.masks import PositionalMask
from selfattn.ops.mtsa.fused import mtsa_fused
near = [torch.randn(1, 1, 3, 16, dtype=torch.bfloat16, device=sys.argv[1]) for _ in range(4)]
far = near[0].new_empty((1 << 31) + 16).as_strided((1, 1, 3, 16), (0, 0, 1 << 30, 1))
q, k, v, s = near
for inputs in ((far.copy_(q), k, v, s), (q, k, far.copy_(v), s)):
    packed = [t.contiguous() for t in inputs]
    out, want = (mtsa_fused(*t, (PositionalMask(),), None, "identity", 0) for t in (inputs, packed))
    assert torch.equal(out, want)
"""


def test_tokens_more_than_2_to_the_31_elements_apart(run_cli, device):
    """As where sentences are the second dimension; in a process, since 32 bits lead anywhere."""
    interpreted = "0" if device.type == "cuda" else "1"
    run_cli(["-c", FAR_APART, device.type], TRITON_INTERPRET=interpreted).ok()


@pytest.mark.parametrize("dropout_p", [0.0, 0.3])
def test_second_derivatives_are_those_of_the_equation(device, dropout_p):
    x, upstream = inputs(device, length=5)

    def penalty(run, values):
        leaves = [t.detach().requires_grad_() for t in values]
        torch.manual_seed(1)
        first = torch.autograd.grad(run(*leaves), leaves, upstream.to(values[0]), create_graph=True)
        return torch.autograd.grad(sum(g.square().sum() for g in first), leaves)

    torch.manual_seed(1)
    drawn = None
    if dropout_p:
        factors = dropout_factors(draw_seed(device), tuple(x[2].shape), dropout_p)
        drawn = tuple(f.double() for f in factors)
    exact = [t.double() for t in x]
    expected = penalty(lambda *t: equation(*t, None, None, MASKS, "identity", drawn), exact)
    got = penalty(lambda *t: attend(*t, dropout_p=dropout_p), x)
    for name, want, found in zip(NAMES[1:], expected, got, strict=True):
        assert_close(name, want, found, 2e-5)


def test_nothing_is_saved_without_gradients(device, monkeypatch):
    x, _ = inputs(device)
    seen = []
    original = launch.Triton.forward

    def forward(call, given):
        seen.append(call.save)
        return original(call, given)

    monkeypatch.setattr(launch.Triton, "forward", forward)
    attend(*x)
    attend(x[0], x[1], x[2].requires_grad_(), x[3])
    with torch.no_grad():
        attend(*x)
    assert seen == [False, True, False]


def test_refusals(device, monkeypatch):
    assert refusal(device, torch.float32, (16, 128)) is None
    assert refusal(device, torch.float32, (16, 129)) == "head width 129 is above 128"
    assert "float64 is not among float32" in refusal(device, torch.float64)
    monkeypatch.delenv("TRITON_INTERPRET")
    assert refusal("cpu", torch.float32) == "it needs an NVIDIA GPU, and the device is cpu"
    if not torch.cuda.is_available():
        assert refusal("cuda", torch.float32) == "no NVIDIA GPU is available"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert refusal("cuda", torch.float32) == "Triton is not installed"


def test_an_older_gpu_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (7, 5))
    assert refusal("cuda", torch.float32) == "the GPU has compute capability 7.5; 8.0 is needed"
    monkeypatch.setattr("selfattn.ops.common.fused._TOO_OLD", True)
    assert refusal("cuda", torch.float32) == f"torch is {torch.__version__}; 2.8 is needed"
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert refusal("cuda", torch.float32) == "no NVIDIA GPU is available"


def test_an_older_triton_has_no_knobs(run_cli):
    """Nor is what the kernels ask of it new: these modules load with Triton 3.3."""
    code = "import triton; del triton.knobs; import selfattn.ops.common.triton_tools as t; "
    for interpreted in ("0", "1"):
        done = run_cli(["-c", f"{code}print(int(t._INTERPRETED))"], TRITON_INTERPRET=interpreted)
        assert done.stdout == f"{interpreted}\n", done.stderr


def test_offsets_outlive_a_graph_that_the_caller_allocates_for():
    """torch.compile(mode="reduce-overhead") does so for a thread, and checks what is left."""
    launch._offsets.cache_clear()
    made = []
    with mock.patch.object(torch, "tensor", lambda *_, **__: made.append(threading.get_ident())):
        launch._offsets((0, 1), torch.device("cpu"))
    launch._offsets.cache_clear()
    assert len(made) == 1
    assert made[0] != threading.get_ident()


def test_tiles_of_queries_lie_within_a_flag():
    for dtype in DTYPES:
        for width in (3, 16, 25, 64, 100, 128):
            for logsigmoid in (False, True):
                for dropped in (False, True):
                    tiles = configs.choose(dtype, (width, 16), logsigmoid, dropped)
                    for tile in (*tiles, *configs.small(tiles)):
                        assert configs.FLAG_ROWS % tile.queries == 0


@pytest.mark.parametrize(
    ("capability", "small"), [((8, 0), False), ((8, 9), True), ((9, 0), False)]
)
def test_tiles_are_smaller_where_shared_memory_is(monkeypatch, capability, small):
    with FakeTensorMode():
        x = [torch.empty(1, 2, 9, 64, dtype=torch.bfloat16, device="cuda") for _ in range(4)]
        call = launch.Triton(MASKS, "identity", 0.0, True)
        usual = call._tiles(x)  # on whatever machine
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
        tiles = call._tiles(x)
    assert tiles == (configs.small(usual) if small else usual)
    assert configs.small(usual).query.queries == usual.query.queries // 2
    assert {tile.stages for tile in configs.small(usual)} == {1}


@pytest.mark.gpu
def test_a_cuda_graph_replays_forward_and_backward(device):
    x, upstream = inputs(device, length=70, dtype=torch.bfloat16)
    leaves = [t.requires_grad_() for t in x]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            torch.autograd.grad(attend(*leaves), leaves, upstream)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = attend(*leaves)
        grads = torch.autograd.grad(out, leaves, upstream)
    with torch.no_grad():
        for t in leaves:
            t.normal_()
    graph.replay()
    expected = run_with_grads(attend, leaves, upstream)
    torch.testing.assert_close([out, *grads], expected, rtol=0, atol=0)
