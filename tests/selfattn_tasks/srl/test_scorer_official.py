"""Our scores against the official Perl script, on random propositions: every printed figure."""

import pytest

from selfattn_tasks.srl.formats import conll
from selfattn_tasks.srl.scorer import score
from selfattn_tasks.srl.table import format_confusion, format_scores


def compare(srl_eval, folder, gold, predicted):
    files = folder / "gold.props", folder / "predicted.props"
    conll.write_props(files[0], gold)
    conll.write_props(files[1], predicted)
    # The round trip through the files is part of what is compared.
    result = score(*(conll.read(path, lenient=True) for path in files))
    assert format_scores(result) == srl_eval(*files)
    # With -C the script divides by the arguments found and dies if there are none.
    if result.unlabelled.correct:
        assert format_scores(result) + format_confusion(result) == srl_eval(*files, "-C")


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
def test_small_files(srl_eval, generator, tmp_path, nested):
    for seed in range(60):
        make = generator(seed, nested)
        gold = [make.sentence() for _ in range(1 + seed % 6)]
        compare(srl_eval, tmp_path, gold, [make.answer(sentence) for sentence in gold])


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "nested"])
def test_a_large_file(srl_eval, generator, tmp_path, nested):
    make = generator(10_000, nested)
    gold = [make.sentence(25) for _ in range(1000)]
    compare(srl_eval, tmp_path, gold, [make.answer(sentence) for sentence in gold])


def test_gold_without_predicates_and_answers_without_predicates(srl_eval, generator, tmp_path):
    make = generator(1)
    full = [make.sentence() for _ in range(5)]
    empty = [conll.Sentence(sentence.words) for sentence in full]
    compare(srl_eval, tmp_path, full, empty)
    compare(srl_eval, tmp_path, empty, full)
    compare(srl_eval, tmp_path, empty, empty)
