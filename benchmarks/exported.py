"""The encoder of a translation model in onnxruntime beside PyTorch with this project's C kernel.

  OMP_NUM_THREADS=1 python -m benchmarks.exported

prints the table of docs/export.md: sizes of the files, and the CPU time of onnxruntime divided by
that of PyTorch, one thread each, in turns, for one sentence. Weights are random.
"""

import argparse
from functools import partial
from typing import Any

import torch

from selfattn.config import CONFIGS
from selfattn.errors import needed
from selfattn.hf import SelfattnConfig, SelfattnForConditionalGeneration
from selfattn_experiments.machine import facts
from selfattn_tasks.cli import run
from selfattn_tasks.exported import graphs
from selfattn_tasks.exported.networks import translation_networks

from .table import origin
from .timing import Effort, Timing, compare

LENGTHS = (30, 128)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("mechanisms", nargs="*", default=list(CONFIGS), help="default: all")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each ratio")
    args = parser.parse_args()
    torch.set_num_threads(1)
    ratios = [f"{kind}, n = {n}" for kind in ("float32", "int8") for n in LENGTHS]
    print("| encoder | .onnx, MB | int8, MB | " + " | ".join(ratios) + " |")
    print("|---" * (3 + len(ratios)) + "|")
    for mechanism in args.mechanisms:
        print(_row(mechanism, args), flush=True)
    print("\n" + origin(facts("cpu")))


def _row(mechanism: str, args: argparse.Namespace) -> str:
    config = SelfattnConfig(
        vocab_size=8000,
        attention=mechanism,
        hidden_size=args.width,
        num_hidden_layers=args.layers,
        intermediate_size=4 * args.width,
        decoder_layers=1,
    )
    torch.manual_seed(1)
    network = translation_networks(SelfattnForConditionalGeneration(config).eval())[0]
    program = graphs.trace(network)
    model = graphs.onnx_of(program, network)
    forms = [m.SerializeToString() for m in (model, graphs.quantised(model))]
    sizes = [len(form) for form in forms]
    times = [
        _compare(form, network.module, n + -n % network.block, args.seconds)
        for form in forms
        for n in LENGTHS
    ]
    cells = [f"{size / 1e6:.1f}" for size in sizes]
    cells += [f"{t.ratio:.2f} ({t.ratio_low:.2f}-{t.ratio_high:.2f})" for t in times]
    return f"| {mechanism} | {' | '.join(cells)} |"


def _compare(form: bytes, module: torch.nn.Module, length: int, seconds: float) -> Timing:
    runtime: Any = needed("onnxruntime", "selfattn[onnx]")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(form, options, providers=["CPUExecutionProvider"])
    source = torch.randint(4, 8000, (1, length))
    step = partial(session.run, None, {"source": source.numpy()})
    with torch.inference_mode():
        return compare(step, partial(module, source), "cpu", Effort(seconds, 0.05, 9, 100))


if __name__ == "__main__":
    run(main, "benchmarks.exported")
