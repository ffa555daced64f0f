"""Scores from summed counts against sacreBLEU and against the scorer of semantic roles."""

import random
import sys

import numpy as np
import pytest

from selfattn.errors import UserError
from selfattn_tasks.srl.metrics import NAMES as TAGGING
from selfattn_tasks.srl.metrics import TaggingMetric
from selfattn_tasks.srl.propositions import Proposition, Sentence, Span
from selfattn_tasks.srl.scorer import Counts, score
from selfattn_tasks.translation.metrics import NAMES as TRANSLATION
from selfattn_tasks.translation.metrics import bleu_scores, chrf_scores, translation_metrics

WORDS = "Der alte Kater, schläft heute; neben dem roten Boot und 3,5 Enten - (leise)!".split()


def corpus(seed, sentences=40, changed=0.4):
    """References and translations with words changed, lost and swapped; one line is empty."""
    rng = random.Random(seed)
    references = [" ".join(rng.choices(WORDS, k=rng.randint(1, 14))) for _ in range(sentences)]
    translations = []
    for line in references:
        words = [rng.choice(WORDS) if rng.random() < changed else w for w in line.split()]
        translations.append(" ".join(w for w in words if rng.random() > changed / 3))
    translations[3] = ""
    return references, translations


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("changed", [0.0, 0.4, 1.0])
def test_summed_counts_give_sacrebleus_score(seed, changed):
    pytest.importorskip("sacrebleu")
    references, translations = corpus(seed, changed=changed)
    for metric in translation_metrics(TRANSLATION, lowercase=False, tokenize="13a"):
        (counts,) = metric.counts(references, [translations])
        assert counts.dtype == np.uint8
        expected = metric.engine.corpus_score(translations, [references])
        assert metric.scores(counts.sum(axis=0)) == pytest.approx(expected.score, rel=1e-13)
        # The same for any choice of sentences, repeated ones included.
        chosen = [0, 0, 3, 5, 9, 9, 9, 17]
        expected = metric.engine.corpus_score(
            [translations[i] for i in chosen], [[references[i] for i in chosen]]
        )
        found = metric.scores(counts[None, chosen].sum(axis=1))
        assert found.shape == (1,)
        assert found[0] == pytest.approx(expected.score, rel=1e-13)


@pytest.mark.parametrize(
    ("hypothesis", "reference"),
    [("", "ein Boot"), ("rot", "ein Boot"), ("ein", "ein"), ("ein Boot", "ein Boot"), ("a", "")],
)
def test_scores_of_single_odd_sentences(hypothesis, reference):
    pytest.importorskip("sacrebleu")
    for metric in translation_metrics(TRANSLATION, lowercase=False, tokenize="13a"):
        expected = metric.engine.corpus_score([hypothesis], [[reference]]).score
        (counts,) = metric.counts([reference], [[hypothesis]])
        assert metric.scores(counts.sum(axis=0)) == pytest.approx(expected, abs=1e-12)


def test_nothing_at_all_scores_zero():
    assert bleu_scores(np.zeros((2, 10))).tolist() == [0, 0]
    assert chrf_scores(np.zeros((2, 18))).tolist() == [0, 0]


def test_lowercase_and_tokenizer_are_in_the_signature():
    pytest.importorskip("sacrebleu")
    (metric,) = translation_metrics(["BLEU"], lowercase=True, tokenize="intl")
    assert metric.signature.startswith("nrefs:1|case:lc|eff:no|tok:intl|")
    with pytest.raises(UserError, match="--tokenize is 'words', but must be one of"):
        translation_metrics(["BLEU"], lowercase=False, tokenize="words")


def test_a_tokenizer_that_is_not_there_is_refused(monkeypatch):
    pytest.importorskip("sacrebleu")
    monkeypatch.setitem(sys.modules, "MeCab", None)
    with pytest.raises(UserError, match="--tokenize is 'ja-mecab', which sacreBLEU cannot set up"):
        translation_metrics(["BLEU"], lowercase=False, tokenize="ja-mecab")


def test_long_lines_have_counts_of_more_bytes():
    pytest.importorskip("sacrebleu")
    (metric,) = translation_metrics(["chrF"], lowercase=False, tokenize="13a")
    short, long = metric.counts(["ab"], [["ab"], ["ab" * 40_000]])
    assert short.dtype == np.uint8 and long.dtype == np.uint32
    assert long[0, :3].tolist() == [80_000, 2, 2]


def spans(rng):
    found = [Span("V", 4, 4)]
    for start in (0, 2, 5, 7):
        if rng.random() < 0.7:
            label = rng.choice(["A0", "A1", "AM-TMP"])
            found.append(Span(label, start, start + rng.randint(0, 1)))
    return tuple(sorted(found, key=lambda span: span.start))


def test_summed_counts_give_the_scorers_f1():
    rng = random.Random(1)

    def sentences():
        return [
            Sentence(("w",) * 10, (Proposition(4, "w", spans(rng)),) * (i % 4 > 0))
            for i in range(60)
        ]

    gold, other = sentences(), sentences()
    predicted = [pair[i % 3 == 0] for i, pair in enumerate(zip(gold, other, strict=True))]
    result = score(gold, predicted)
    expected = {"F1": result.overall.f1, "Comp.": result.perfect_percent}
    for name in TAGGING:
        metric = TaggingMetric(name)
        (counts,) = metric.counts(gold, [predicted])
        assert metric.scores(counts.sum(axis=0)) == pytest.approx(expected[name], rel=1e-13)
        assert 0 < expected[name] < 100
        assert metric.scores(np.zeros(5)) == 0


def test_f1_rounds_as_the_official_script_s():
    """An F1 of 3.125 exactly: that script's formula gives a last bit more, and so 3.13."""
    sums = np.array([1.0, 6.0, 56.0, 0.0, 1.0])
    assert f"{TaggingMetric('F1').scores(sums):.2f}" == f"{Counts(1, 6, 56).f1:.2f}" == "3.13"
