"""Results at sizes that CPUs cannot hold, in a CUDA graph, and under compute-sanitizer.

And the share of flagged tiles in a trained model, which should be 0.
"""

import itertools
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from selfattn.config import MTSAConfig
from selfattn.layers import build_attention
from selfattn.masks import head_masks
from selfattn.ops import disa, mtsa
from selfattn.ops.common.fused import dropout_factors
from selfattn.ops.disa.fused import disa_fused
from selfattn.ops.mtsa.equation import equation
from selfattn.ops.mtsa.fused import mtsa_fused
from selfattn.ops.mtsa.fused.launch import Triton
from selfattn_tasks.saved import find_checkpoint
from selfattn_tasks.srl.tagger.predictor import Predictor, Query

from ..testing import largest_error, padding_mask, run_with_grads
from ..triton_mtsa import DTYPES, VARIANTS
from .results import Results

SHOWN = ("check", "status", "error", "seconds", "reason")
# Of the norm, outputs and gradients; half precision rounds between the products.
_BOUNDS = {torch.float32: 1e-4, torch.float16: 4e-3, torch.bfloat16: 3e-2}
_ROOT = Path(__file__).resolve().parents[2]
Attend = Callable[..., Tensor]


class NoGPU(Exception):
    """A check is left out; NotImplementedError is what torch says of an operator it lacks."""


def run(results: Results) -> None:
    """Make the checks that are not done yet."""
    checks = _checks(results.device, results.dry)
    # Last what failed before: it may be why the others did, see below.
    for name, check in sorted(checks, key=lambda named: bool(results.find(check=named[0]))):
        if any(row["status"] in ("ok", "skipped") for row in results.find(check=name)):
            continue
        results.drop(check=name)
        results.add({"check": name, "status": "begun"})  # what hangs goes last the next time
        start = time.perf_counter()
        try:
            error, bound = check()
            found = {"status": "ok" if error <= bound else "wrong", "error": error}
        except NoGPU:
            found = {"status": "skipped", "reason": "it needs a GPU"}
        except Exception as reason:  # out of memory, too, and what Triton says of a kernel
            found = {"status": "failed", "reason": f"{type(reason).__name__}: {reason}"[:500]}
        results.drop(check=name)
        results.add({"check": name, **found, "seconds": time.perf_counter() - start})
        if not results.dry:
            torch.cuda.synchronize()  # raises after an illegal access: all else would fail, too
            torch.cuda.empty_cache()


