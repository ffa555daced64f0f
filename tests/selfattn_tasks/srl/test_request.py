"""What a person typed, and how the answer is shown."""

import json

import pytest

from selfattn.errors import UserError
from selfattn_tasks.srl import Proposition, Sentence, Span
from selfattn_tasks.srl.tagger.request import prose, read_queries
from selfattn_tasks.srl.tagger.show import as_json, as_text
from tests.selfattn_tasks.srl.writers import write_conll12


def test_files_with_and_without_brackets(tmp_path):
    bare, full = tmp_path / "bare.txt", tmp_path / "full.conll"
    bare.write_text("Ann\t-\nsaw\tsee\n\nNo\t-\n")
    full.write_text("Ann - (A0*)\nsaw see (V*)\n\nNo -\n")
    spans = [[p.predicate for p in s.propositions] for s in read_queries(bare)]
    assert spans == [[1], []] == [[p.predicate for p in s.propositions] for s in read_queries(full)]
    assert read_queries(bare)[0].words == ("Ann", "saw")
    full.write_text("- (A0*)\nsee (V*)\n")
    with pytest.raises(UserError, match="holds no words"):
        read_queries(full)
    full.write_text("Ann NNP\nsaw VBD\n")
    with pytest.raises(UserError, match="a predicate in every line: .* plain text goes with --pr"):
        read_queries(full)
    full.write_text("Ann -\nsaw -\n")
    with pytest.raises(UserError, match="holds no predicate"):
        read_queries(full)


def test_a_folder_of_conll_2012(tmp_path):
    (tmp_path / "nw").mkdir()
    for number in (1, 2):
        write_conll12(tmp_path / "nw" / f"{number}.gold_conll", [SENTENCE] * number)
    found = read_queries(tmp_path)
    assert [s.words for s in found] == [SENTENCE.words] * 3
    assert [p.predicate for p in found[0].propositions] == [1, 4]
    with pytest.raises(UserError, match="--word-column is for CoNLL-2005 columns"):
        read_queries(tmp_path, word_column=4)


def test_paragraphs_of_prose_and_where_they_start(tmp_path):
    path = tmp_path / "prose.txt"
    path.write_bytes(b"\xef\xbb\xbfA title\r\n\r\n \r\nIt ran\non.\n\n\n\nEnd")
    found = list(prose(path))
    assert [text.text.strip() for text in found] == ["A title", "It ran\non.", "End"]
    whole = path.read_text("utf-8-sig")  # with \n for \r\n
    assert all(whole[t.start :].startswith(t.text) for t in found)


def test_a_paragraph_without_end_is_read_in_pieces(tmp_path):
    path = tmp_path / "endless.txt"
    path.write_text("more of it\n" * 30_000)
    found = list(prose(path))
    assert len(found) > 2 and max(len(text.text) for text in found) < 101_000
    starts = [text.start for text in found]
    assert starts == sorted(starts) and all(start % 11 == 0 for start in starts)
    assert sum(len(text.text.split()) for text in found) == 90_000


def test_a_first_column_that_counts(tmp_path):
    path = tmp_path / "counted.txt"
    path.write_text("1\tAnn\t-\n2\tsaw\tsee\n\n1\tNo\t-\n")
    first, second = read_queries(path)
    assert (first.words, second.words) == (("Ann", "saw"), ("No",))
    assert [(p.predicate, p.lemma) for p in first.propositions] == [(1, "see")]
    path.write_text("# a comment\n# another\n\n# text = Ann saw\n" + path.read_text())
    assert read_queries(path) == [first, second]
    path.write_text(path.read_text().replace("see", "see\tA1"))
    with pytest.raises(UserError, match="line 6: 4 columns, but the first row of this sentence"):
        read_queries(path)
    path.write_text("# -\nsaw see\n")
    assert read_queries(path)[0].words == ("#", "saw"), "a word"


def test_words_alone_where_predicates_are_found(tmp_path):
    path = tmp_path / "words.txt"
    for text in ("Ann\nsaw\n\nNo\n", "1 Ann\n2 saw\n\n1 No\n"):
        path.write_text(text)
        found = read_queries(path, may_lack_predicates=True)
        assert found == [Sentence(("Ann", "saw")), Sentence(("No",))]
        with pytest.raises(UserError, match="no column of predicates: .* give --find-predicates"):
            read_queries(path)
    rows = ("# text = Don't", "1-2\tDon't", "1\tDo", "2\tn't", "2.1\tgo")
    path.write_text("\n".join(row + ("\t_" * 8 if row[0] != "#" else "") for row in rows))
    assert read_queries(path, may_lack_predicates=True) == [Sentence(("Do", "n't"))], "CoNLL-U"
    with pytest.raises(UserError, match="is CoNLL-U, which names no predicate; give --find-pred"):
        read_queries(path)


def test_columns_of_another_format_are_shown(tmp_path):
    path = tmp_path / "tags.txt"
    path.write_text("1 Ann - B-A0\n2 saw see B-V\n")
    with pytest.raises(UserError, match="2 predicates in column 4, of which the first is 'B-A0', "):
        read_queries(path)


SENTENCE = Sentence(
    ("I", "saw", "a", "big", "cat"),
    (
        Proposition(1, "see", (Span("A0", 0, 0), Span("V", 1, 1), Span("A1", 2, 4))),
        Proposition(4, "cat", (Span("AM-MNR", 3, 3), Span("V", 4, 4))),
    ),
)


def test_roles_stand_under_their_words():
    assert as_text(SENTENCE).split("\n") == [
        "I     saw  a  big       cat",
        "[A0]  [V]  [A1------------]",
        "              [AM-MNR]  [V]",
    ]


def test_a_short_sentence_may_have_no_predicate():
    assert as_text(Sentence(("Hi",), ())) == "Hi\n(no predicate)"


def test_long_sentences_are_broken_between_words():
    """Each row begins with its predicate, since not all predicates have roles in every piece."""
    pieces = as_text(SENTENCE, width=22).split("\n\n")
    assert pieces[0] == "      I     saw  a\nsaw:  [A0]  [V]  [A1"
    assert pieces[1] == "      big       cat\nsaw:  ------------]\ncat:  [AM-MNR]  [V]"
    alone = Sentence(SENTENCE.words, SENTENCE.propositions[:1])
    assert as_text(alone, width=16).startswith("I     saw  a\n[A0]  [V]  [A1\n\n")


def test_wide_characters_take_two_columns():
    spans = (Span("A0", 0, 0), Span("V", 1, 1), Span("A1", 2, 2))
    shown = as_text(Sentence(("茶", "rouse\u0301", "日本語"), (Proposition(1, "", spans),)))
    assert shown == "茶    rouse\u0301  日本語\n[A0]  [V--]  [A1--]"


def test_json():
    read = json.loads(as_json(SENTENCE))
    assert read["words"] == list(SENTENCE.words)
    last = read["propositions"][0]["spans"][-1]
    assert last == {"label": "A1", "start": 2, "end": 4, "text": "a big cat"}
    assert read["propositions"][1]["tags"] == ["O", "O", "O", "B-AM-MNR", "B-V"]
