#!/usr/bin/env python
# PYTHON_ARGCOMPLETE_OK
"""`selfattn VERB`, also as `python -m selfattn_experiments VERB`."""

import argparse
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

if not __package__:  # Python was given this folder, as the runner does for its own commands
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from selfattn import __version__
from selfattn.errors import UserError
from selfattn_experiments.commands.verbs import GROUPS, VERBS
from selfattn_tasks.cli import run

HEAD = """usage: selfattn VERB ...

Attention with a score per feature: prepare data, train with fairseq, score and compare.
"""
TAIL = """
Examples:
  selfattn prepare translation --source-lang en --target-lang de \\
      --pair my.en my.de --dest data-bin/my
  selfattn train data-bin/my/data-bin --arch transformer_mtsa --max-update 3000 --save-dir runs/my
  selfattn compare --ref test.de --baseline 'runs/base-*/test.hyp' --system 'runs/mtsa-*/test.hyp'

`selfattn VERB --help` describes a verb. Shell completion: pip install argcomplete, then
`eval "$(register-python-argcomplete selfattn)"`.
"""


def overview(start: str = "") -> str:
    """What ``selfattn --help`` prints, of the verbs that begin with ``start``."""
    lines = [HEAD]
    for title, group in GROUPS.items():
        verbs = [verb for verb in group if verb.words.startswith(start)]
        if verbs:
            lines += [title, *(f"  {verb.words:<20} {verb.summary}" for verb in verbs), ""]
    return "\n".join(lines).rstrip("\n") + "\n" + TAIL


def split(words: list[str]) -> tuple[str, list[str]]:
    """The verb, of two words or one, and the words after it; the verb is empty if there is none."""
    for count in (2, 1):
        if " ".join(words[:count]) in VERBS:
            return " ".join(words[:count]), words[count:]
    return "", words


def without_verb(words: list[str]) -> None:
    """Answer ``selfattn --help`` and ``--version``, and refuse anything else.

    Raises:
        UserError: if the words begin with neither of them.
    """
    first, second = [*words, "", ""][:2]
    seconds = [verb.partition(" ")[2] for verb in VERBS if verb.startswith(f"{first} ")]
    if first == "--version":
        print(f"selfattn {__version__}")
    elif first in ("-h", "--help") or (seconds and second in ("-h", "--help")):
        print(overview(f"{first} " if seconds else ""), end="")
    elif seconds:
        found = f"{first} {second} is unknown" if second else f"{first} is not enough"
        raise UserError(f"{found}: {first} takes {', '.join(seconds)}")
    elif first:
        raise UserError(f"{first} is unknown; `selfattn --help` lists the verbs")
    else:
        raise UserError("a verb is missing; `selfattn --help` lists them")


def main() -> NoReturn:
    """Find the verb, and leave the process as its module says."""
    if "_ARGCOMPLETE" in os.environ:
        complete()
    started = Path(sys.argv[0]).name
    prog = "selfattn" if started == "selfattn" else "python -m selfattn_experiments"
    words, rest = split(sys.argv[1:])
    if not words:
        run(lambda: without_verb(rest), prog)
    verb, name = VERBS[words], f"{prog} {words}"
    run(lambda: verb.run(verb.load_parser(name), rest), name)


def complete() -> None:
    """Answer a shell that asks for completions: all verbs, and the flags of the one typed."""
    import argcomplete

    typed = " ".join(os.environ.get("COMP_LINE", "").split()[1:3])
    parser = argparse.ArgumentParser(prog="selfattn")
    verbs = parser.add_subparsers()
    firsts: dict[str, argparse.ArgumentParser] = {}
    groups: dict[str, Any] = {}

    def add(where: Any, name: str, words: str) -> argparse.ArgumentParser:
        wanted = words in VERBS and typed.startswith(words)
        flags = [VERBS[words].load_parser(words)] if wanted else []
        added: argparse.ArgumentParser = where.add_parser(name, parents=flags, add_help=not flags)
        return added

    for words in VERBS:
        first, _, second = words.partition(" ")
        if first not in firsts:  # `predict` is a verb, and the first word of another
            firsts[first] = add(verbs, first, first)
        if second and first not in groups:
            groups[first] = firsts[first].add_subparsers()
        if second:
            add(groups[first], second, words)
    argcomplete.autocomplete(parser)


if __name__ == "__main__":
    main()
