"""The block length of Bi-BloSA: the authors' data and the rule on exact cubes."""

import math

import pytest

from selfattn.block_length import block_length, longest_of_a_batch
from selfattn.errors import UserError

# Mean and deviation of the training lengths, sentences of a batch, n, cube root, paper's r, code's.
TABLE = {
    "TREC": (10.205, 3.889, 32, 20.44, 3.445, 4, 5),
    "SST": (19.144, 9.305, 64, 45.98, 4.514, 5, 6),
    "SICK": (9.653, 3.674, 32, 19.32, 3.381, 4, 5),
    "CR": (21.379, 12.716, 32, 54.86, 4.787, 5, 6),
    "MPQA": (3.171, 2.855, 32, 10.69, 2.775, 3, 4),
    "SUBJ": (26.102, 11.020, 32, 55.12, 4.795, 5, 6),
}


@pytest.mark.parametrize("row", TABLE.values(), ids=TABLE)
def test_lengths_of_the_published_data_sets(row):
    mean, deviation, sentences, longest, root, paper, code = row
    n = longest_of_a_batch(mean, deviation, sentences)
    assert n == pytest.approx(longest, abs=0.01)  # the means of the table are rounded
    assert (2 * n) ** (1 / 3) == pytest.approx(root, abs=0.001)
    assert (block_length(n), block_length(n, extra=1)) == (paper, code)


def test_a_cube_is_its_own_ceiling_and_the_next_number_is_not():
    for r in range(1, 200):
        assert block_length(r**3 / 2) == r
        assert block_length(math.nextafter(r**3 / 2, math.inf)) == r + 1


def test_impossible_lengths_are_refused():
    for tokens in (0, -3.0, math.nan, math.inf):
        with pytest.raises(UserError, match="tokens is not allowed"):
            block_length(tokens)
    with pytest.raises(UserError, match="extra -9 is not allowed; it must be at least 0"):
        block_length(4, -9)
    with pytest.raises(UserError, match=r"batch of 0\.5 sentences"):
        longest_of_a_batch(10, 3, 0.5)
