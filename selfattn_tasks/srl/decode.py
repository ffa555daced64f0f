"""From label scores to BIO tags: argmax, its published repair, Viterbi under BIO constraints."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from selfattn.errors import UserError, check_choice
from selfattn.masks import check_padding_mask

from .formats.bio import OUTSIDE, joined
from .propositions import Proposition
from .tags import DECODERS, WORD_BY_WORD, proposition_of


@dataclass(frozen=True)
class Constraints:
    """Which labels may follow each other.

    Args:
        start: bool ``(C,)``, labels that may open a sentence.
        allowed: bool ``(C, C)``, [before, after].
    """

    start: Tensor
    allowed: Tensor


def bio_constraints(labels: Sequence[str], kind: str) -> Constraints:
    """The constraints of a published decoder.

    * ``tan`` (code of Tan et al. 2018): ``I-X`` may not follow ``B-Y`` or ``I-Y`` with Y != X; it
      may follow ``O`` and open a sentence.
    * ``he`` (code of He et al. 2017): ``I-X`` follows ``B-X`` or ``I-X`` only; it may open a
      sentence.
    * ``strict``: as ``he``, and ``I-X`` may not open a sentence.

    Args:
        labels: the C tags.
        kind: ``tan``, ``he`` or ``strict``.

    Differs:
        Tan et al. add probabilities along a path; here, as in He et al., log-probabilities.

    Raises:
        UserError: for another name.
    """
    if kind not in ("tan", "he", "strict"):
        raise UserError(f"constraints {kind!r} are unknown; allowed are tan, he, strict")
    names = [tag[2:] for tag in labels]
    name = torch.tensor([names.index(own) for own in names])
    inside = torch.tensor([tag.startswith("I-") for tag in labels])
    outside = torch.tensor([tag == OUTSIDE for tag in labels])[:, None]
    start = ~inside | (kind != "strict")
    allowed = ~inside | ((name[:, None] == name) & ~outside)  # (C, C)
    if kind == "tan":
        allowed |= outside
    return Constraints(start, allowed)


def sparse(allowed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The columns of a bool ``(C, C)`` that are not all True, by the rows that are True there.

    Returns:
        which columns these are ``(K,)``; up to W rows of each ``(K, W)``; bool ``(K, W)``, True
        where a column has fewer.
    """
    counts = allowed.sum(0)
    bound = torch.nonzero(counts < len(allowed)).flatten()
    width = max(counts[bound].tolist(), default=0)
    found, order = allowed[:, bound].int().sort(dim=0, descending=True, stable=True)
    return bound, order[:width].T, found[:width].T == 0


def _best_step(allowed: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Make the maximisation step of Viterbi, which costs O(C) rather than O(C^2).

    Labels that may follow any other share one maximum; an ``I-X`` has two or three predecessors.

    Returns:
        a function ``(B, C) -> (B, C), (B, C)``: each label's best predecessor's score, and which
        one it is.
    """
    bound, before, missing = sparse(allowed)

    def step(score: Tensor) -> tuple[Tensor, Tensor]:
        best, which = score.max(1, keepdim=True)
        best, which = best.expand_as(score).clone(), which.expand_as(score).clone()
        if len(bound):
            options = score[:, before].masked_fill(missing, -torch.inf)
            best[:, bound], choice = options.max(-1)
            which[:, bound] = before[torch.arange(len(bound), device=choice.device), choice]
        return best, which

    return step


def viterbi(
    log_probs: Tensor, padding_mask: Tensor, constraints: Constraints
) -> tuple[Tensor, Tensor]:
    """The best path of each sentence of a batch.

    Args:
        log_probs: ``(B, T, C)``; -inf forbids a label at a word.
        padding_mask: bool ``(B, T)``, True = padding, on the right.
        constraints: which labels may follow each other.

    Returns:
        labels ``(B, T)``, 0 at padding, and log-probabilities of the paths ``(B,)``.
    """
    check_padding_mask(padding_mask, log_probs.shape[:2])
    step = _best_step(constraints.allowed.to(log_probs.device))
    score = log_probs[:, 0].masked_fill(~constraints.start.to(log_probs.device), -torch.inf)
    stay = torch.arange(score.shape[1], device=score.device).expand_as(score)
    pointers = []
    for t in range(1, log_probs.shape[1]):
        best, which = step(score)
        ended = padding_mask[:, t, None]
        score = torch.where(ended, score, best + log_probs[:, t])
        pointers.append(torch.where(ended, stay, which))
    total, label = score.max(1)
    path = [label]
    for pointer in reversed(pointers):
        label = pointer.gather(1, label[:, None])[:, 0]
        path.append(label)
    return torch.stack(path[::-1], 1).masked_fill(padding_mask, 0), total


def decode(
    log_probs: Tensor,
    padding_mask: Tensor,
    labels: Sequence[str],
    how: str = "argmax",
    predicates: Sequence[int] | None = None,
) -> list[list[str]]:
    """BIO tags of a batch of sentences.

    Args:
        log_probs: ``(B, T, C)``.
        padding_mask: bool ``(B, T)``, True = padding, on the right.
        labels: the C tags.
        how: ``argmax``; ``published``, argmax and then ``bio.joined``; ``tan``, ``he`` or
            ``strict`` for Viterbi (see ``bio_constraints``); ``structured`` for the constraints of
            He et al. 2017 (see ``decode_structure``).
        predicates: of each sentence its position, for ``structured``.

    Returns:
        the tags of each sentence, without padding.

    Raises:
        UserError: if ``how`` is unknown.
    """
    check_choice("decoder", how, DECODERS)
    check_padding_mask(padding_mask, log_probs.shape[:2])
    if how in WORD_BY_WORD:
        best = log_probs.argmax(-1)
    elif how == "structured":
        from .decode_structure import best_structured

        best = best_structured(log_probs, padding_mask, labels, predicates)
    else:
        best = viterbi(log_probs, padding_mask, bio_constraints(labels, how))[0]
    lengths = (~padding_mask).sum(1).tolist()
    tags = [
        [labels[i] for i in row[:length]]
        for row, length in zip(best.tolist(), lengths, strict=True)
    ]
    return [joined(row) for row in tags] if how == "published" else tags


def decode_propositions(
    asked: Sequence[Proposition],
    log_probs: Tensor,
    padding_mask: Tensor,
    labels: Sequence[str],
    how: str,
) -> list[Proposition]:
    """Propositions with the spans that a decoder finds for their predicates.

    Args:
        asked: one for each sentence, of which only the predicate and its lemma are used.
        log_probs: as for :func:`decode`.
        padding_mask: the same.
        labels: the same.
        how: the same.
    """
    tags = decode(log_probs, padding_mask, labels, how, [p.predicate for p in asked])
    return [
        proposition_of(found, p.predicate, p.lemma, decoder=how)
        for found, p in zip(tags, asked, strict=True)
    ]
