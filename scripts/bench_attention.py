"""Time and peak memory of attentions against sequence length, as ratios to multi-head attention.

Example, the figures of the papers on this CPU:

  python scripts/bench_attention.py --csv attention.csv --plots figures

Each method runs in a process of its own together with the reference, in turns; a method whose
results are wrong is refused. --level operator leaves the linear maps out and takes
scaled_dot_product_attention as the reference. examples/benchmarks/README.md says how to read it.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.command import add_flags, execute
from selfattn.cli import run

LENGTHS = (16, 32, 64, 128, 256, 512, 1024, 2048)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_flags(parser, ("layer", "operator"), LENGTHS, embed_dim=304)
    return execute(parser.parse_args())


if __name__ == "__main__":
    run(main)
