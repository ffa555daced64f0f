"""scripts/prepare_srl.py as a user runs it, with good and with bad files."""

import json

import pytest

from selfattn_tasks.srl.formats import conll, lines
from tests.scripts import conftest
from tests.selfattn_tasks.srl.writers import write_lines, write_words

TRAIN = """\
We - (A0*)
Poured pour (V*)
tea - (A1*)

tea - *
we - (A0*)
sip sip (V*)

No -
verb -
"""
VALID = """\
Tea - (A1* (A1*)
They - *) *
pour pour (V*) *
sip sip * (V*)

Nothing -

They - (A0*)
pour pour (V*)
milk - (AM-TMP*)
"""


@pytest.fixture
def corpus(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "train").write_text(TRAIN)
    (folder / "valid").write_text(VALID)
    return folder


@pytest.fixture
def prepare(run_cli, corpus):
    def run(*args, dest="data"):
        files = ["--train", "corpus/train", "--valid", "corpus/valid"]
        return run_cli(["scripts/prepare_srl.py", *files, "--dest", dest, *args], cwd=corpus.parent)

    return run


def refused(done, folder, *words):
    conftest.refused(done, "prepare_srl.py: error: ", *words)
    assert [path.name for path in folder.iterdir()] == ["corpus"]


def test_the_folder(prepare, corpus):
    done = prepare("--test", "corpus/valid", "--test", "corpus/train").ok()
    data = corpus.parent / "data"
    assert sorted(path.name for path in data.iterdir()) == [
        "dict.label.txt", "dict.word.txt", "meta.json", "test.conll", "test.txt", "test1.conll",
        "test1.txt", "train.conll", "train.txt", "valid.conll", "valid.txt",
    ]  # fmt: skip
    assert (data / "train.txt").read_text() == (
        "1 We Poured tea ||| B-A0 B-V B-A1\n2 tea we sip ||| O B-A0 B-V\n"
    )
    assert (data / "dict.word.txt").read_text() == "tea 2\nwe 2\npoured 1\nsip 1\n"
    assert (data / "dict.label.txt").read_text() == "B-A0 2\nB-V 2\nB-A1 1\nO 1\n"
    # Whole sentences, those without a predicate too; line n is their n-th proposition.
    valid = conll.read(data / "valid.conll")
    assert len(valid) == 3 and valid == conll.read(corpus / "valid")
    assert lines.lines_of(valid) == lines.read_lines_file(data / "valid.txt")
    meta = json.loads((data / "meta.json").read_text())
    assert meta["version"] == 1
    assert meta["propositions"] == {"train": 2, "valid": 3, "test": 3, "test1": 2}
    assert meta["sentences"]["valid"] == 3
    assert meta["tags not in train"]["valid"] == ["B-AM-TMP", "I-A1"]
    assert meta["unknown words in percent"]["valid"] == round(100 * 7 / 11, 2)
    assert "tags that training never shows: B-AM-TMP I-A1" in done.stdout
    assert "warning: sentences of test that are also in valid: 3" in done.stdout
    assert "test that are also in train" not in done.stdout


def test_the_options(prepare, corpus):
    prepare("--keep-case", "--vocab-size", "3").ok()
    words = (corpus.parent / "data" / "dict.word.txt").read_text()
    assert words == "tea 2\nPoured 1\nWe 1\n"
    refused_again = prepare("--min-count", "2")
    assert "data already exists" in refused_again.stderr and refused_again.returncode == 2
    prepare("--min-count", "2", "--overwrite").ok()
    (corpus.parent / "of-another-task").mkdir()
    (corpus.parent / "of-another-task" / "meta.json").touch()
    done = prepare("--overwrite", dest="of-another-task")
    assert "of-another-task holds something else (no dict.label.txt)" in done.stderr
    (corpus / "dict.label.txt").touch()
    done = prepare("--overwrite", dest=corpus)
    assert "one of the inputs, lies in the destination" in done.stderr and done.returncode == 2
    (corpus / "dict.label.txt").unlink()
    assert (corpus.parent / "data" / "dict.word.txt").read_text() == "tea 2\nwe 2\n"


def test_words_and_props_and_lines(prepare, corpus):
    sentences = conll.read(corpus / "valid")
    write_words(corpus / "words", sentences)
    conll.write_props(corpus / "props", sentences)
    write_lines(corpus / "lines", sentences)
    prepare("--test", "corpus/words", "corpus/props", "--test", "corpus/lines").ok()
    data = corpus.parent / "data"
    assert conll.read(data / "test.conll") == sentences
    assert (data / "test1.txt").read_text() == (data / "valid.txt").read_text()
    assert len(conll.read(data / "test1.conll")) == 2


