"""The words of Penn Treebank files (``.mrg``), traces left out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from selfattn.errors import UserError

from ...text import read_lines

_TOKEN = re.compile(r"[()]|[^\s()]+")
_TRACE = "-NONE-"
# Lines of a notice at the head of some files.
_NOTICE = "*x*"


@dataclass(frozen=True)
class Tree:
    """The words of one tree.

    Args:
        words (tuple[str, ...]): without traces, as the file writes them.
        path (Path): the file.
        line (int): where the tree starts, counted from 1.
    """

    words: tuple[str, ...]
    path: Path
    line: int


def section_folder(treebank: Path, section: str) -> Path | None:
    """The folder of a section, such as ``02``: one of that name that holds ``.mrg`` files.

    Raises:
        UserError: if several folders below ``treebank`` are such.
    """
    found = sorted(
        folder
        for folder in treebank.rglob(section)
        if folder.is_dir() and any(_is_tree_file(path) for path in folder.iterdir())
    )
    if len(found) > 1:
        raise UserError(
            f"--treebank {treebank}: both {found[0]} and {found[1]} hold section {section}, but "
            "one is needed: give a folder further down"
        )
    return found[0] if found else None


def read_section(folder: Path) -> list[Tree]:
    """The trees of all files of a section, by file name.

    Raises:
        UserError: for a file that is no text or has unbalanced parentheses.
    """
    files = sorted(path for path in folder.iterdir() if _is_tree_file(path))
    return [tree for path in files for tree in read_trees(path)]


def _is_tree_file(path: Path) -> bool:
    return path.suffix.lower() == ".mrg"


def read_trees(path: Path) -> list[Tree]:
    """The trees of a file that hold a word.

    Raises:
        UserError: if the file is no UTF-8 text, or its parentheses are unbalanced.
    """
    trees: list[Tree] = []
    words: list[str] = []
    before = ["", ""]
    depth, start = 0, 0
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith(_NOTICE):
            continue
        for token in _TOKEN.findall(line):
            if token == "(":
                if depth == 0:
                    start = number
                depth += 1
            elif token == ")":
                depth -= 1
                if depth < 0:
                    raise UserError(f"{path}, line {number}: ) without a ( that it could close")
                if depth == 0 and words:
                    trees.append(Tree(tuple(words), path, start))
                    words = []
            # A leaf is ( TAG WORD ), so the word is the second token after a parenthesis.
            elif before[0] == "(" and before[1] not in "()" and before[1] != _TRACE:
                words.append(token)
            before = [before[1], token]
    if depth:
        raise UserError(f"{path}, line {start}: the tree that starts here is not closed")
    return trees
