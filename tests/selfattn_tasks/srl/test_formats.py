"""Every format: what is written is read back, and what is wrong is named with file and line."""

import gzip
import io
import tarfile

import pytest

from selfattn.errors import UserError
from selfattn_tasks.srl import Proposition, Sentence, Span, from_bio, to_bio
from selfattn_tasks.srl.formats import conll, lines
from selfattn_tasks.srl.formats.brackets import BracketError, format_brackets, parse_brackets
from selfattn_tasks.srl.formats.conll05_files import read_archives
from tests.selfattn_tasks.srl.writers import write_conll12, write_lines, write_words

COLUMNS = """\
We\t-\t(A0*)\t(A0*
poured\tpour\t(V*)\t*)
tea\t-\t(A1*\t*
to\t-\t*\t*
drink\tdrink\t*)\t(V*)

No\t-
verb\t-

"""
SENTENCES = [
    Sentence(
        ("We", "poured", "tea", "to", "drink"),
        (
            Proposition(1, "pour", (Span("A0", 0, 0), Span("V", 1, 1), Span("A1", 2, 4))),
            Proposition(4, "drink", (Span("A0", 0, 1), Span("V", 4, 4))),
        ),
    ),
    Sentence(("No", "verb")),
]
# The layout of the official training file: word, part of speech, parse, entity, sense, lemma.
OFFICIAL = """\
We      PRP  (S(NP*)  *      -   -        (A0*)  (A0*
poured  VBD  (VP*     *      01  pour     (V*)   *)
tea     NN   (NP*     *      -   -        (A1*   *
to      TO   *        *      -   -        *      *
drink   VB   *)))     *      01  drink    *)     (V*)

No      DT   (NP*     *      -   -
verb    NN   *)       *      -   -
"""
PROPS = "".join(
    line.partition("\t")[2] + "\n" for line in COLUMNS.splitlines()
)  # no words: the file of the official scorer
CONLL12 = """\
#begin document (nw/tea); part 000
nw/tea 0 0 We     PRP (S(NP*) -     -  - - *  (ARG0*) (ARG0* (1)
nw/tea 0 1 poured VBD (VP*    pour  01 1 - *  (V*)    *)     -
nw/tea 0 2 tea    NN  (NP*    tea   -  2 - *  (ARG1*  *      -
nw/tea 0 3 to     TO  *       -     -  - - *  *       *      -
nw/tea 0 4 drink  VB  *)))    drink 01 1 - *  *)      (V*)   (2)

nw/tea 0 0 No     DT  (NP*    -     -  - - *  -
nw/tea 0 1 verb   NN  *)      -     -  - - *  -

#end document
"""


