#!/usr/bin/env python
"""Accuracy of SST-2's committed predictions by length of the sentence, and by negation.

python examples/sentences/groups.py data-bin/sst2/test.jsonl > groups.tsv
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean

from selfattn_tasks import cli

RUNS = Path(__file__).resolve().parent / "runs" / "sst2" / "test"
SYSTEMS = ("multihead", "mtsa", "biblosa", "lstm", "none")
NEGATIONS = frozenset(
    "not n't no never nor none nothing neither nobody nowhere cannot without hardly barely".split()
)
Words = Sequence[str]
GROUPS: dict[str, Callable[[Words], bool]] = {
    "all": lambda words: True,
    "1 to 10 words": lambda words: len(words) <= 10,
    "11 to 20": lambda words: 10 < len(words) <= 20,
    "21 to 30": lambda words: 20 < len(words) <= 30,
    "31 and more": lambda words: len(words) > 30,
    "with a negation": lambda words: not NEGATIONS.isdisjoint(words),
    "without": lambda words: NEGATIONS.isdisjoint(words),
}


def main() -> None:
    """Print a row a group: its size, and each system's accuracy, the mean of its runs."""
    parser = cli.script_parser(__doc__)
    parser.add_argument("test", type=Path, help="the prepared test set")
    rows = [json.loads(line) for line in parser.parse_args().test.read_text().splitlines()]
    right = {
        system: [
            [line.split("\t")[0] == row["target"] for line, row in zip(lines, rows, strict=True)]
            for lines in (
                file.read_text().splitlines()[1:] for file in RUNS.glob(f"{system}-[0-9]*/test.tsv")
            )
        ]
        for system in SYSTEMS
    }
    print("\t".join(["sentences", "number", *SYSTEMS]))
    for name, belongs in GROUPS.items():
        places = [i for i, row in enumerate(rows) if belongs(row["sentences"][0])]
        scores = [100 * mean(mean(run[i] for i in places) for run in right[s]) for s in SYSTEMS]
        print("\t".join([name, str(len(places)), *(f"{score:.2f}" for score in scores)]))


if __name__ == "__main__":
    cli.run(main)
