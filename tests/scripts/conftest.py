"""Generated parallel text: word for word, in another order, so that a model can learn it."""

import itertools
import random
from pathlib import Path

import pytest

WORDS = {
    "who": [("the cat", "die Katze"), ("a dog", "ein Hund"), ("my aunt", "meine Tante"),
            ("the mayor", "der Bürgermeister"), ("nobody", "niemand"), ("a fish", "ein Fisch")],
    "does": [("sees", "sieht"), ("hears", "hört"), ("paints", "malt"), ("likes", "mag")],
    "what": [("red boats", "rote Boote"), ("the moon", "den Mond"), ("old cheese", "alten Käse"),
             ("green houses", "grüne Häuser"), ("two spoons", "zwei Löffel")],
    "when": [("today", "heute"), ("at night", "nachts"), ("often", "oft")],
}  # fmt: skip


@pytest.fixture(scope="session")
def sentences():
    """All 360 pairs in a fixed random order."""
    pairs = [
        (f"{who[0]} {does[0]} {what[0]} {when[0]}.", f"{when[1]} {does[1]} {who[1]} {what[1]}.")
        for who, does, what, when in itertools.product(*WORDS.values())
    ]
    random.Random(1).shuffle(pairs)
    return pairs


def refused(done, *words: str) -> None:
    """The command ended with one sentence, which holds ``words``."""
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1 and ": error: " in done.stderr
    for each in words:
        assert each in done.stderr


def write(prefix: Path, pairs) -> None:
    """Write PREFIX.en and PREFIX.de."""
    for side, lang in enumerate(("en", "de")):
        Path(f"{prefix}.{lang}").write_text("".join(f"{p[side]}\n" for p in pairs), "utf-8")


@pytest.fixture
def corpus(tmp_path, sentences):
    """A folder with train, valid and test of the generated text."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    write(folder / "train", sentences[:300])
    write(folder / "valid", sentences[300:320])
    write(folder / "test", sentences[320:350])
    return folder