@pytest.fixture
def write(tmp_path):
    """A function that writes a file and gives its path."""

    def _write(text, name="file"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return _write


def test_columns_with_words(write):
    assert conll.read(write(COLUMNS)) == SENTENCES
    assert conll.read(write(COLUMNS.replace("\t", "   ").replace("\n", "\r\n"))) == SENTENCES
    assert conll.read(write("\ufeff" + "\n\n" + COLUMNS.rstrip())) == SENTENCES
    assert conll.read(write(gzip.compress(COLUMNS.encode()), "file.gz")) == SENTENCES
    assert conll.read(write(OFFICIAL)) == SENTENCES


def test_props_alone_and_with_their_words(write):
    path = write(PROPS, "props")
    alone = conll.read(path)
    assert [s.propositions for s in alone] == [s.propositions for s in SENTENCES]
    assert not alone[0].has_words and len(alone[0].words) == 5
    assert (
        conll.read(write("We PRP\npoured\ntea\nto\ndrink\n\nNo\nverb\n", "words"), path)
        == SENTENCES
    )


def test_words_that_look_like_columns(write):
    text = "***\t-\n\n*\t-\t(A0*)\nis\tbe\t(V*)\n\n"
    assert [s.words for s in conll.read(write(text))] == [("***",), ("*", "is")]
    # A no-break space is part of a word.
    assert conll.read(write("a\u00a0b\t-\n"))[0].words == ("a\u00a0b",)
    # Python reads no number of so many digits.
    assert conll.read(write("9" * 5000 + "\t-\n"))[0].words == ("9" * 5000,)


def test_conll_2012(write):
    renamed = [
        Sentence(
            s.words,
            tuple(
                Proposition(
                    p.predicate,
                    p.lemma,
                    tuple(Span(x.label.replace("A", "ARG"), x.start, x.end) for x in p.spans),
                )
                for p in s.propositions
            ),
        )
        for s in SENTENCES
    ]
    assert conll.read(write(CONLL12)) == renamed
    # A verb of two words: the predicate is the one with a frameset.
    two = CONLL12.replace("We     PRP (S(NP*) -     -  - - *  (ARG0*) ", "We - - - - - - - (V* ")
    two = two.replace("*  (V*)    *)     -", "*  *)    *)     -")
    assert conll.read(write(two))[0].propositions[0].predicate == 1


def test_a_folder_of_conll_2012_files(tmp_path):
    for name in ("b", "a"):
        (tmp_path / "data" / name).mkdir(parents=True)
        text = CONLL12.replace("poured", name)
        (tmp_path / "data" / name / f"{name}.v4_gold_conll").write_text(text)
    found = conll.read(tmp_path / "data")
    assert [sentence.words[1] for sentence in found] == ["a", "verb", "b", "verb"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="is a folder without .*gold_conll files"):
        conll.read(tmp_path / "empty")


def test_lines(write):
    text = "1 We poured tea to drink ||| B-A0 B-V B-A1 I-A1 I-A1\n"
    text += "4 We poured tea to drink ||| B-A0 I-A0 O O B-V\n"
    sentences = conll.read(write(text))
    assert [s.words for s in sentences] == [SENTENCES[0].words]
    assert [p.spans for p in sentences[0].propositions] == [
        p.spans for p in SENTENCES[0].propositions
    ]
    assert [str(line) + "\n" for line in lines.lines_of(SENTENCES)] == text.splitlines(True)
    # The same words again are another sentence unless the predicate comes later.
    assert len(conll.read(write(text + text))) == 2
    assert lines.parse_line("0 ||| ||| O").words == ("|||",)


def test_what_is_written_is_read(tmp_path, generator):
    make = generator(7)
    sentences = [make.sentence() for _ in range(300)]
    path, other = tmp_path / "a", tmp_path / "b"
    conll.write_columns(path, sentences)
    assert conll.read(path, lenient=True) == sentences
    write_words(path, sentences)
    conll.write_props(other, sentences)
    with pytest.raises(UserError, match="no V span"):
        conll.read(path, other)
    for sentence in sentences:
        for proposition in sentence.propositions:
            tags = to_bio(proposition.spans, len(sentence.words))
            assert from_bio(tags) == proposition.spans
            column = format_brackets(proposition.spans, len(sentence.words))
            assert parse_brackets(column) == proposition.spans


def test_the_round_trip_of_whole_files(write, tmp_path):
    path = tmp_path / "copy"
    conll.write_columns(path, SENTENCES)
    assert path.read_text() == COLUMNS
    write_conll12(path, SENTENCES)
    assert conll.read(path) == SENTENCES
    write_words(path, SENTENCES)
    conll.write_props(tmp_path / "props", SENTENCES)
    assert conll.read(path, tmp_path / "props") == SENTENCES
    write_lines(path, SENTENCES)
    assert [s.words for s in conll.read(path)] == [SENTENCES[0].words]


def changed(old, new, text=COLUMNS):
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file, line 1: the file is empty"),
        ("\n \n", "file, line 1: the file is empty"),
        (changed("(A0*)\t", "(A0*\t"), r"line 2: column 3: the span \(V opens inside .* \(A0"),
        (changed("drink\t*)", "drink\t*"), r"line 3: column 3: the span \(A1 .* is never closed"),
        (changed("to\t-\t*", "to\t-\t*))"), r"line 4: column 3: '\*\)\)' closes .* none is open"),
        (changed("tea\t-\t(A1*", "tea\t-\tA1"), "line 3: column 3: 'A1' is not a bracket tag"),
        (changed("tea\t-\t(A1*", "tea\t-"), "line 3: 3 columns, but the first .* has 4"),
        (changed("verb\t-", "verb\t-\t*"), "line 8: 3 columns, but the first .* has 2"),
        (changed("drink\tdrink", "drink\t-"), "line 1: .* 4 columns, .* 1 predicates .* need 3"),
        (changed("verb\t-", "verb\tverb"), "line 7: .* 2 columns, .* 1 predicates .* need 3"),
        (changed("pour\t(V*)", "pour\t(A2*)"), "line 2: .* no V span in column 3"),
        (changed("\tpour", "\t-").replace("to\t-", "to\tpour"), "line 4: .* no V span"),
        (COLUMNS.encode().replace(b"tea", b"t\xe9"), "line 3: byte 0xe9 at position 2"),
        (COLUMNS.encode("utf-16"), "line 1: byte 0xff"),
        ("1 We pour |||\n", "line 1: 2 words and 0 tags"),
        ("1 We ||| O\n", "line 1: the predicate is '1', .* from 0 to 0"),
        ("-1 We pour ||| B-A0 B-V\n", "line 1: the predicate is '-1'"),
        ("9" * 5000 + " We pour ||| B-A0 B-V\n", "line 1: the predicate is '999"),
        ("1 We pour ||| B-A0 V\n", "line 1: word 1 has the tag 'V', but O, B-LABEL or I-LABEL"),
        ("1 We pour ||| I-A0 B-V\n", "line 1: word 0 has the tag 'I-A0' after the start"),
        ("1 We pour ||| B-A0 I-A1\n", "line 1: word 1 has the tag 'I-A1' after B-A0"),
        ("1 We pour ||| B-A0 B-A1\n", "line 1: the tag of the predicate, word 1, is 'B-A1'"),
        ("1 We pour ||| B-A0 B-V\nWe pour\n", r"line 2: there is no \|\|\|"),
        (changed("(V*)    *)", "*       *)", CONLL12), "line 2: column 12 has no V span"),
        (changed("(V*)    *)     -", "(V*)    -", CONLL12), "line 3: 13 columns, but the first"),
        ("#begin document (x); part 000\nx 0 0 We\n", "line 2: 4 columns, but CoNLL-2012 needs 12"),
        (CONLL12.replace("#end document\n", ""), "has 1 #begin document but 0 #end"),
    ],
)  # fmt: skip
def test_bad_files_are_named(write, text, message):
    with pytest.raises(UserError, match=message) as caught:
        conll.read(write(text))
    assert "file" in str(caught.value)


