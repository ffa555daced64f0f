"""Compare a folder that `selfattn prepare conll05` made with the published counts.

Example:

  python examples/srl_conll05/check_counts.py data-bin/conll05.text
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from selfattn_tasks.cli import run, script_parser
from selfattn_tasks.srl.formats.conll05 import check_counts


def main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("folder", type=Path)
    check_counts(parser.parse_args().folder)


if __name__ == "__main__":
    run(main)
