"""Decoders against a search over all paths."""

import itertools
import re

import pytest
import torch

from selfattn.errors import UserError
from selfattn_tasks.srl.decode import bio_constraints, decode
from selfattn_tasks.srl.decode_structure import count_violations, violations
from selfattn_tasks.srl.formats.bio import from_bio, joined
from selfattn_tasks.srl.propositions import Span
from selfattn_tasks.srl.tags import proposition_of

LABELS = ("O", "B-A0", "I-A0", "B-C-A0", "B-R-A0", "B-V")


def unbroken(tags: tuple[str, ...]) -> bool:
    """The structural constraints, written down once more."""
    roles = [tag[2:] for tag in tags if tag.startswith("B-")]
    unique = roles.count("A0") <= 1
    continuation = "C-A0" not in roles or "A0" in roles[: roles.index("C-A0")]
    reference = "R-A0" not in roles or "A0" in roles
    return unique and continuation and reference


def allowed(tags: tuple[str, ...], how: str) -> bool:
    """The constraints of a decoder, tag by tag."""
    for before, tag in zip((None, *tags), tags, strict=False):
        if not tag.startswith("I-") or how == "argmax":
            continue
        if before is None:
            if how in ("strict", "structured"):
                return False
        elif before == "O":
            if how != "tan":
                return False
        elif before[2:] != tag[2:]:
            return False
    return how != "structured" or unbroken(tags)


@pytest.mark.parametrize("how", ["argmax", "tan", "he", "strict", "structured"])
def test_the_best_path_is_found(how):
    generator = torch.Generator().manual_seed(7)
    for _ in range(6):
        lengths = torch.randint(1, 6, (4,), generator=generator)
        scores = 2 * torch.randn(4, int(lengths.max()), len(LABELS), generator=generator)
        log_probs = scores.log_softmax(-1)
        padding = torch.arange(log_probs.shape[1]) >= lengths[:, None]
        found = decode(log_probs, padding, LABELS, how)
        for row, tags, length in zip(log_probs.tolist(), found, lengths.tolist(), strict=True):
            paths = itertools.product(LABELS, repeat=length)

            def total(path: tuple[str, ...], row: list[list[float]] = row) -> float:
                return sum(word[LABELS.index(tag)] for word, tag in zip(row, path, strict=False))

            best = max(total(path) for path in paths if allowed(path, how))
            assert len(tags) == length
            assert allowed(tuple(tags), how)
            assert total(tuple(tags)) == pytest.approx(best, abs=1e-5)


def test_the_published_variants_differ_where_an_argument_opens():
    labels = ("O", "B-A0", "I-A0", "B-A1", "I-A1")
    after = {how: bio_constraints(labels, how) for how in ("tan", "he", "strict")}
    inside = labels.index("I-A0")
    assert [bool(after[how].allowed[0, inside]) for how in after] == [True, False, False]
    assert [bool(after[how].start[inside]) for how in after] == [True, True, False]
    for how in after:  # I-A0 after O, B-A0, I-A0, B-A1, I-A1
        assert after[how].allowed[1:, inside].tolist() == [True, True, False, False]
        assert after[how].allowed[:, 1].all()


def by_pattern(tags: tuple[str, ...]) -> list[Span]:
    """The published post-processing as a pattern: a first tag that is not O, then I tags."""
    kinds = "".join(tag[0] for tag in tags)
    return [
        Span(tags[found.start()][2:], found.start(), found.end() - 1)
        for found in re.finditer("[BI]I*", kinds)
    ]


def test_the_published_rule_on_all_short_sentences():
    labels = ("O", "B-A0", "I-A0", "B-V", "I-V", "I-C-A0")
    seen = 0
    for length in range(1, 6):
        for tags in itertools.product(labels, repeat=length):
            made = joined(tags)
            assert list(from_bio(made)) == by_pattern(tags)  # well-formed: nothing to repair
            assert joined(made) == made
            try:
                sound = from_bio(tags)
            except UserError:
                seen += 1
            else:
                assert from_bio(made) == sound
    assert seen > 1000


def test_the_published_decoder_is_argmax_and_that_rule():
    generator = torch.Generator().manual_seed(3)
    log_probs = torch.randn(8, 9, len(LABELS), generator=generator).log_softmax(-1)
    padding = torch.arange(9) >= torch.randint(1, 10, (8,), generator=generator)[:, None]
    plain = decode(log_probs, padding, LABELS, "argmax")
    found = decode(log_probs, padding, LABELS, "published")
    assert found == [joined(tags) for tags in plain] != plain
    for tags in plain:
        made = proposition_of(joined(tags), 0, "go", decoder="published")
        # The predicate's tag is no exception: its word stays in the span that the tags say.
        assert list(made.spans) == by_pattern(tuple(tags))


