"""``python -m benchmarks.gpu STAGE FOLDER``; ``benchmarks/gpu.sh`` says what the stages are."""

import argparse
import importlib
from pathlib import Path

import torch

from selfattn.errors import UserError
from selfattn_tasks.cli import run

from .results import Results

STAGES = ("tests", "sizes", "kernels", "timings", "tiles", "grid", "processes")


def main(argv: list[str] | None = None) -> None:
    """Run what is left of a stage and print its rows."""
    parser = argparse.ArgumentParser(prog="benchmarks/gpu.sh", description=__doc__)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("folder", type=Path, help="for STAGE.csv and STAGE.json")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a dry run")
    parser.add_argument("--write", action="store_true", help="tiles: into the code, no search")
    args = parser.parse_args(argv)
    if args.device == "cuda" and not (args.write or torch.cuda.is_available()):
        raise UserError("--device is cuda, but torch finds no GPU; DEVICE=cpu is a dry run")
    if args.write and args.stage != "tiles":
        raise UserError(f"--write is for the stage tiles, and the stage is {args.stage}")
    results = Results(args.folder, args.stage, args.device)
    stage = importlib.import_module(f".{args.stage}", __package__)
    (stage.write if args.write else stage.run)(results)
    for row in results.rows:
        print(*(f"{n}={v}" for n, v in row.items() if n in stage.SHOWN and v is not None))


if __name__ == "__main__":
    run(main)