def test_words_and_props_that_do_not_belong_together(write):
    props = write(PROPS, "props")
    with pytest.raises(UserError, match=r"has 4 words in .*words, line 1, but 5 .*props, line 1:"):
        conll.read(write("We\npoured\ntea\nto\n\nNo\nverb\n", "words"), props)
    with pytest.raises(UserError, match=r"words has 1 sentences, but .*props has 2"):
        conll.read(write("We\npoured\ntea\nto\ndrink\n", "words"), props)
    with pytest.raises(UserError, match="no file"):
        conll.read(props.with_name("none"))


def test_what_a_prediction_may_hold(write):
    text = "1 We pour ||| I-A0 I-A1\n"
    spans = conll.read(write(text), lenient=True)[0].propositions[0].spans
    assert spans == (Span("A0", 0, 0), Span("A1", 1, 1))
    fragment = CONLL12.replace("#end document\n", "")
    assert conll.read(write(fragment), lenient=True) == conll.read(write(CONLL12))
    nested = changed("(A0*)\t", "(A0*\t").replace("(V*)", "(V*))", 1)
    assert conll.read(write(nested), lenient=True)[0].propositions[0].spans[:2] == (
        Span("A0", 0, 1), Span("V", 1, 1),
    )  # fmt: skip


def test_lines_fit_into_the_sentences_that_they_were_made_of(tmp_path, generator):
    """Any sentences, also without a predicate, and the same words twice or with less of them."""
    made = generator(11)
    for _ in range(60):
        sentences = [Sentence(("tea",), (Proposition(0, "", (Span("V", 0, 0),)),))]
        for _ in range(made.random.randint(1, 5)):
            one = made.sentence()
            some = tuple(p for p in one.propositions if made.random.random() < 0.5)
            sentences += [one, *made.random.choice(([], [one], [Sentence(one.words, some)]))]
        write_lines(tmp_path / "lines", sentences)
        read = conll.read(tmp_path / "lines", lenient=True)
        found = lines.regrouped(read, sentences)
        for ours, theirs in zip(sentences, found, strict=True):
            assert ours.words == theirs.words
            assert [(p.predicate, p.spans) for p in ours.propositions] == [
                (p.predicate, p.spans) for p in theirs.propositions
            ]
        # Of another file, or with lemmas: as they are.
        other = [Sentence((*s.words, "."), s.propositions) for s in sentences]
        assert lines.regrouped(read, other) == read
        lemmas = [Sentence(("tea",), (Proposition(0, "brew", ()),))]
        assert lines.regrouped(lemmas, sentences) == lemmas


