"""The bracketed trees of the Stanford Sentiment Treebank, one per line."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from selfattn.errors import UserError

from .source import Item, Reading, Source

MODES = ("fine", "binary")
_PIECE = re.compile(r"[()]|[^()\s]+")
_CLASSES = "01234"
_NEUTRAL = "2"
_BINARY = {"0": "negative", "1": "negative", "3": "positive", "4": "positive"}
# The papers' code: five-class samples that are whole sentences, or not neutral, stand there so
# often.
_REPEATED = 4


class Node(NamedTuple):
    """A phrase: its class, 0 to 4, and its words from ``start`` to before ``end``."""

    label: str
    start: int
    end: int


def parse_tree(line: str) -> tuple[list[str], list[Node]]:
    """Read ``(3 (2 It) (4 works))``.

    Returns:
        the words, and all nodes, the root first.

    Raises:
        UserError: if the brackets do not match, a label is none of 0 to 4, or a node is empty; the
            message names neither file nor line.
    """
    pieces = _PIECE.findall(line)
    words: list[str] = []
    nodes: list[Node] = []
    open_nodes: list[int] = []
    place = 0
    while place < len(pieces):
        piece = pieces[place]
        if place and not open_nodes:
            raise UserError("broken tree: something follows its last bracket")
        if piece == "(":
            label = pieces[place + 1] if place + 1 < len(pieces) else ""
            if label not in tuple(_CLASSES):
                raise UserError(f"broken tree: the label {label!r} is none of 0 to 4")
            open_nodes.append(len(nodes))
            nodes.append(Node(label, len(words), -1))
            place += 1
        elif not open_nodes:
            raise UserError(f"broken tree: {piece!r} stands before its first bracket")
        elif piece == ")":
            number = open_nodes.pop()
            if nodes[number].start == len(words):
                raise UserError("broken tree: a node without a word")
            nodes[number] = nodes[number]._replace(end=len(words))
        else:
            words.append(piece)
        place += 1
    if open_nodes:
        raise UserError(f"broken tree: {len(open_nodes)} brackets are not closed")
    return words, nodes


def read_trees(source: Source, reading: Reading) -> Iterator[Item]:
    """The sentences of trees, or all their phrases.

    Differs: from the papers' code, which always repeats (``repeat``).

    Args:
        source: the file.
        reading: with ``sst``, ``fine``: classes 0 to 4; ``binary``: negative (0, 1) and positive
            (3, 4), where neutral ones are left out and counted. With ``phrases``, every node is an
            example, the sentence itself first; with ``repeat`` too and ``fine``, whole sentences
            and phrases that are not neutral stand there four times, as in the papers' code.

    Raises:
        UserError: with file and line, for a broken tree.
    """
    fine = reading.sst != "binary"
    repeat = reading.repeat and reading.phrases and fine
    for number, line in source.lines():
        try:
            words, nodes = parse_tree(line)
        except UserError as error:
            source.fail(number, str(error))
        for place, node in enumerate(nodes if reading.phrases else nodes[:1]):
            label = node.label if fine else _BINARY.get(node.label)
            if label is None:
                source.dropped["neutral"] += 1
                continue
            item = Item(number, (" ".join(words[node.start : node.end]),), label)
            often = repeat and (not place or node.label != _NEUTRAL)
            yield from [item] * (_REPEATED if often else 1)
