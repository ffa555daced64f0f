"""The structural constraints of He et al. 2017, found exactly by branch and bound.

A node of the search is a sentence with some labels forbidden at some words; Viterbi gives its best
path, whose score bounds everything below the node. If the path violates a constraint, the node is
split into nodes that together contain every path that satisfies the constraint, but not this one.
The first valid path to leave the queue is the best one. Each round runs one Viterbi over the new
nodes of all sentences together.
"""

import heapq
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from selfattn.masks import check_padding_mask

from .decode import Constraints, bio_constraints, viterbi
from .formats.bio import from_bio
from .propositions import VERB, Span

CORE = frozenset([*(f"A{i}" for i in range(6)), "AA", *(f"ARG{i}" for i in range(6)), "ARGA"])
# Nodes that are expanded for a sentence before its best valid path so far is taken.
_MOST_NODES = 60
_ROWS_AT_ONCE = 512
# A node has as many children as words, of the sentence's size each: gigabytes at 2,000 words.
_LONGEST_SEARCHED = 300

# Kind, label, and the first words of the first and the second span.
Violation = tuple[str, str, int, int]


def violations(spans: Sequence[Span]) -> Iterator[Violation]:
    """Find the violated constraints of one proposition (He et al. 2017, section 3.3).

    Yields:
        ``unique``: a core role that occurs twice; ``continuation``: a ``C-X`` without an X before
        it; ``reference``: an ``R-X`` without an X anywhere.
    """
    first: dict[str, int] = {}
    present = {span.label for span in spans}
    for span in sorted(spans, key=lambda s: s.start):
        kind, _, base = span.label.partition("-")
        if span.label in CORE and span.label in first:
            yield "unique", span.label, first[span.label], span.start
        elif kind == "C" and base and base not in first:
            yield "continuation", base, span.start, span.start
        elif kind == "R" and base and base not in present:
            yield "reference", base, span.start, span.start
        first.setdefault(span.label, span.start)


def count_violations(propositions: Sequence[Sequence[Span]]) -> Counter[str]:
    """How often each kind of constraint is violated, over the spans of all ``propositions``."""
    return Counter(kind for spans in propositions for kind, *_ in violations(spans))


@dataclass(frozen=True)
class _Node:
    forbidden: Tensor  # bool (T, C)
    path: list[int]
    broken: Violation | None


