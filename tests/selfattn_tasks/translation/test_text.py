"""Reading and cleaning: what is kept, what is dropped, what is refused and with which words."""

import gzip

import pytest

from selfattn.errors import UserError
from selfattn_tasks.text import (
    Cleaning,
    ParallelText,
    clean_line,
    clean_pairs,
    read_lines,
    read_pairs,
)


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_lines_end_at_newlines_only(tmp_path):
    path = write(
        tmp_path / "a", "one\u2028still one\x0bstill\r\ntwo\u0085\rtwo\nlast without newline"
    )
    lines = ["one\u2028still one\x0bstill", "two\u0085\rtwo", "last without newline"]
    assert read_lines(path) == lines
    assert read_lines(write(tmp_path / "b", "\ufeffone\r\n\r\n")) == ["one", ""]


def test_gzip_is_read_by_its_ending(tmp_path):
    path = tmp_path / "a.en.gz"
    path.write_bytes(gzip.compress("grün\nrot\n".encode()))
    assert read_lines(path) == ["grün", "rot"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: None, "there is no file"),
        (lambda p: p.mkdir(), "is a folder"),
        (lambda p: write(p, "ok\nschön\n", "latin-1"), "line 2: byte 0xf6 at position 4"),
        (lambda p: write(p, "hello\n", "utf-16"), "line 1: byte 0xff at position 1"),
        (lambda p: write(p, "hello\n", "utf-16-le"), "line 1: a zero byte"),
    ],
    ids=["missing", "folder", "latin-1", "utf-16", "utf-16 without mark"],
)
def test_unreadable_text_is_named(tmp_path, make, words):
    path = tmp_path / "text.de"
    make(path)
    with pytest.raises(UserError) as caught:
        read_lines(path)
    assert str(path) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "damage", [lambda b: b[:-9], lambda b: b"no gzip", lambda b: b[:20] + b[24:]]
)
def test_damaged_gzip_is_named(tmp_path, damage):
    path = tmp_path / "a.gz"
    path.write_bytes(damage(gzip.compress(b"some text\n" * 50)))
    with pytest.raises(UserError, match="not a complete gzip file"):
        read_lines(path)


def test_different_line_counts_say_both(tmp_path):
    source, target = write(tmp_path / "a.en", "1\n2\n3\n"), write(tmp_path / "a.de", "1\n2\n")
    with pytest.raises(UserError, match=r"a\.en has 3 lines but .*a\.de has 2"):
        read_pairs(source, target)


def test_empty_files_are_refused(tmp_path):
    with pytest.raises(UserError, match="are empty"):
        read_pairs(write(tmp_path / "a.en", ""), write(tmp_path / "a.de", ""))


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("  two\t words\r", "two words"),
        ("u\u0308ber", "über"),
        ("so\u00adft\u200b\ufeff", "soft"),
        ("a\x07b\u2028c\u00a0d", "ab c d"),
        ("a \x07 b", "a b"),
        ("under\u2581score", "under_score"),
        ("Keep CASE", "Keep CASE"),
        ("\u200b \x01", ""),
        ("u\u200b\u0308ber", "über"),
    ],
)
def test_clean_line(raw, clean):
    assert clean_line(raw) == clean
    assert clean_line(clean) == clean


def test_lower_case_is_asked_for():
    assert clean_line("ÄRGER", lowercase=True) == "ärger"
    assert clean_line("T\u0308", lowercase=True) == "\u1e97"  # T with dots is no character


PAIRS = [
    ("a good pair", "ein gutes Paar"),
    ("", "leer"),
    ("one two three four five six", "eins zwei"),
    ("short", "x" * 100),
    ("another", " \u200b "),
]


def text(tmp_path, pairs=tuple(PAIRS)):
    return ParallelText(tmp_path / "t.en", tmp_path / "t.de", list(pairs))


def test_bad_training_pairs_are_dropped_and_counted(tmp_path, caplog):
    options = Cleaning(max_length=5)
    with caplog.at_level("INFO"):
        kept, counts = clean_pairs(text(tmp_path), options, training=True)
    assert kept == [PAIRS[0]]
    assert counts == {"read": 5, "kept": 1, "empty": 2, "too long": 1, "odd ratio": 1}
    assert "dropped 4 of 5 pairs (2 empty, 1 too long, 1 odd ratio)" in caplog.text


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (1, r"t\.en, line 2: the line is empty"),
        (2, r"t\.en, line 2: 6 words are more than --max-length 5"),
        (4, r"t\.de, line 2: the line is empty"),
    ],
)
@pytest.mark.parametrize(("training", "strict"), [(False, False), (True, True)])
def test_bad_pairs_that_must_not_vanish_are_refused(tmp_path, number, words, training, strict):
    content = text(tmp_path, [PAIRS[0], PAIRS[number]])
    with pytest.raises(UserError, match=words):
        clean_pairs(content, Cleaning(max_length=5, strict=strict), training=training)


def test_ratio_is_asked_of_training_only(tmp_path):
    content = text(tmp_path, [PAIRS[3]])
    assert clean_pairs(content, Cleaning(), training=False)[0] == [PAIRS[3]]
    with pytest.raises(UserError, match=r"t\.de, line 1: one side is more than --max-ratio 5"):
        clean_pairs(content, Cleaning(strict=True), training=True)


@pytest.mark.parametrize(
    "options",
    [{"max_length": 0}, *({"max_ratio": float(ratio)} for ratio in ("0.5", "-1", "nan"))],
)
def test_impossible_limits_are_refused(options):
    with pytest.raises(UserError, match="must be (at least 1|a number of 1 or more)"):
        Cleaning(**options)
