"""The scripts of this folder that are verbs of `selfattn`: for a clone that is not installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from selfattn.cli import run
from selfattn_experiments.commands.verbs import run_script


def main() -> None:
    """Do what the verb does that this script stands for, and leave the process."""
    run(run_script)
