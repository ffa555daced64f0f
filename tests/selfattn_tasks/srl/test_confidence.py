"""Confidences against a sum over all label sequences, and how well they are calibrated."""

import itertools
import json
import math

import pytest
import torch

from selfattn.errors import UserError
from selfattn_tasks.srl.decode import decode
from selfattn_tasks.srl.formats.bio import from_bio, joined
from selfattn_tasks.srl.propositions import Proposition, Sentence, Span
from selfattn_tasks.srl.tagger.confidence import with_confidence
from selfattn_tasks.srl.tagger.reliability import judged, reliability
from selfattn_tasks.srl.tagger.show import as_json
from selfattn_tasks.srl.tags import DECODERS, proposition_of
from tests.selfattn_tasks.srl.test_decode import allowed

LABELS = ("O", "B-A0", "I-A0", "B-A1", "I-A1", "B-V")


def spans_of(path, how):
    return from_bio(joined(path) if how == "published" else path, repair=True)


def chain(how):
    """The rules of neighbours that a decoder obeys; ``structured`` has others on top."""
    return {"published": "argmax", "structured": "strict"}.get(how, how)


@pytest.mark.parametrize("how", DECODERS)
def test_confidences_are_sums_over_all_sequences(how):
    generator = torch.Generator().manual_seed(3)
    for _ in range(4):
        lengths = torch.randint(1, 6, (5,), generator=generator)
        scores = 2 * torch.randn(5, int(lengths.max()), len(LABELS), generator=generator)
        log_probs = scores.log_softmax(-1)
        padding = torch.arange(log_probs.shape[1]) >= lengths[:, None]
        tags = decode(log_probs, padding, LABELS, how)
        given = [proposition_of(row, 0, decoder=how) for row in tags]
        found = with_confidence(given, log_probs, padding, LABELS, how)
        for row, length, proposition in zip(log_probs, lengths.tolist(), found, strict=True):
            masses: dict[tuple[Span, ...], float] = {}
            for path in itertools.product(LABELS, repeat=length):
                if allowed(path, chain(how)):
                    spans = spans_of(path, how)
                    logs = [row[t, LABELS.index(tag)].item() for t, tag in enumerate(path)]
                    masses[spans] = masses.get(spans, 0.0) + math.exp(sum(logs))
            total = sum(masses.values())
            whole = masses.get(proposition.spans, 0.0) / total
            assert proposition.confidence == pytest.approx(whole, rel=1e-5, abs=1e-12)
            for span in proposition.spans:
                mass = sum(m for spans, m in masses.items() if span in spans)
                assert span.confidence == pytest.approx(mass / total, rel=1e-5, abs=1e-12)


def test_any_span_has_a_confidence():
    """Not only decoded ones: of all spans over a word, with O, one must be there."""
    log_probs = torch.randn(1, 4, len(LABELS)).log_softmax(-1)
    padding = torch.zeros(1, 4, dtype=torch.bool)
    spans = [Span(name, i, j) for name in ("A0", "A1", "V") for i in range(4) for j in range(i, 4)]
    each = [Proposition(0, "", (span,)) for span in spans]
    rows = log_probs.expand(len(each), -1, -1), padding.expand(len(each), -1)
    found = with_confidence(each, *rows, LABELS, "strict")
    covering = [p.spans[0].confidence for p in found if p.spans[0].start <= 2 <= p.spans[0].end]
    outside = Proposition(0, "", ())
    paths = [path for path in itertools.product(LABELS, repeat=4) if allowed(path, "strict")]
    mass = {path: math.exp(sum(log_probs[0, t, LABELS.index(tag)] for t, tag in enumerate(path)))
            for path in paths}  # fmt: skip
    empty = sum(m for path, m in mass.items() if path[2] == "O") / sum(mass.values())
    assert sum(covering) + empty == pytest.approx(1, abs=1e-6)
    (alone,) = with_confidence([outside], log_probs, padding, LABELS, "strict")
    assert alone.confidence == pytest.approx(mass[("O",) * 4] / sum(mass.values()), rel=1e-5)


