"""Words as characters: numbers, what a filter can tell, and no word's influence on another's."""

import pytest
import torch

from selfattn_tasks.words.characters import CharacterCNN, character_input
from selfattn_tasks.words.vocabulary import PADDING, UNKNOWN, Vocabulary, differences

VOCABULARY = Vocabulary(("the",), ("O",), alphabet="aegintT")


@pytest.fixture
def cnn():
    return CharacterCNN(VOCABULARY.character_rows, 5)


def vectors(cnn, *sentences):
    return cnn(**character_input([VOCABULARY.spell(words) for words in sentences]))


def test_numbers_of_characters():
    """Marks, case as it stands, unknown characters, and both ends of a long word."""
    assert VOCABULARY.character_rows == 4 + 7
    begin, *tea, end = VOCABULARY.spell(["Tea"])[0]
    assert (begin, end) == (2, 3) and tea == [10, 5, 4]
    assert VOCABULARY.spell(["a", "\U0001f642"]) == [(2, 4, 3), (2, UNKNOWN, 3)]
    long = "g" * 500 + "t" * 500
    assert VOCABULARY.spell([long]) == [(2, *[6] * 20, *[9] * 20, 3)]
    assert Vocabulary(("the",), ("O",)).spell(["tea"]) == []


def test_each_word_of_a_batch_is_there_once():
    batch = character_input([VOCABULARY.spell(s) for s in (["tea", "at", "tea"], ["at"])])
    assert batch["spellings"].tolist() == [[2, 9, 5, 4, 3], [2, 4, 9, 3, PADDING]]
    assert batch["places"].tolist() == [[0, 1, 0], [1, 0, 0]]


def test_size(cnn):
    assert sum(p.numel() for p in cnn.parameters()) == (4 + 7) * 30 + 5 * (3 * 30) + 5


def test_the_maximum_is_over_windows_of_characters_and_marks(cnn):
    """Ma and Hovy, written out for a word of two characters: windows <at and at>."""
    (spelling,) = VOCABULARY.spell(["at"])
    x = cnn.characters(torch.tensor(spelling)).T  # (30, 4)
    conv = cnn.filters.convs[0].conv
    windows = torch.stack([(conv.weight * x[:, i : i + 3]).sum((1, 2)) for i in (0, 1)])
    torch.testing.assert_close(
        vectors(cnn, ["at"])[0, 0], (windows + conv.bias).relu().amax(0), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("word", ["a", "eating", "\U0001f642" * 3, "g" * 1000, ""])
def test_other_words_do_not_change_a_word_s_vector_or_gradient(cnn, word):
    found = []
    for batch in ([["tea", word]], [["tea", word, "ingenta" * 9], ["\ufffd"]]):
        cnn.zero_grad()
        vector = vectors(cnn, *batch)[0, 1]
        (vector - 1).square().sum().backward()
        found.append([vector, *(p.grad for p in cnn.parameters())])
        assert all(x.isfinite().all() for x in found[-1])
    for alone, beside in zip(*found, strict=True):
        torch.testing.assert_close(alone, beside, rtol=1e-5, atol=1e-6)


def test_a_suffix_is_not_an_infix(cnn):
    """What stands before the end can be told from the same characters elsewhere."""
    suffix, infix = vectors(cnn, ["ating", "ingat"])[0]
    assert (suffix - infix).abs().max() > 1e-4


def test_a_checkpoint_keeps_the_alphabet():
    assert Vocabulary.from_state(VOCABULARY.state()) == VOCABULARY
    without = Vocabulary(("the",), ("O",))
    assert "alphabet" not in without.state()
    assert "7 and 0 characters" in differences(VOCABULARY, without)
    assert VOCABULARY.with_frozen(["x"]).alphabet == VOCABULARY.alphabet
