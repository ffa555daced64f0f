"""What a benchmark measures: a method builds a case, and a case is a step that can be repeated."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from . import checks, testing
from .timing import Effort, Step

DTYPES = ("float32", "bfloat16", "float16", "float64")
MODES = ("training", "inference")
PADDINGS = ("none", "right")
# What a row's ratio is taken to, for each level of the benchmark.
REFERENCES = {
    "layer": "multihead",
    "operator": "sdpa",
    "encoder": "multihead",
    "context": "multihead",
}


@dataclass(frozen=True)
class Setup:
    """What all methods of a run have in common."""

    embed_dim: int = 304  # width C of the tokens
    heads: int = 8
    mode: str = "training"  # forward and backward, or "inference": forward alone
    device: str = "cpu"  # or "cuda"
    dtype: str = "float32"  # of DTYPES
    padding: str = "none"  # or "right": sentences of different lengths
    backend: str = "auto"  # of the operators that offer a choice
    ffn_dim: int = 2048  # of encoder layers, as is their number
    layers: int = 1

    @property
    def torch_dtype(self) -> torch.dtype:
        """``dtype`` as torch has it."""
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype


@dataclass(frozen=True)
class Plan:
    """What to run."""

    level: str
    reference: str  # the method that ratios are taken to
    methods: Sequence[str]  # in the order of the rows
    setup: Setup
    shapes: Sequence[tuple[int, int]]  # (length, batch) in tokens and sentences, ascending
    threads: int
    effort: Effort
    longest: float  # seconds: a length at which one step must take longer is skipped
    memory_limit: int | None  # bytes that a process may allocate; None sets no limit
    with_memory: bool
    methods_module: Path | None  # a Python file with further methods
    give_up: float | None = None  # seconds after which the process of a method is killed


@dataclass
class Case:
    """One method at one length, ready to run."""

    step: Step  # what is timed; it leaves no gradient behind
    parameters: int
    # The first step leaves an optimizer's state behind: it is not the one for peak memory.
    stateful: bool = False


class Method(ABC):
    """One row of a benchmark at each length.

    Subclasses build a module that maps ``(*inputs, padding_mask)`` to one tensor ``(B, T, C')`` or
    ``(B, H, T, D)``. ``name`` is for ``--methods``, ``label`` for tables and pictures.
    """

    level = "layer"
    # Whether a step of training ends with an update of the weights.
    updates = False
    # Size of what lies in the padding when it is checked that nobody sees it.
    garbage = 100.0
    # Whether it trains on a GPU only: on a CPU it is left out unless asked for.
    gpu_only = False

    def __init__(self, name: str, label: str) -> None:
        self.name = name
        self.label = label

    @abstractmethod
    def build(self, setup: Setup) -> nn.Module:
        """The module with fresh weights, float32 on the CPU."""

    def inputs(self, setup: Setup, batch: int, length: int) -> list[Tensor]:
        """Standard normal inputs, float32; ``(B, T, C)`` unless a subclass says so."""
        return [torch.randn(batch, length, setup.embed_dim)]

    def reference(self, module: nn.Module, setup: Setup) -> nn.Module | None:
        """A slow and obvious module with the weights of ``module``, or None where there is none.

        Its arithmetic must hold in float64, to which it is converted.
        """
        return None

    def check(self, setup: Setup, length: int, *, against_reference: bool = True) -> None:
        """Make sure that this method computes at this length what it should.

        With ``against_reference`` also against its slow form in float64, at a length up to
        ``checks.REFERENCE_LENGTH``: a run need not repeat that for each longer length.

        Raises:
            CheckFailed: if it does not.
        """
        checks.check_module(self, setup, length, against_reference=against_reference)

    def case(self, setup: Setup, batch: int, length: int) -> Case:
        """The work at one size: B sentences of T tokens."""
        module = self.build(setup).to(setup.device, setup.torch_dtype)
        with torch.device(setup.device):  # drawn there: a CPU takes seconds for the longest
            drawn = self.inputs(setup, batch, length)
        inputs = [x.to(setup.device, setup.torch_dtype) for x in drawn]
        padding = testing.padding_mask(setup.padding, batch, length)
        padding = None if padding is None else padding.to(setup.device)
        training = setup.mode == "training"
        optimizer = None
        if training and self.updates:
            optimizer = torch.optim.Adam(module.parameters(), lr=1e-4)
        elif training:
            inputs = [x.requires_grad_() for x in inputs]

        def train() -> None:
            y = module(*inputs, padding)
            # Ones of y's own layout: a plain sum's gradient has stride 0 and slow paths of its own
            y.backward(torch.ones_like(y))
            if optimizer is not None:
                optimizer.step()
            module.zero_grad(set_to_none=True)
            for x in inputs:
                x.grad = None

        def infer() -> None:
            with torch.no_grad():
                module(*inputs, padding)

        step = train if training else infer
        parameters = sum(p.numel() for p in module.train(training).parameters())
        return Case(step, parameters, stateful=optimizer is not None)