def test_a_temperature_is_for_spans_alone():
    log_probs = (3 * torch.randn(1, 4, len(LABELS)).double()).log_softmax(-1)
    padding = torch.zeros(1, 4, dtype=torch.bool)
    given = [proposition_of(decode(log_probs, padding, LABELS, "strict")[0], 0, decoder="strict")]
    (plain,) = with_confidence(given, log_probs, padding, LABELS, "strict")
    (soft,) = with_confidence(given, log_probs, padding, LABELS, "strict", 1.7)
    scores = (log_probs / 1.7).log_softmax(-1)
    (expected,) = with_confidence(given, scores, padding, LABELS, "strict")
    assert soft.confidence == plain.confidence != expected.confidence
    for span, own in zip(soft.spans, expected.spans, strict=True):
        assert span.confidence == pytest.approx(own.confidence, rel=1e-9)


def test_padding_and_certainty_change_nothing():
    """A batch mate's length, and labels whose probability is 0 in half precision."""
    log_probs = (60 * torch.randn(1, 3, len(LABELS))).log_softmax(-1)
    no_padding = torch.zeros(1, 3, dtype=torch.bool)
    tags = decode(log_probs, no_padding, LABELS, "strict")[0]
    given = [proposition_of(tags, 0, decoder="strict")]
    (alone,) = with_confidence(given, log_probs, no_padding, LABELS, "strict")
    more = torch.cat([log_probs, torch.full((1, 900, len(LABELS)), -1.8)], 1)
    padding = torch.arange(903)[None] >= 3
    (mate,) = with_confidence(given, more, padding, LABELS, "strict")
    assert alone.confidence == pytest.approx(mate.confidence, rel=1e-12)
    assert 0 <= alone.confidence <= 1
    unknown = [Proposition(0, "", (Span("A9", 0, 1),))]
    (never,) = with_confidence(unknown, log_probs, no_padding, LABELS, "strict")
    assert never.confidence == never.spans[0].confidence == 0
    assert with_confidence([], log_probs[:0], no_padding[:0], LABELS) == []


def test_json_has_confidences_if_they_were_computed():
    spans = (Span("V", 0, 0), Span("A0", 1, 1, confidence=0.25))
    plain, sure = Proposition(0, "", spans[:1]), Proposition(0, "", spans, confidence=0.5)
    assert sure == Proposition(0, "", (spans[0], Span("A0", 1, 1)))
    first, second = json.loads(as_json(Sentence(("go", "we"), (plain, sure))))["propositions"]
    assert "confidence" not in first and "confidence" not in first["spans"][0]
    assert second["confidence"] == 0.5 and second["spans"][1]["confidence"] == 0.25


def test_reliability():
    answers = [(0.0, False), (0.1, True), (0.15, False), (0.95, True), (1.0, True), (1.0, False)]
    found = reliability(answers, bins=10)
    assert [each.number if each else 0 for each in found.bins] == [2, 1, *[0] * 7, 3]
    assert found.bins[0].confidence == pytest.approx(0.05) and found.bins[0].accuracy == 0.5
    expected = (2 * 0.45 + 1 * 0.15 + 3 * (2.95 / 3 - 2 / 3)) / 6
    assert found.error == pytest.approx(expected)
    assert str(found).splitlines()[1].split() == ["0.00", "-", "0.10", "2", "0.050", "0.500"]
    assert f"{expected:.4f} of 6 answers" in str(found)
    assert reliability([]).error == 0
    for wrong in ([(1.01, True)], [(math.nan, True)]):
        with pytest.raises(UserError, match="confidence"):
            reliability(wrong)
    with pytest.raises(UserError, match="bins"):
        reliability(answers, bins=0)


def test_answers_are_judged_by_gold():
    gold = Proposition(0, "go", (Span("V", 0, 0), Span("A0", 1, 1)))
    right = Proposition(0, "", (Span("V", 0, 0, 0.9), Span("A0", 1, 1, 0.8)), 0.7)
    other = Proposition(1, "", (Span("A0", 0, 0, 0.6), Span("V", 1, 1, 0.9)), 0.5)
    words = ("go", "we")
    found = judged([Sentence(words, (gold,))], [Sentence(words, (right, other))])
    assert found == ([(0.8, True), (0.6, False)], [(0.7, True), (0.5, False)])
    # A predicate that gold does not have is wrong even without a span.
    nothing = Proposition(1, "", (), 0.4)
    assert judged([Sentence(words, (gold,))], [Sentence(words, (nothing,))]) == ([], [(0.4, False)])
    with pytest.raises(UserError, match="no confidence"):
        judged([Sentence(words, (gold,))], [Sentence(words, (gold,))])