def _checks(device: str, dry: bool) -> list[tuple[str, Callable[[], tuple[float, float]]]]:
    long, disa_long, batch = (40, 40, 3) if dry else (16384, 4096, 2**31 // (8 * 1024 * 64) + 1)
    huge = (batch, 2, 8, 16) if dry else (batch, 8, 1024, 64)
    disa_huge = (batch, 8, 32) if dry else (batch, 1024, 512)
    batches, sentences = (1, 1) if dry else (500, 16)  # of one row, and in each batch
    on = [(dtype, str(dtype).removeprefix("torch.")) for dtype in (torch.float32, torch.bfloat16)]
    # Each is a compilation of its own; the tests have few of them.
    widths, tokens = ((16,), 9) if dry else ((64, 32, 128), 300)
    variants = ("both",) if dry else ("both", "plain")
    return [
        *((f"mtsa, {long} tokens, {name}",
           partial(_long, mtsa, 4, (1, 2, long, 64), dtype, device)) for dtype, name in on),
        *((f"disa, {disa_long} tokens, {name}",
           partial(_long, disa, 3, (1, disa_long, 64), dtype, device)) for dtype, name in on),
        ("mtsa, more than 2^31 elements", partial(_huge, mtsa, 4, huge, device)),
        ("disa, more than 2^31 elements", partial(_huge, disa, 3, disa_huge, device)),
        ("CUDA graph of a layer", partial(_graph, device, 16 if dry else 1024)),
        *((f"mtsa, {name}, {width} wide, {variant}",
           partial(_variant, (2, 2, tokens, width), DTYPES[name], variant, device))
          for name, width, variant in itertools.product(DTYPES, widths, variants)),
        *((f"flagged tiles of srl-en-small, batches from {first:,}",
           partial(_flagged, device, first, batches, sentences))
          for first in range(0, batches if dry else 10_000, batches)),
        ("compute-sanitizer", partial(_sanitized, device)),  # takes minutes
    ]  # fmt: skip


def _operator(operator: Attend, shape: Sequence[int], backend: str) -> Attend:
    masks = head_masks("forward_backward", shape[1] if len(shape) == 4 else 2)
    usual = partial(operator, masks=masks, backend=backend)

    def in_triton(*x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        # In a dry run, where "fused" are the C kernels.
        if not x[0].is_cpu:
            return usual(*x, padding_mask=padding_mask)
        call: Any = mtsa_fused if operator is mtsa else disa_fused
        out: Tensor = call(*x, masks, padding_mask, "identity" if operator is mtsa else 5.0, 0.0)
        return out

    return in_triton if backend == "fused" else usual


def _long(
    operator: Attend, count: int, shape: Sequence[int], dtype: torch.dtype, device: str
) -> tuple[float, float]:
    """Against the same in float64 from operators of PyTorch, in blocks."""
    torch.manual_seed(1)
    x = [torch.randn(shape, device=device).to(dtype) for _ in range(count + 1)]
    got = run_with_grads(_operator(operator, shape, "fused"), x[1:], x[0])
    exact = [t.double() for t in x]
    expected = run_with_grads(_operator(operator, shape, "eager"), exact[1:], exact[0])
    return largest_error(expected, got), _BOUNDS[dtype]


def _variant(
    shape: tuple[int, int, int, int], dtype: torch.dtype, variant: str, device: str
) -> tuple[float, float]:
    """The kernels that ship for a width, with padding, against the equation in float64."""
    torch.manual_seed(1)
    upstream, *x = (torch.randn(shape, device=device).to(dtype) for _ in range(5))
    hidden = padding_mask("right", shape[0], shape[2])
    assert hidden is not None
    hidden = hidden.to(device)
    logsigmoid, dropped = VARIANTS[variant]
    sigma_t = "logsigmoid" if logsigmoid else "identity"
    masks = head_masks("forward_backward", shape[1])
    share, seed = 0.1 if dropped else 0.0, torch.tensor([7], device=device)
    with mock.patch.object(sys.modules[mtsa_fused.__module__], "draw_seed", lambda _: seed):
        got = run_with_grads(
            lambda q, k, v, s: mtsa_fused(q, k, v, s, masks, hidden, sigma_t, share), x, upstream
        )
    factors = None
    if dropped:
        pairs, features = dropout_factors(seed, shape, share)
        factors = pairs.double(), features.double()
    expected = run_with_grads(
        lambda q, k, v, s: equation(q, k, v, s, None, hidden, masks, sigma_t, factors),
        [t.double() for t in x],
        upstream,
    )
    return largest_error(expected, got), _BOUNDS[dtype]


def _huge(operator: Attend, count: int, shape: Sequence[int], device: str) -> tuple[float, float]:
    """The first, a middle and the last sentence, each against itself alone."""
    torch.manual_seed(1)
    attend = _operator(operator, shape, "fused")
    upstream, *x = (
        torch.randn(shape, device=device, dtype=torch.bfloat16) for _ in range(count + 1)
    )
    leaves = [t.requires_grad_() for t in x]
    out = attend(*leaves)
    out.backward(upstream)
    found = [out.detach(), *(t.grad for t in leaves if t.grad is not None)]
    alone, beside = [], []
    for i in (0, shape[0] // 2, shape[0] - 1):
        part = slice(i, i + 1)
        alone += run_with_grads(attend, [t.detach()[part] for t in leaves], upstream[part])
        beside += [t[part] for t in found]
    return largest_error(alone, beside), 0.0


def _graph(device: str, length: int) -> tuple[float, float]:
    """Forward and backward, captured and replayed on other tokens, against the same uncaptured."""
    config = MTSAConfig.make("paper", backend="eager" if device == "cpu" else "fused")
    layer = build_attention(config, embed_dim=128, num_heads=2)
    layer = layer.to(device, torch.bfloat16).eval()
    x = torch.randn(4, length, 128, device=device, dtype=torch.bfloat16, requires_grad=True)

    def step() -> tuple[Tensor, Tensor]:
        y = layer(x)
        return y, torch.autograd.grad(y.sum(), x)[0]

    step()
    if device == "cpu":
        raise NoGPU
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        x.normal_()
    graph.replay()
    replayed = [t.clone() for t in captured]
    return largest_error(step(), replayed), 1e-3


def _flagged(device: str, seed: int, batches: int, sentences: int) -> tuple[float, float]:
    """The share of flagged tiles (see the README of MTSA's kernels) in batches of random words.

    The kernel, which has no bias by distance, runs beside what the layers of the tagger compute.
    """
    predictor = Predictor.load(find_checkpoint(Path("srl-en-small")), device)
    words, rng, shares = predictor.members[0][1].words, random.Random(seed), []

    def counting(*x: Tensor, **options: Any) -> Tensor:
        call = Triton(tuple(options["masks"]), options["sigma_t"], 0.0, save=False)
        shares.append(call.forward((*x, None, options["padding_mask"], None)).flags.float().mean())
        return mtsa(*x, **options)

    with mock.patch("selfattn.layers.mtsa.mtsa", counting):
        for _ in range(batches):
            batch = [rng.choices(words, k=rng.randint(3, 40)) for _ in range(sentences)]
            predictor.log_probs([Query(sentence, 1) for sentence in batch])
    return torch.stack(shares).mean().item(), 0.0


def _sanitized(device: str) -> tuple[float, float]:
    """One odd shape of each operator in a process under memcheck."""
    one_shape(device)  # compiles what that process would need more than its time for
    if device == "cpu":
        raise NoGPU
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        raise RuntimeError("compute-sanitizer is not on the PATH")
    code = f"from benchmarks.gpu.sizes import one_shape; one_shape({device!r})"
    # Torch and the driver ask each other for functions that are not there: no error of a kernel.
    flags = ("--report-api-errors", "no", "--error-exitcode", "9")
    command = [tool, *flags, sys.executable, "-c", code]
    # Each tensor is an allocation of its own: what leaves it must not land in another one's memory.
    env = {**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    done = subprocess.run(command, cwd=_ROOT, env=env, capture_output=True, text=True, timeout=150)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise RuntimeError(f"code {done.returncode}: {' / '.join(lines[-4:])}")
    return 0.0, 0.0


def one_shape(device: str) -> None:
    """Both operators forward and backward at 70 tokens (20 in a dry run) with padding."""
    tokens = 20 if device == "cpu" else 70
    hidden = padding_mask("right", 2, tokens)
    assert hidden is not None
    half = torch.bfloat16
    for operator, count, shape, dtype in (
        (mtsa, 4, (2, 2, tokens, 16), torch.float32),
        (mtsa, 4, (2, 2, tokens, 64), half),
        (disa, 3, (2, tokens, 32), torch.float32),
        (disa, 3, (2, tokens, 64), half),
    ):
        upstream, *x = (torch.randn(shape, device=device).to(dtype) for _ in range(count + 1))
        attend = _operator(operator, shape, "fused")
        run_with_grads(partial(attend, padding_mask=hidden.to(device)), x, upstream)
