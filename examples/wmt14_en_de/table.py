#!/usr/bin/env python
"""Print Table 6 of the MTSA paper: its numbers, and beside them those of your runs.

  python examples/wmt14_en_de/table.py runs/wmt14/*

A run counts if its settings are the published ones and it is finished; the lines below the table
say which were left out and why. Whether a difference is real: `selfattn compare`.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from selfattn_tasks.cli import run, script_parser
from wmt14.table6 import collect, signatures, table


def main() -> None:
    parser = script_parser(__doc__)
    parser.add_argument("runs", nargs="*", type=Path, help="folders that evaluate.sh was run on")
    parser.add_argument("--any-settings", action="store_true", help="take other settings, too")
    args = parser.parse_args()
    taken, notes = collect(args.runs, args.any_settings)
    print("newstest2014 English-German; ours: mean ± sample standard deviation over seeds\n")
    print(table(taken))
    for line in [*signatures(taken), *notes]:
        print(line)


if __name__ == "__main__":
    run(main)
