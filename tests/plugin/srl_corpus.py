"""Sentences with roles, made by a small grammar of our own: order alone does not tell the roles."""

from __future__ import annotations

import random
from pathlib import Path

from selfattn_tasks.srl import Proposition, Sentence, Span
from selfattn_tasks.srl.formats import conll
from selfattn_tasks.srl.prepare import prepare

WHO = ("the cook", "a tired painter", "Maria", "two neighbours", "my uncle", "the goat")
DID = (("carried", "carry"), ("washed", "wash"), ("drew", "draw"), ("hid", "hide"))
WHAT = ("a ladder", "the red kettle", "some apples", "three old maps", "his boat")
WHEN = ("yesterday", "at noon", "in spring")
FILLED = ("oddly enough ,", "well ,", "")


def clause(generator: random.Random, start: int) -> tuple[list[str], Proposition]:
    """One clause, active or passive, and its proposition."""
    who, what = generator.choice(WHO).split(), generator.choice(WHAT).split()
    (verb, lemma), when = generator.choice(DID), generator.choice(WHEN).split()
    active = generator.random() < 0.6
    parts = (
        [("A0", who), ("V", [verb]), ("A1", what)]
        if active
        else [("A1", what), ("", ["was"]), ("V", [verb]), ("A0", ["by", *who])]
    )
    if generator.random() < 0.5:
        parts.append(("AM-TMP", when))
    words: list[str] = []
    spans = []
    for label, part in parts:
        at = start + len(words)
        words += part
        if label:
            spans.append(Span(label, at, at + len(part) - 1))
    predicate = next(span.start for span in spans if span.label == "V")
    return words, Proposition(predicate, lemma, tuple(spans))


def sentence(generator: random.Random) -> Sentence:
    """A sentence of one or two clauses; one in ten has no predicate."""
    if generator.random() < 0.1:
        return Sentence(("No", "news", "."), ())
    words = generator.choice(FILLED).split()
    propositions = []
    for last in ([False, True], [True])[generator.random() < 0.7]:
        more, proposition = clause(generator, len(words))
        propositions.append(proposition)
        words += [*more, "." if last else "and"]
    return Sentence(tuple(words), tuple(propositions))


def sentences(number: int, seed: int) -> list[Sentence]:
    """Some sentences, the same for the same seed."""
    generator = random.Random(seed)
    return [sentence(generator) for _ in range(number)]


def prepared(folder: Path, **parts: tuple[int, int]) -> Path:
    """Write ``PART.conll`` of so many sentences of a seed, and prepare them all in ``data``."""
    files = {part: [folder / f"{part}.conll"] for part in parts}
    for part, (number, seed) in parts.items():
        conll.write_columns(*files[part], sentences(number, seed))
    prepare(files, folder / "data")
    return folder / "data"
