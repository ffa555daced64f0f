"""Read hypotheses and references, and refuse what cannot be compared."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks import registry

# What --task takes.
TASKS = ("auto", *registry.TASKS)


def read_gold(path: Path, task: str) -> tuple[str, list[Any]]:
    """The task and the references or gold sentences.

    Args:
        path: the file.
        task: one of TASKS; ``auto`` asks each task whether the file is its own.

    Raises:
        UserError: if it cannot be read.
    """
    if task != "auto":
        return task, registry.TASKS[task].read_gold(path)
    for name, asked in reversed(registry.TASKS.items()):
        gold = asked.recognise(path)
        if gold is not None:
            return name, gold
    raise AssertionError("the first task takes any text")


def digest_of(sentences: Sequence[Any]) -> str:
    """The SHA-256 of sentences; blanks at the end of a translation, which no score sees, aside."""
    digest = hashlib.sha256()
    for sentence in sentences:
        text = sentence.rstrip() if isinstance(sentence, str) else repr(sentence)
        digest.update(text.encode() + b"\n")
    return digest.hexdigest()


def check_distinct(systems: Mapping[str, Sequence[tuple[Path, str]]]) -> list[str]:
    """Refuse what would count twice: one output as two runs, one file in two compared systems.

    A system compared with itself is no mistake: there all outputs are the same.

    Args:
        systems: name, the baseline first, to the files of its runs and what `digest_of` said.

    Returns:
        Warnings: of a system and the baseline of which some files differ in name alone.

    Raises:
        UserError: naming the files.
    """
    for name, runs in systems.items():
        seen: dict[str, Path] = {}
        for path, digest in runs:
            if digest in seen:
                raise UserError(
                    f"{name}: {seen[digest]} and {path} hold the same output, so they are one run "
                    "(fairseq uses seed 1 when no --seed is given); leave one out"
                )
            seen[digest] = path
    warnings = []
    (baseline, first), *others = systems.items()
    known = {digest: path for path, digest in first}
    for name, runs in others:
        itself = known.keys() == {digest for _, digest in runs}
        for path, digest in runs:
            if digest not in known:
                continue
            if path.samefile(known[digest]):
                if itself:
                    continue
                raise UserError(
                    f"{path} is a run of {baseline} and of {name}: a file belongs to one system; "
                    "give patterns that do not overlap (or one pattern twice, for a system "
                    "against itself)"
                )
            warnings.append(
                f"{baseline}: {known[digest]} and {name}: {path} hold the same output; if that is "
                "one training, the systems are not independent"
            )
    return warnings
