"""torch.compile around the operators: the backend in blocks stays out of its graphs."""

import subprocess
import sys

import pytest
import torch

from selfattn.masks import PositionalMask
from selfattn.ops import disa, mtsa

MASKS = PositionalMask("forward"), PositionalMask("backward")


def run_mtsa(*x):
    q, k, v, s = (t * 2 for t in x)
    return mtsa(q, k, v, s, masks=MASKS, backend="eager") + 1


def run_disa(*x):
    q, k, v, _ = (t.transpose(1, 2).flatten(2) * 2 for t in x)
    return disa(q, k, v, masks=MASKS, backend="eager") + 1


@pytest.mark.parametrize("run", [run_mtsa, run_disa])
def test_blocks_stay_out_of_the_graphs(run):
    graphs = []

    def backend(graph, inputs):
        graphs.append({str(node.target).split(".")[-1] for node in graph.graph.nodes})
        return graph

    x = torch.randn(4, 3, 2, 9, 6, dtype=torch.float64)
    results = []
    for function in (run, torch.compile(run, backend=backend)):
        inputs = [t.clone().requires_grad_() for t in x]
        y = function(*inputs)
        (y * torch.arange(y.numel()).view(y.shape)).sum().backward()
        results.append((y, [t.grad for t in inputs]))
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)
    assert len(graphs) >= 2  # before and after the operator
    assert not any("exp" in name or "matmul" in name for graph in graphs for name in graph)


SCRIPT = """
import sys, torch
import selfattn.models, selfattn.ops.mtsa.fused
from selfattn.config import CONFIGS
from selfattn.layers import build_attention
for name in CONFIGS:
    for dtype in (torch.float32, torch.float64):
        layer = build_attention(name, 8, 2, attention_dropout=0.1).to(dtype)
        layer(torch.randn(2, 5, 8, dtype=dtype)).sum().backward()
tools = "selfattn.ops.common.triton_tools"  # torch may have imported Triton itself
print(*{"torch._dynamo", "torch._inductor", "sympy", "transformers", tools} & set(sys.modules))
"""


def test_the_compiler_triton_and_transformers_are_not_imported_for_nothing():
    """In a process of its own, which imports nothing else; on each CPU backend, both passes."""
    command = [sys.executable, "-c", SCRIPT]
    done = subprocess.run(command, check=True, text=True, capture_output=True)
    assert done.stdout.split() == []
