"""Runs of a good and a bad system on sentences made up here, and their comparison."""

import random

from selfattn_experiments.compare.compare import Request, compare
from selfattn_experiments.compare.results import Settings
from selfattn_experiments.compare.runs import name_systems, name_test_sets

LINES = [
    f"Die {who} {does} {what} {when}."
    for who in ("Katze", "Tante", "Ente") for does in ("sieht", "malt", "hört")
    for what in ("rote Boote", "den Mond") for when in ("heute", "oft am Abend")
]  # fmt: skip


def translations(seed, wrong):
    rng = random.Random(seed)
    words = " ".join(LINES).replace(".", "").split()
    return [
        " ".join(rng.choice(words) if rng.random() < wrong else w for w in line[:-1].split()) + "."
        for line in LINES
    ]


def generated(lines, seed):
    """What fairseq-generate prints: batches in another order."""
    blocks = [
        f"S-{i}\tx\nT-{i}\t{LINES[i]}\nH-{i}\t-0.1\t{line}\nD-{i}\t-0.1\t{line}\n"
        for i, line in enumerate(lines)
    ]
    random.Random(seed).shuffle(blocks)
    return "".join(blocks)


def found(
    base="runs/base-*/one.out", system="runs/good-*/one.out", ref="one.de", metrics=("bleu",),
    **settings,
):  # fmt: skip
    request = Request(
        name_systems([base, system]), name_test_sets([ref]), "auto", metrics,
        Settings("", (), samples=200, **settings),
    )  # fmt: skip
    return compare(request)
