"""`selfattn prepare sentences` in a clone; --help shows its flags."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from selfattn.cli import run
from selfattn_experiments.commands.verbs import script_main

main = script_main("prepare sentences")

if __name__ == "__main__":
    run(main)
