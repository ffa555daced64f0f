"""What the scripts in this folder that are verbs of `selfattn` share: no installation is needed.

There is one file per verb, in one folder, so that the names that people have typed so far stay.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from selfattn_experiments.commands.verbs import run_script
from selfattn_tasks.cli import run


def main(script: str) -> None:
    """Run the verb that belongs to a script of this folder, given its path, and exit."""
    run(lambda: run_script(Path(script).name))