class _Search:
    """The open nodes of one sentence, best first, and the best valid path so far."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = labels
        self.queue: list[tuple[float, int, _Node]] = []
        self.order = itertools.count()
        self.opened = 0
        self.score = -torch.inf
        self.path: list[int] | None = None

    def add(self, forbidden: Tensor, path: list[int], score: float) -> None:
        # What follows from a node is never better than the node itself.
        if score <= self.score:
            return
        node = _Node(forbidden, path, _first_violation(path, self.labels))
        if node.broken is None:
            self.score, self.path = score, path
        heapq.heappush(self.queue, (-score, next(self.order), node))

    def split(self) -> Iterator[Tensor]:
        """The forbidden labels of each child of the best node."""
        self.opened += 1
        return _split(heapq.heappop(self.queue)[2], self.labels)

    def has_ended(self) -> bool:
        is_exact = not self.queue or self.queue[0][2].broken is None
        return is_exact or self.opened >= _MOST_NODES


def best_structured(
    log_probs: Tensor,
    padding_mask: Tensor,
    labels: Sequence[str],
    predicates: Sequence[int] | None = None,
) -> Tensor:
    """The best paths under the BIO (``strict``) and the structural constraints.

    A sentence that needs more than a fixed number of nodes gets the best valid path found until
    then, or, if there is none, the best path under the BIO constraints alone; so does one of more
    than 300 words at once.

    Args:
        log_probs: ``(B, T, C)``.
        padding_mask: bool ``(B, T)``, True = padding, on the right.
        labels: the C tags.
        predicates: of each sentence its position, where only V is allowed. Without it, an argument
            over the predicate is split afterwards, and its role is there twice.

    Returns:
        labels ``(B, T)``, 0 at padding.
    """
    check_padding_mask(padding_mask, log_probs.shape[:2])
    device, log_probs, padding_mask = log_probs.device, log_probs.cpu(), padding_mask.cpu()
    verb = torch.tensor([tag[2:] == VERB for tag in labels])
    if predicates is not None and verb.any():
        at = torch.arange(len(predicates)), torch.tensor(predicates)
        log_probs = log_probs.index_put(at, log_probs[at].masked_fill(~verb, -torch.inf))
    constraints = bio_constraints(labels, "strict")
    lengths = (~padding_mask).sum(1).tolist()
    best, scores = viterbi(log_probs, padding_mask, constraints)
    searches: dict[int, _Search] = {}
    for row, (length, score) in enumerate(zip(lengths, scores.tolist(), strict=True)):
        path = best[row, :length].tolist()
        is_searched = length <= _LONGEST_SEARCHED and score > -torch.inf
        if is_searched and _first_violation(path, labels) is not None:
            searches[row] = _Search(labels)
            forbidden = torch.zeros(length, len(labels), dtype=torch.bool)
            searches[row].add(forbidden, path, score)
    while searches:
        children = [
            (row, forbidden) for row, search in searches.items() for forbidden in search.split()
        ]
        for row, forbidden, path, score in _solve(children, log_probs, constraints):
            searches[row].add(forbidden, path, score)
        for row in [row for row, search in searches.items() if search.has_ended()]:
            found = searches.pop(row).path
            if found is not None:
                best[row, : len(found)] = torch.tensor(found)
    return best.to(device)


def _first_violation(path: Sequence[int], labels: Sequence[str]) -> Violation | None:
    return next(violations(from_bio([labels[i] for i in path], repair=True)), None)


def _split(node: _Node, labels: Sequence[str]) -> Iterator[Tensor]:
    """The forbidden labels of each child."""
    assert node.broken is not None
    kind, label, first, second = node.broken
    opens = labels.index(f"B-{label}") if f"B-{label}" in labels else None
    if kind == "unique":
        # The one span of this role opens either at `first` or before it, or after it.
        for words in (slice(first + 1, None), slice(None, first + 1)):
            child = node.forbidden.clone()
            child[words, opens] = True
            yield child
        return
    prefix, before = ("C", second) if kind == "continuation" else ("R", len(node.path))
    words = slice(None, second + 1) if kind == "continuation" else slice(None)
    child = node.forbidden.clone()
    child[words, labels.index(f"B-{prefix}-{label}")] = True  # either there is no X ...
    if opens is not None:
        child[:before, opens] = True
    yield child
    if opens is None:
        return
    for word in range(before):  # ... or one opens, the first at this word
        child = node.forbidden.clone()
        child[:word, opens] = True
        child[word] = True
        child[word, opens] = node.forbidden[word, opens]
        yield child


def _solve(
    children: list[tuple[int, Tensor]], log_probs: Tensor, constraints: Constraints
) -> Iterator[tuple[int, Tensor, list[int], float]]:
    """Viterbi over all children, some hundred at once."""
    for at in range(0, len(children), _ROWS_AT_ONCE):
        part = children[at : at + _ROWS_AT_ONCE]
        lengths = torch.tensor([len(forbidden) for _, forbidden in part])
        longest = int(lengths.max())
        padding = torch.arange(longest) >= lengths[:, None]
        scores = log_probs[[row for row, _ in part], :longest].clone()
        for values, (_, forbidden) in zip(scores, part, strict=True):
            values[: len(forbidden)].masked_fill_(forbidden, -torch.inf)
        paths, totals = viterbi(scores, padding, constraints)
        for (row, forbidden), path, total in zip(
            part, paths.tolist(), totals.tolist(), strict=True
        ):
            yield row, forbidden, path[: len(forbidden)], total