def test_labels_that_look_like_prefixes():
    """A role named R or C is no reference and no continuation of anything."""
    labels = ("O", "B-R", "B-C", "I-C", "B-C-", "B-R-A0", "B-A0", "B-V")
    generator = torch.Generator().manual_seed(5)
    log_probs = torch.randn(20, 5, len(labels), generator=generator).log_softmax(-1)
    found = decode(log_probs, torch.zeros(20, 5, dtype=torch.bool), labels, "structured")
    assert {"B-R", "B-C", "B-C-"} <= {tag for tags in found for tag in tags}
    assert not list(violations([Span("R", 0, 0), Span("C", 1, 1), Span("C-", 2, 2)]))
    assert not any("B-R-A0" in tags and "B-A0" not in tags for tags in found)


def test_violations_are_counted():
    spans = [
        (Span("A0", 0, 0), Span("V", 1, 1), Span("A0", 2, 2), Span("AM-TMP", 3, 3)),
        (Span("C-A1", 0, 0), Span("A1", 1, 1), Span("R-A0", 2, 2), Span("R-A1", 3, 3)),
        (Span("AM-TMP", 0, 0), Span("AM-TMP", 1, 1), Span("V", 2, 2), Span("C-V", 3, 3)),
    ]
    assert dict(count_violations(spans)) == {"unique": 1, "continuation": 1, "reference": 1}
    assert not list(violations(spans[2]))


def test_a_predicate_is_v_whatever_its_tag():
    made = proposition_of(["B-V", "I-A0", "B-A0", "I-A0", "I-V"], 2, "go")
    assert made.spans == (Span("A0", 1, 1), Span("V", 2, 2), Span("A0", 3, 3))
    made = proposition_of(["B-A0", "B-V", "I-V", "O"], 1)
    assert made.spans == (Span("A0", 0, 0), Span("V", 1, 2))


def test_structured_keeps_its_constraints_beside_the_predicate():
    """An argument over it would be split, and its role be there twice."""
    labels = ("O", "B-A0", "I-A0", "B-A1", "I-A1", "B-R-A1", "B-C-A0", "B-V")
    generator = torch.Generator().manual_seed(3)
    log_probs = torch.randn(200, 6, len(labels), generator=generator).log_softmax(-1)
    broken = []
    for predicates in (None, [row % 6 for row in range(200)]):
        found = decode(log_probs, torch.zeros(200, 6).bool(), labels, "structured", predicates)
        made = [proposition_of(tags, row % 6).spans for row, tags in enumerate(found)]
        broken.append(count_violations(made))
    assert broken[0]["unique"] and not broken[1]


def test_a_sentence_without_an_allowed_path_ends_the_search():
    impossible, padding = torch.full((1, 3, 2), -torch.inf), torch.zeros(1, 3, dtype=torch.bool)
    found = [decode(impossible, padding, ("B-A0", "O"), how) for how in ("structured", "strict")]
    assert found[0] == found[1]


def test_unknown_decoder():
    with pytest.raises(UserError, match="'beam' is unknown; allowed are argmax, published, tan"):
        decode(
            torch.zeros(1, 2, 3), torch.zeros(1, 2, dtype=torch.bool), ("O", "B-V", "I-V"), "beam"
        )
    with pytest.raises(UserError, match="'iob' are unknown"):
        bio_constraints(LABELS, "iob")


@pytest.mark.parametrize("how", ["he", "strict"])
def test_a_span_never_goes_on_as_another_whose_beginning_is_no_label(how):
    labels = ("O", "B-A0", "I-A0", "I-A1")
    scores = torch.randn(30, 4, 4, generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    for tags in decode(scores, torch.zeros(30, 4).bool(), labels, how):
        for before, tag in itertools.pairwise(tags):
            assert not tag.startswith("I-") or before[2:] == tag[2:]


def test_a_role_is_unique_in_long_sentences_too():
    labels = ("O", "B-A0", "I-A0")
    scores = torch.randn(2, 40, 3, generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    for tags in decode(scores, torch.zeros(2, 40).bool(), labels, "structured"):
        assert tags.count("B-A0") <= 1


@pytest.mark.parametrize("label", ["A0", "A5", "AA", "ARG0", "ARG5", "ARGA"])
def test_core_roles_are_unique(label):
    assert [kind for kind, *_ in violations([Span(label, 2, 2), Span(label, 0, 0)])] == ["unique"]


def test_a_predicate_of_two_words_and_a_part_that_continues_it():
    assert proposition_of(["B-V", "I-V"], 1).spans == (Span("V", 0, 1),)
    assert proposition_of(["B-V", "B-C-V"], 1).spans[-1].label == "C-V"
