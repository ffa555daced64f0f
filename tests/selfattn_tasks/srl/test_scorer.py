"""The scorer on cases counted by hand, and what it refuses."""

from pathlib import Path

import pytest

from selfattn.errors import UserError
from selfattn_tasks.registry import TASKS
from selfattn_tasks.srl import Proposition, Sentence, Span
from selfattn_tasks.srl.formats.brackets import parse_brackets
from selfattn_tasks.srl.metrics import tag_f1
from selfattn_tasks.srl.scorer import Counts, charged, count_predicates, score

WORDS = ("we", "pour", "hot", "tea", "slowly")


def sentence(column, predicate=1, lemma="pour"):
    return Sentence(WORDS, (Proposition(predicate, lemma, parse_brackets(column.split())),))


GOLD = sentence("(A0*) (V*) (A1* *) (AM-MNR*)")


def counts(result, label):
    return (result.labels[label].correct, result.labels[label].excess, result.labels[label].missed)


def test_totals_leave_v_out():
    result = score([GOLD], [sentence("(A0*) (A2*) (A1* *) *")])
    assert (result.overall.correct, result.overall.excess, result.overall.missed) == (2, 1, 1)
    assert counts(result, "V") == (0, 0, 1)
    assert counts(result, "A2") == (0, 1, 0)
    assert result.overall.precision == result.overall.recall == pytest.approx(200 / 3)
    assert (result.propositions, result.perfect_props) == (1, 0)
    # The extents agree but for the manner; that A2 stands where V should is counted nowhere.
    assert (result.unlabelled.correct, result.unlabelled.missed) == (2, 1)
    assert result.label_accuracy == 100


def test_a_wrong_v_leaves_a_proposition_perfect():
    result = score([GOLD], [sentence("(A0*) * (A1* *) (AM-MNR*)")])
    assert result.perfect_props == 1
    assert result.overall.f1 == 100
    assert counts(result, "V") == (0, 0, 1)


def test_continuations_join_the_latest_head():
    gold = sentence("(A1*) (V*) * (C-A1*) *")
    assert score([gold], [gold]).overall == Counts(1, 0, 0)
    # Two separate arguments are not one in two pieces.
    assert score([gold], [sentence("(A1*) (V*) * (A1*) *")]).overall == Counts(0, 2, 1)
    # Without a head the piece is an argument.
    orphan = sentence("* (V*) * (C-A1*) *")
    assert score([orphan], [sentence("* (V*) * (A1*) *")]).overall == Counts(1, 0, 0)
    # C-V belongs to V, outside the totals.
    particle = sentence("(A0*) (V*) (A1*) (C-V*) *")
    result = score([particle], [sentence("(A0*) (V*) (A1*) * *")])
    assert result.overall == Counts(2, 0, 0) and counts(result, "V") == (0, 1, 1)


def test_predicates_of_one_side_only():
    extra = Proposition(3, "tea", (Span("A0", 0, 0), Span("V", 3, 3)))
    result = score([GOLD], [Sentence(WORDS, (*GOLD.propositions, extra))])
    assert result.overall == Counts(3, 0, 0) and result.spurious == 1
    result = score([GOLD], [Sentence(WORDS)])
    assert result.overall == Counts(0, 0, 3) and result.absent == 1
    other = sentence("(A0*) (V*) (A1* *) (AM-MNR*)", lemma="spill")
    assert score([GOLD], [other]).overall == Counts(0, 0, 3)
    # A file without lemmas is not punished for it.
    assert score([GOLD], [sentence("(A0*) (V*) (A1* *) (AM-MNR*)", lemma="")]).overall.f1 == 100
    assert score([GOLD], [other], lemmas=False).overall.f1 == 100


def test_predicates_that_a_system_found():
    """Found, spurious and missed ones; only those of ``charged`` pay for what is spurious."""
    extra = Proposition(3, "tea", (Span("A0", 0, 0), Span("V", 3, 3)))
    both = Sentence(WORDS, (*GOLD.propositions, extra))
    bare = Sentence(WORDS)
    gold, predicted = [GOLD, GOLD, bare], [both, bare, both]
    assert count_predicates(gold, predicted) == Counts(1, 3, 1)
    assert score(gold, predicted, lemmas=False).overall == Counts(3, 0, 3)
    # In the third sentence also the three arguments of the first proposition.
    assert charged(gold, predicted) == Counts(3, 5, 3)
    assert charged(gold, gold) == score(gold, gold).overall


def test_gold_roles_in_the_place_of_predicted_ones_get_a_warning():
    said = TASKS["srl"].output_warnings("x", Path("x"), [GOLD], [GOLD], False)
    assert said == ["x: the predicted roles are the gold roles themselves"]
    other = sentence("(A1*) (V*) (A1* *) (AM-MNR*)")
    assert not TASKS["srl"].output_warnings("x", Path("x"), [other], [GOLD], False)


def test_nothing_to_find_is_zero():
    result = score([Sentence(WORDS)], [Sentence(WORDS)])
    assert result.overall == Counts() and result.overall.f1 == 0.0
    assert (result.propositions, result.perfect_percent, result.label_accuracy) == (0, 0.0, 0.0)
    assert tag_f1([Sentence(WORDS)], [Sentence(WORDS)])["f1"] == 0


def test_f1_comes_from_unrounded_figures():
    figures = Counts(1, 2, 6).as_dict()
    assert figures["precision"] == pytest.approx(33.333333333)
    assert figures["recall"] == pytest.approx(14.285714286)
    assert figures["f1"] == pytest.approx(20.0)


def test_other_sentences_are_refused_where_they_part():
    other = Sentence(("we", "pour", "hot", "milk", "slowly"))
    with pytest.raises(
        UserError, match=r"sentence 2, word 4: gold has 'tea' and predicted has 'milk'"
    ):
        score([GOLD, GOLD], [GOLD, other])
    with pytest.raises(UserError, match="sentence 1: gold has 5 words and predicted has 4"):
        score([GOLD], [Sentence(WORDS[:4])])
    with pytest.raises(UserError, match="gold has 2 sentences and predicted has 1"):
        score([GOLD, GOLD], [GOLD])
    # Propositions alone have no words to compare.
    score([GOLD], [Sentence(("",) * 5)])
    with pytest.raises(UserError, match="gold has 5 words and predicted has 3"):
        score([GOLD], [Sentence(("",) * 3)])


def test_seqeval_counts_pieces_and_v():
    pytest.importorskip("seqeval")
    gold = sentence("(A1*) (V*) * (C-A1*) *")
    given = sentence("(A1*) (V*) * (A1*) *")
    assert score([gold], [given]).overall.f1 == 0
    figures = tag_f1([gold], [given])
    assert figures["precision"] == figures["recall"] == pytest.approx(200 / 3)
    assert tag_f1([gold], [Sentence(WORDS)]) == {"precision": 0.0, "recall": 0.0, "f1": 0.0}


def test_an_argument_at_a_predicted_predicate_counts_for_nothing_without_labels():
    found = score([sentence("(A0*) (V*) (A1* *) *")], [sentence("(A0*) * (V* *) *")])
    assert found.unlabelled.correct == 1
