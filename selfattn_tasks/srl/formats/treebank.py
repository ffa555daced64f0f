"""The words of Penn Treebank files (``.mrg``), without traces."""

import re
from pathlib import Path

from selfattn.errors import UserError

from ...text import read_lines
from .rows import Block

_TOKEN = re.compile(r"[()]|[^\s()]+")
_TRACE = "-NONE-"
# How lines of the notice at the start of some files begin.
_NOTICE = "*x*"


def section_folder(treebank: Path, section: str) -> Path | None:
    """Find the folder of a section such as ``02``: one of its name that holds ``.mrg`` files.

    Raises:
        UserError: if there are several such folders.
    """
    found = sorted(
        folder
        for folder in treebank.rglob(section)
        if folder.is_dir() and any(_is_tree_file(path) for path in folder.iterdir())
    )
    if len(found) > 1:
        raise UserError(
            f"--treebank {treebank}: both {found[0]} and {found[1]} hold section {section}: name a "
            "folder further down that holds one of them"
        )
    return found[0] if found else None


def read_section(folder: Path) -> list[Block]:
    """The sentences of all files in the folder of a section, by file name.

    Returns:
        one row per word, which is all that a row holds.

    Raises:
        UserError: for a file that is not text or has unbalanced parentheses.
    """
    files = sorted(path for path in folder.iterdir() if _is_tree_file(path))
    return [tree for path in files for tree in read_trees(path)]


def _is_tree_file(path: Path) -> bool:
    return path.suffix.lower() == ".mrg"


def read_trees(path: Path) -> list[Block]:
    """Read the words of a file's trees without traces, skipping trees without a word.

    Raises:
        UserError: if the file is not UTF-8 text, its parentheses are unbalanced, or a leaf has
            more than one word.
    """
    trees: list[Block] = []
    words: list[list[str]] = []
    before = ["", ""]
    depth, start, leaf = 0, 0, False
    for number, line in enumerate(read_lines(path), start=1):
        if line.startswith(_NOTICE):
            continue
        for token in _TOKEN.findall(line):
            if leaf and token != ")":
                raise UserError(f"{path}, line {number}: {token!r} follows the word of a leaf")
            # A leaf is ( TAG WORD ), so the word is the second token after a parenthesis.
            leaf = token not in "()" and before[0] == "(" and before[1] not in "()"
            if token == "(":
                if depth == 0:
                    start = number
                depth += 1
            elif token == ")":
                depth -= 1
                if depth < 0:
                    raise UserError(f"{path}, line {number}: ) without a matching (")
                if depth == 0 and words:
                    trees.append(Block(path, start, words))
                    words = []
            elif leaf and before[1] != _TRACE:
                words.append([token])
            before = [before[1], token]
    if depth:
        raise UserError(f"{path}, line {start}: the tree that starts here is never closed")
    return trees
