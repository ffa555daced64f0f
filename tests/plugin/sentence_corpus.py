"""Sentences made by a small grammar of our own, as files that `prepare sentences` reads."""

from __future__ import annotations

import json
import random
from pathlib import Path

WHO = ("a cook", "the painter", "two neighbours", "my uncle", "the goat")
DOES = ("washes", "draws", "carries", "hides")
WHAT = ("a ladder", "the kettle", "some apples", "three maps", "his boat")
ASKED = {
    "HUM": "who {does} {what} ?",
    "LOC": "where is {what} ?",
    "NUM": "how many {what} are there ?",
}
VECTORS = 12


def _parts(generator: random.Random) -> dict[str, str]:
    lists = {"who": WHO, "does": DOES, "what": WHAT}
    return {name: generator.choice(values) for name, values in lists.items()}


def questions(number: int, seed: int) -> str:
    """A table of questions and what they ask for."""
    generator = random.Random(seed)
    lines = ["label\tsentence"]
    for _ in range(number):
        label = generator.choice(list(ASKED))
        lines.append(f"{label}\t{ASKED[label].format(**_parts(generator))}")
    return "\n".join(lines) + "\n"


def related(number: int, seed: int) -> str:
    """A table of pairs: the score says how many of their three parts are the same."""
    generator = random.Random(seed)
    lines = ["sentence_A\tsentence_B\trelatedness_score"]
    for _ in range(number):
        first, second = _parts(generator), _parts(generator)
        same = set(generator.sample(sorted(first), generator.randrange(4)))
        second = {name: first[name] if name in same else text for name, text in second.items()}
        score = 1 + 4 * sum(first[name] == second[name] for name in first) / 3
        pair = "\t".join(f"{p['who']} {p['does']} {p['what']} ." for p in (first, second))
        lines.append(f"{pair}\t{score:.1f}")
    return "\n".join(lines) + "\n"


def inferences(number: int, seed: int) -> str:
    """A table of pairs: one that says the same of someone, one of another, or the contrary."""
    generator = random.Random(seed)
    lines = ["premise\thypothesis\tlabel"]
    for _ in range(number):
        p = _parts(generator)
        premise, kind = f"{p['who']} {p['does']} {p['what']} .", generator.randrange(3)
        other = {0: f"nobody {p['does']} {p['what']} .", 1: f"it is {p['what']} .",
                 2: f"somebody {p['does']} {p['what']} ."}[kind]  # fmt: skip
        label = ("contradiction", "neutral", "entailment")[kind]
        lines.append(f"{premise}\t{other}\t{label}")
    return "\n".join(lines) + "\n"


def candidates(number: int, seed: int) -> str:
    """JSON lines: the right candidate has the asked thing in it."""
    generator = random.Random(seed)
    lines = []
    for _ in range(number):
        things = generator.sample(WHAT, generator.randrange(2, 5))
        right = generator.randrange(len(things))
        texts = [f"{generator.choice(WHO)} {generator.choice(DOES)} {thing} ." for thing in things]
        question = f"who has {things[right]} ?"
        lines.append(json.dumps({"question": question, "sentences": texts, "answer": right}))
    return "\n".join(lines) + "\n"


MAKERS = {"classification": questions, "relatedness": related, "nli": inferences,
          "selection": candidates}  # fmt: skip


def write(folder: Path, task: str, train: int = 120, others: int = 30) -> list[str]:
    """Write all parts and vectors of their words; the flags of `prepare sentences` for them."""
    ending = "jsonl" if task == "selection" else "tsv"
    flags = ["--task", task]
    for seed, (part, number) in enumerate((("train", train), ("valid", others), ("test", others))):
        path = folder / f"{task}.{part}.{ending}"
        path.write_text(MAKERS[task](number, seed), encoding="utf-8")
        flags += [f"--{part}", str(path)]
    generator = random.Random(9)
    words = sorted({w for text in (*WHO, *DOES, *WHAT) for w in text.split()} - {"goat"})
    rows = [" ".join([w, *(f"{generator.gauss(0, 1):.3f}" for _ in range(VECTORS))]) for w in words]
    (folder / "vectors.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return [*flags, "--vectors", str(folder / "vectors.txt")]
