"""How probable the spans are that a decoder found, over all label sequences that it may give.

The labels of a sentence form a chain: the network's probability of each label at each word, times 1
or 0 for each pair of neighbours that the decoder's constraints allow or forbid, divided by the sum
over all sequences. A forward and a backward pass (``srl.chain``) give its marginals exactly.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from selfattn.masks import check_padding_mask

from ..chain import backward, forward
from ..decode import Constraints, bio_constraints
from ..formats.bio import OUTSIDE
from ..propositions import Proposition, Span
from ..tags import WORD_BY_WORD

Array = NDArray[np.float64]


def constraints_of(labels: Sequence[str], decoder: str) -> Constraints:
    """The constraints between neighbours under which a decoder searches.

    Args:
        labels: the C tags.
        decoder: one of ``tags.DECODERS``.

    Differs:
        ``structured`` also forbids, for example, two spans of one core role. Sequences that
        violate such a constraint count here, so that its answers have those of ``strict``.
    """
    if decoder in WORD_BY_WORD:
        count = len(labels)
        return Constraints(torch.ones(count).bool(), torch.ones(count, count).bool())
    return bio_constraints(labels, "strict" if decoder == "structured" else decoder)


def with_confidence(
    propositions: Sequence[Proposition],
    log_probs: Tensor,
    padding_mask: Tensor,
    labels: Sequence[str],
    decoder: str = "argmax",
    temperature: float = 1.0,
) -> list[Proposition]:
    """Add to decoded propositions, and to each of their spans, how probable they are.

    A span's confidence is the summed probability of all allowed label sequences with this span, an
    ``I-`` that continues nothing read as by the decoder; a proposition's, of those with exactly
    these spans, ``V`` included.

    Differs:
        Guo et al. (2017), section 4.2, divide the scores of one classifier by a temperature. Here
        it is for spans alone: propositions, products of many words, are calibrated without one,
        and may come out surer than one of their spans.

    Args:
        propositions: one for each row of ``log_probs``.
        log_probs: ``(B, T, C)``.
        padding_mask: bool ``(B, T)``, True = padding, on the right.
        labels: the C tags.
        decoder: what decoded them, one of ``tags.DECODERS``.
        temperature: what the scores are divided by for the spans.
    """
    check_padding_mask(padding_mask, log_probs.shape[:2])
    if not propositions:
        return []
    log_probs, padding_mask = log_probs.detach().cpu().double(), padding_mask.cpu()
    constraints = constraints_of(labels, decoder)
    reading = _Reading(tuple(labels), decoder == "published", constraints)
    total = forward(log_probs, padding_mask, constraints)[:, -1].logsumexp(1)
    forbidden = torch.from_numpy(
        np.stack([reading.forbidden(p.spans, log_probs.shape[1]) for p in propositions])
    )
    exactly = forward(log_probs.masked_fill(forbidden, -torch.inf), padding_mask, constraints)
    whole = (exactly[:, -1].logsumexp(1) - total).exp().tolist()
    soft = (log_probs / temperature).log_softmax(-1)
    before = forward(soft, padding_mask, constraints)
    after = backward(soft, padding_mask, constraints)
    total = before[:, -1].logsumexp(1)
    lengths = (~padding_mask).sum(1).tolist()
    found = []
    for row, proposition in enumerate(propositions):
        length = lengths[row]
        chain = [x[row, :length].numpy() for x in (soft, before, after)]
        masses = [reading.mass(span, *chain) - float(total[row]) for span in proposition.spans]
        spans = tuple(
            replace(span, confidence=float(min(1.0, np.exp(mass))))
            for span, mass in zip(proposition.spans, masses, strict=True)
        )
        found.append(replace(proposition, spans=spans, confidence=min(1.0, whole[row])))
    return found


@dataclass(frozen=True)
class _Reading:
    """Which label sequences a decoder reads as having a span.

    An ``I-X`` continues an X before it, and opens a span otherwise. As ``published``, it continues
    any span and opens one only after ``O``.
    """

    labels: tuple[str, ...]
    published: bool
    constraints: Constraints

    def tags(self, *wanted: str) -> NDArray[np.bool_]:
        return np.array([tag in wanted for tag in self.labels])

    def inside(self, label: str) -> NDArray[np.bool_]:
        """The tags that continue a span of ``label``."""
        if self.published:
            return np.array([tag.startswith("I-") for tag in self.labels])
        return self.tags(f"I-{label}")

    def forbidden(self, spans: Sequence[Span], length: int) -> NDArray[np.bool_]:
        """``(length, C)``: False where a label fits the spans; the words after them are ``O``."""
        allowed = np.tile(self.tags(OUTSIDE), (length, 1))
        ended = {span.end + 1: span.label for span in spans}
        for span in spans:
            before = ended.get(span.start)  # the label of the span that ends at the word before
            continues = before is not None and (self.published or before == span.label)
            opening = "B" if continues else "BI"
            allowed[span.start] = self.tags(*(f"{kind}-{span.label}" for kind in opening))
            allowed[span.start + 1 : span.end + 1] = self.inside(span.label)
        return ~allowed

    def mass(self, span: Span, log_probs: Array, before: Array, after: Array) -> float:
        """The logarithm of the summed probabilities of the sequences with ``span``.

        All arrays are ``(T, C)`` without padding, and ``before`` and ``after`` those of
        :func:`forward` and :func:`backward`.
        """
        first, last, inside = span.start, span.end, self.inside(span.label)
        begin, go_on = self.tags(f"B-{span.label}"), self.tags(f"I-{span.label}")
        same = begin | go_on
        allowed = self.constraints.allowed.numpy()
        if first:  # an I-X opens the span where no X is before it
            free = (self.tags(OUTSIDE) if self.published else ~same) & allowed[:, go_on].all(1)
            entry = np.logaddexp.reduce(before[first - 1, free])
        else:
            entry = np.where(self.constraints.start.numpy()[go_on], 0.0, -np.inf)
        opened = np.append(before[first, begin], entry + log_probs[first, go_on])
        total = np.logaddexp.reduce(opened)
        total += np.logaddexp.reduce(log_probs[first + 1 : last + 1, inside], axis=1).sum()
        if last + 1 < len(log_probs):
            follows = allowed[same].any(0) & ~inside
            total += np.logaddexp.reduce(log_probs[last + 1, follows] + after[last + 1, follows])
        return float(total)
