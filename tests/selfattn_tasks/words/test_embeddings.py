"""Files of word vectors: every width, plain and gzipped, and what is wrong with a broken one."""

import gzip

import pytest
import torch

from selfattn.errors import UserError
from selfattn_tasks.words.embeddings import read_vectors, vector_width

TEXT = "the 0.5 -1 2e-1\n, 1 2 3\nword with spaces 4 5 6\nthe 9 9 9\n"


# A gzip file whose first block is of no type.
CORRUPT = bytearray(gzip.compress(TEXT.encode() * 9, mtime=0))
CORRUPT[10] = 255
CORRUPT = bytes(CORRUPT)


@pytest.mark.parametrize("header", ["", "4 3\n", "\ufeff", "\ufeff4 3\n"])
@pytest.mark.parametrize("zipped", [False, True])
def test_read(tmp_path, header, zipped):
    path = tmp_path / "vectors.txt"
    text = (header + TEXT).encode()
    path.write_bytes(gzip.compress(text) if zipped else text)
    vectors = read_vectors(path)
    assert vectors.words == {"the": 0, ",": 1, "word with spaces": 2}
    expected = torch.tensor([[0.5, -1, 0.2], [1, 2, 3], [4, 5, 6]])
    assert torch.equal(vectors.values, expected)
    assert vectors.width == vector_width(path) == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("the 1 2 3\nof 1 2\n", "line 2: a word and 3 numbers are needed, but there are 2"),
        ("the 1 2 3\nof 1 2 3 4\n", "line 2: 4 numbers, but 3 are needed"),
        ("the 1 2 3\nof 1 x 3\n", "line 2: 'x' is no number, but a word and 3 numbers"),
        ("the\n", "line 1"),
        (b"the 1 2\n\xff\xfe 1 2\n", "line 2: the word is not UTF-8 text"),
        (gzip.compress(TEXT.encode(), mtime=0)[:-10], "cannot be read"),
        (CORRUPT, "cannot be read: .*decompressing"),
        ("the 1 2\nof 1 nan\n", "line 2: 'nan' is no finite number of 32 bits"),
        ("the -inf 2\n", "line 1: '-inf' is no finite"),
        ("the 1 2\nof 1e999 1\n", "line 2: '1e999' is no finite"),
        ("the 1 2\nof 1 1e39\n", "line 2: '1e39' is no finite"),
        ("the 1 2\nof 1 2", "line 2: no line end, so that the file seems cut off"),
        (gzip.compress(b"the 1 2\nof 1 2"), "line 2: no line end"),
        ("3 2\nthe 1 2\nof 1 2\n", "line 1: the header names 3 words, but 2 follow"),
        ("1 2\nthe 1 2\nof 1 2\n", "line 1: the header names 1 words, but 2 follow"),
        ("2 3\nthe 1 2\nof 1 2\n", "line 2: a word and 3 numbers are needed, but there are 2"),
        ("2 1\nthe 1 2\nof 1 2\n", "line 2: 2 numbers, but 1 are needed"),
        ("2 0\nthe 1 2\nof 1 2\n", "line 1: the header names vectors of 0 numbers"),
    ],
)
def test_broken(tmp_path, text, sentence):
    path = tmp_path / "vectors.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    for only in (None, {"the", "of"}):
        with pytest.raises(UserError, match=sentence) as caught:
            read_vectors(path, only)
        assert str(path) in str(caught.value)


def test_a_word_without_an_end_is_not_echoed_whole(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("the 1 2\n" + "x" * 1_000_000 + " 1\n")
    with pytest.raises(UserError) as caught:
        read_vectors(path)
    assert len(str(caught.value)) < 300
    path.write_text("the 1 2\nof 1 " + "9" * 1_000_000 + "\n")
    with pytest.raises(UserError, match=r"line 2: '999.* is no finite number") as caught:
        read_vectors(path)
    assert len(str(caught.value)) < 300
    path.write_text("1 " + "9" * 5000 + "\n")  # no header of word2vec
    with pytest.raises(UserError, match="line 1: '999.* is no finite number"):
        read_vectors(path)


def test_missing(tmp_path):
    with pytest.raises(UserError, match="cannot be read: No such file"):
        read_vectors(tmp_path / "none.txt")
