"""A network as a file of ONNX or of torch.export."""

import contextlib
import io
import logging
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.errors import UserError, needed
from selfattn.layers.resa import ReSA
from selfattn.ops.common.dispatch import OPERATORS
from selfattn.ops.mtsa import equation

# What --to takes here, and the ending of the files.
ENDINGS = {"onnx": ".onnx", "torch": ".pt2"}
_REFUSED = "an exported file holds PyTorch's own operators alone"


@dataclass(frozen=True)
class Network:
    """A network, and what it takes and gives.

    Args:
        name: of its file, without an ending.
        module: its forward takes tensors by name and returns one, or a tuple.
        inputs: examples of them, no size of which is 0 or 1 where it may change.
        axes: of each input and each output, in this order, the name of every dimension: a number
            where it is fixed.
        block: the axis ``length`` is a multiple of it.
    """

    name: str
    module: nn.Module
    inputs: Mapping[str, Tensor]
    axes: Mapping[str, Sequence[str | int]]
    block: int = 1

    @property
    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return [name for name in self.axes if name not in self.inputs]

    def describe(self) -> dict[str, Any]:
        """Dtypes and dimensions, for people."""
        kinds = {name: str(t.dtype).removeprefix("torch.") for name, t in self.inputs.items()}
        found = {
            name: {"dtype": kinds.get(name, "float32"), "axes": [self._axis(a) for a in axes]}
            for name, axes in self.axes.items()
        }
        return {
            "inputs": {name: found[name] for name in self.inputs},
            "outputs": {name: found[name] for name in self.outputs},
        }

    def dimensions(self) -> dict[str, dict[int, Any]]:
        """Of each input those that may change, for torch.export."""
        length = torch.export.Dim("length" if self.block == 1 else "blocks")
        own = {"length": length if self.block == 1 else self.block * length}
        own["sentences"] = torch.export.Dim("sentences", min=3)  # a question, two candidates
        return {
            name: {
                i: own.get(axis) or torch.export.Dim(axis)
                for i, axis in enumerate(self.axes[name])
                if isinstance(axis, str)
            }
            for name in self.inputs
        }

    def _axis(self, axis: str | int) -> str | int:
        return f"{self.block} * blocks" if self.block > 1 and axis == "length" else axis


def trace(network: Network) -> torch.export.ExportedProgram:
    """Record what a network computes, for every size of the dimensions that have a name.

    Raises:
        UserError: if it samples, or what it computes depends on values.
    """
    for module in network.module.modules():
        samples = isinstance(module, ReSA) and module.config.test_selection == "sample"
        if samples and not module.select_all and module.head_sampler is not None:
            raise UserError(
                "ReSA with the test_selection 'sample' cannot be exported: a graph draws no "
                "samples; train or export with 'threshold'"
            )
        _take_any_backend(module)
    with _portable(), _quiet(), torch.no_grad():
        try:
            return _unguarded(
                torch.export.export(
                    network.module.eval(),
                    (),
                    dict(network.inputs),
                    dynamic_shapes=network.dimensions(),
                )
            )
        except UserError:
            raise
        except Exception as error:  # of sympy, dynamo and torch, by what does not fit
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UserError(
                f"this model cannot be exported: its graph depends on values or on the length "
                f"({reason})"
            ) from error


def _unguarded(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Without what torch asserts of a branch's sizes: at least 2, as in the example."""
    for node in list(program.graph.nodes):
        if node.target is torch.ops.aten._assert_scalar.default:
            program.graph.erase_node(node)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    return program


def content(network: Network, form: str, int8: bool = False) -> bytes:
    """A network as the content of a file.

    Args:
        network: what to write.
        form: a name in ``ENDINGS``.
        int8: quantise the weights of linear maps and tables, in ONNX alone.

    Raises:
        UserError: as ``trace``; or if the packages of the extra ``onnx`` are missing.
    """
    program = trace(network)
    if form == "torch":
        file = io.BytesIO()
        torch.export.save(program, file)
        return file.getvalue()
    model = onnx_of(program, network)
    return (quantised(model) if int8 else model).SerializeToString()


def onnx_of(program: torch.export.ExportedProgram, network: Network) -> Any:
    """An ``onnx.ModelProto`` of a traced network."""
    with _quiet():
        found = torch.onnx.export(
            program,
            dynamo=True,
            input_names=list(network.inputs),
            output_names=network.outputs,
            verbose=False,
        )
    assert found is not None
    return found.model_proto


def quantised(model: Any) -> Any:
    """The same with 8-bit weights, and activations quantised as they come (onnxruntime's dynamic).

    Raises:
        UserError: if onnxruntime is not installed.
    """
    quantization = needed("onnxruntime.quantization", "selfattn[onnx]")
    onnx = needed("onnx", "selfattn[onnx]")
    with tempfile.TemporaryDirectory() as folder, _quiet():
        path = Path(folder) / "int8.onnx"
        quantization.quantize_dynamic(model, path)
        return onnx.load(path)


def _take_any_backend(module: nn.Module) -> None:
    """A backend that training was given does not bind the graph."""
    if isinstance(getattr(module, "backend", None), str):
        module.backend = "auto"  # type: ignore[assignment]
    config = getattr(module, "config", None)
    if is_dataclass(config) and "backend" in {f.name for f in fields(config)}:
        module.config = replace(config, backend="auto")  # type: ignore[type-var, assignment]


@contextlib.contextmanager
def _portable() -> Iterator[None]:
    """Without our kernels, which are operators of their own; MTSA factorised."""
    kept = dict(OPERATORS)
    equation.FACTORISED = True
    for name, operator in kept.items():
        OPERATORS[name] = operator._replace(refusal=lambda *_: _REFUSED)
    try:
        yield
    finally:
        equation.FACTORISED = False
        OPERATORS.update(kept)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without the exporters' remarks, of which none is about the model."""
    kept = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(kept)