def test_lines_fit_into_sentences_without_words():
    def sentence(words, *predicates, bare=False):
        props = tuple(Proposition(p, "", (Span("V", p, p),)) for p in predicates)
        return Sentence(("",) * len(words) if bare else tuple(words), props)

    go, cats = ["We", "go", "to", "do"], ["Cats", "or", "dogs", "eat"]
    short = ["Eat", "now"]
    made = [sentence(go, 1), sentence(cats, 3), sentence(short, 0)]
    bare = [sentence(s.words, *(p.predicate for p in s.propositions), bare=True) for s in made]
    found = lines.regrouped(made, bare)
    assert [[p.predicate for p in s.propositions] for s in found] == [[1], [3], [0]]
    # Without an answer for some predicate, that of a later sentence could take its place.
    more = [sentence(go, 1, 3, bare=True), *bare]
    assert lines.regrouped(made, more) == made
    assert lines.regrouped(made, bare, end_to_end=True) == made
    # Nothing that could tell where a sentence belongs.
    none = [sentence(go)]
    assert lines.regrouped(none, made) == none


def test_a_dash_may_be_a_predicate(tmp_path):
    """Its lemma must not look like that of a word that is none."""
    spans = (Span("A0", 0, 0), Span("V", 1, 1))
    for lemma in ("", "-"):
        given = Sentence(("Ann", "-", "tea"), (Proposition(1, lemma, spans),))
        conll.write_columns(tmp_path / "dash", [given])
        (found,) = conll.read(tmp_path / "dash")
        assert [(p.predicate, p.spans) for p in found.propositions] == [(1, spans)]


def test_closing_labels_must_match():
    assert parse_brackets(["(A0*", "*A0)"]) == (Span("A0", 0, 1),)
    with pytest.raises(BracketError, match="must not cross"):
        parse_brackets(["(A0*", "(A1*", "*A0)", "*A1)"], nested=True)


def test_spans_that_bio_cannot_hold():
    with pytest.raises(UserError, match="share word 1"):
        to_bio([Span("A0", 0, 1), Span("A1", 1, 1)], 3)
    with pytest.raises(UserError, match="covers words 2 to 3"):
        to_bio([Span("A0", 2, 3)], 3)
    assert from_bio(["B-AM-TMP", "B-AM-TMP", "I-AM-TMP"]) == (
        Span("AM-TMP", 0, 0), Span("AM-TMP", 1, 2),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["gz", "xz"])
def test_a_damaged_archive_is_refused(tmp_path, kind):
    """Also where nothing but the checksum at its end shows it."""
    text = "".join(f"sit{i * i} (V*)\n\n" for i in range(20_000)).encode()
    packed = io.BytesIO()
    options = {"compresslevel": 0} if kind == "gz" else {"preset": 0}
    with tarfile.open(fileobj=packed, mode=f"w:{kind}", **options) as archive:
        info = tarfile.TarInfo("train/props/train.02.props")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    path = tmp_path / "a.tar"
    path.write_bytes(packed.getvalue())
    assert [len(member.lines) for member in read_archives([path]).values()] == [40_000]
    content = bytearray(packed.getvalue().replace(b"sit", b"sat", 1))
    if kind == "xz":
        content[-9_999:-9_900] = bytes(99)
    path.write_bytes(content)
    with pytest.raises(UserError, match="a.tar cannot be read as a whole .tar.gz archive"):
        read_archives([path])