def numbered(text, start=1):
    """The file with a first column that counts the words of each sentence, as in CoNLL-U."""
    found, number = [], start
    for line in text.splitlines():
        found.append(f"{number}\t{line}" if line else "")
        number = number + 1 if line else start
    return "\n".join(found) + "\n"


@pytest.mark.parametrize("start", [0, 1])
def test_a_column_that_counts_the_words_is_not_their_column(prepare, corpus, start):
    prepare(dest="plain").ok()
    write_words(corpus / "words", conll.read(corpus / "valid"))
    conll.write_props(corpus / "props", conll.read(corpus / "valid"))
    for name in ("train", "valid", "words"):
        text = numbered((corpus / name).read_text(), start)
        (corpus / name).write_text(f"# newdoc\n# sent_id = 1\n{text}\n# no sentence\n")
    done = prepare("--test", "corpus/words", "corpus/props").ok()
    assert "corpus/train: the first column numbers the words; they are taken from the second" in (
        done.stdout
    )
    data, plain = corpus.parent / "data", corpus.parent / "plain"
    for name in ("train.txt", "valid.conll", "dict.word.txt"):
        assert (data / name).read_text() == (plain / name).read_text()
    assert (data / "test.conll").read_text() == (plain / "valid.conll").read_text()


def test_the_column_of_the_words_by_name(prepare, corpus):
    prepare(dest="plain").ok()
    for name in ("train", "valid"):
        text = (corpus / name).read_text()
        lines_ = [f"doc 7 {line}" if line else "" for line in text.splitlines()]
        (corpus / name).write_text("\n".join(lines_) + "\n")
    refused_ = prepare(dest="none")
    assert refused_.returncode == 2
    assert "every word is 'doc': name the column of the words (--word-column)" in refused_.stderr
    prepare("--word-column", "3").ok()
    data, plain = corpus.parent / "data", corpus.parent / "plain"
    assert (data / "train.txt").read_text() == (plain / "train.txt").read_text()
    for column, words in (("4", "the predicates are in column 4"), ("0", "must be at least 1")):
        again = prepare("--word-column", column, dest="again")
        assert again.returncode == 2 and "--word-column" in again.stderr and words in again.stderr


def test_rows_that_stand_for_words_of_others_are_named(prepare, corpus):
    text = numbered(TRAIN).replace("2\tPoured", "1-2\tWe've - *\n2\tPoured", 1)
    (corpus / "train").write_text(text)
    refused(prepare(), corpus.parent, "corpus/train, line 2: the row 1-2 is not a word")


def test_words_of_the_dictionary_itself_are_left_to_it(prepare, corpus):
    with (corpus / "train").open("a") as file:
        file.write("\n<pad> x (V*)\n<unk> - *\n")
    prepare().ok()
    assert "<" not in (corpus.parent / "data" / "dict.word.txt").read_text()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("valid", VALID.replace("*) *", "* *"), ["valid, line 3: column 3: the span (V opens ins"]),
        ("train", TRAIN.replace("sip (V*)", "sip (A1*)"), ["corpus/train, line 7", "no V span"]),
        (
            "train",
            "a -\nb -\n",
            ["corpus/train: no predicate, but the train data needs at least one"],
        ),
        ("valid", "", ["corpus/valid, line 1: the file is empty"]),
        ("valid", "- (A0*)\npour (V*)\n", ["propositions without words", "--valid WORDS PROPS"]),
    ],
    ids=["bracket", "no-v", "no-predicate", "empty", "props"],
)
def test_bad_files_are_one_sentence_and_nothing_is_written(prepare, corpus, name, text, words):
    (corpus / name).write_text(text)
    refused(prepare(), corpus.parent, *words)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ("--test a b c", "--test has 3 files"),
        ("--test corpus/none", "there is no file corpus/none"),
        ("--min-count 0", "--min-count 0 is not allowed; it must be at least 1"),
        ("--min-count 9", "--min-count 9 leaves no word of the train data"),
        ("--vocab-size -1", "--vocab-size -1 is not allowed"),
        ("--format lines", "corpus/train, line 1: there is no |||"),
    ],
)
def test_bad_flags_are_one_sentence_and_nothing_is_written(prepare, corpus, args, words):
    refused(prepare(*args.split()), corpus.parent, words)
