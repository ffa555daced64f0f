"""Time and peak memory of attentions against sequence length, as ratios to multi-head attention.

Example, the figures of the papers on this CPU:

  selfattn bench attention --csv attention.csv --plots figures

Each method runs in a process of its own together with the reference, in turns; a method whose
results are wrong is refused. --level operator leaves the linear maps out and takes
scaled_dot_product_attention as the reference. examples/benchmarks/README.md says how to read it.
"""

import argparse

from . import command
from .command import execute as main

__all__ = ["add_flags", "main"]

LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)


def add_flags(parser: argparse.ArgumentParser) -> None:
    command.add_flags(parser, ("layer", "operator", "context"), LENGTHS, embed_dim=304)
