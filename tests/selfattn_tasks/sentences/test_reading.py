"""Every form of file that the corpora have, and what is wrong with broken ones."""

import gzip
import json

import pytest

from selfattn.errors import UserError
from selfattn_tasks.sentences.formats.reading import read
from selfattn_tasks.sentences.formats.source import Reading
from selfattn_tasks.sentences.record import Example, Kind
from selfattn_tasks.sentences.tokens import Tokens

# The headers are those of the corpora, the sentences our own.
SNLI_TXT = (
    "gold_label\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\t"
    "sentence1\tsentence2\tcaptionID\tpairID\tlabel1\tlabel2\tlabel3\tlabel4\tlabel5\n"
    "neutral\t( Cats )\t( Dogs )\t(ROOT)\t(ROOT)\tCats sleep.\tDogs\tc\tp\tneutral\t\t\t\t\n"
    "-\t( A )\t( B )\t(ROOT)\t(ROOT)\tA\tB\tc\tp\tneutral\tentailment\t\t\t\n"
    'entailment\t( A )\t( B )\t(ROOT)\t(ROOT)\t"Tea" and\tB isn\'t\tc\tp\n'
)
SNLI_JSONL = "".join(
    json.dumps({"annotator_labels": [label], "gold_label": label, "pairID": "p", "sentence1": a,
                "sentence1_parse": "(ROOT)", "sentence2": b}) + "\n"
    for label, a, b in (("neutral", "Cats sleep.", "Dogs"), ("-", "A", "B"),
                        ("entailment", '"Tea" and', "B isn't"))
)  # fmt: skip
PAIRS = [
    Example((("cats", "sleep", "."), ("dogs",)), "neutral"),
    Example((('"', "tea", '"', "and"), ("b", "is", "n't")), "entailment"),
]
SICK_2014 = (
    "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    "1\tCats sleep\tDogs\t4.5\tNEUTRAL\n2\tA\tB\t5\tENTAILMENT\n3\tA cat\tB\t1.0\tCONTRADICTION\n"
)
SICK_LATER = (
    "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tentailment_AB\t"
    "entailment_BA\tsentence_A_original\tsentence_B_original\tsentence_A_dataset\t"
    "sentence_B_dataset\tSemEval_set\n"
    + "".join(
        f"{n}\tA {n}\tB\tNEUTRAL\t{n}\tA\tB\tx\ty\tF\tF\t{part}\n"
        for n, part in enumerate(("TRAIN", "TRIAL", "TEST", "TRAIN"), start=1)
    )
)
TREC = "DESC:manner How do cats sleep ?\nHUM:ind Who is J\xf6rg ?\nLOC:city\n"
CR = "1 good tea !\n0 \n0 do n't drink it\n1\n\n"
TREES = (
    "(3 (2 Cats) (4 (2 (2 n\\/a) (1 -LRB-)) (3 sleep)))\n"
    "(2 Tea)\n"
    "(0 (1 Do) (0 (1 n't) (2 sleep)))\n"
)
SELECTION = (
    '{"question": "Who sleeps?", "sentences": ["Cats sleep.", "Dogs run.", ""], "answer": 2}\n'
    '{"question": "", "sentences": ["A", "B"], "answer": 0}\n'
)


def write(path, text):
    content = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.fixture(params=["file.txt", "file.gz", "no_ending_but_zipped"])
def name(request, tmp_path):
    """Writes a text under a name, and gives the path."""

    def make(text):
        if request.param.startswith("no"):
            return write(tmp_path / "plain", gzip.compress(text.encode()))
        return write(tmp_path / request.param, text)

    return make


@pytest.mark.parametrize("text", [SNLI_TXT, SNLI_JSONL], ids=["txt", "jsonl"])
def test_snli(name, text):
    corpus = read(name(text), Kind.NLI)
    assert corpus.examples == PAIRS
    assert corpus.dropped == {"without a gold label (-)": 1}
    # To be predicted, or as gold: a row of input is a row of output.
    whole = read(name(text), Kind.NLI, Reading(labelled=False)).examples
    assert [example.target for example in whole] == ["neutral", None, "entailment"]
    # To be predicted by a model whose labels are others.
    other = name(text.replace("entailment", "1"))
    with pytest.raises(UserError, match="the label is '1', but must be one of"):
        read(other, Kind.NLI, Reading(labelled=False))
    blind = read(other, Kind.NLI, Reading(labelled=False, targets=False)).examples
    assert [example.sentences for example in blind] == [example.sentences for example in whole]
    assert {example.target for example in blind} == {None}


@pytest.mark.parametrize("swap", [False, True])
def test_sick_2014(name, swap):
    text = SICK_2014
    if swap:  # the order of columns does not count
        text = "".join("\t".join(reversed(line.split("\t"))) + "\n" for line in text.splitlines())
    scores = read(name(text), Kind.RELATEDNESS).examples
    assert [example.target for example in scores] == [4.5, 5.0, 1.0]
    assert scores[0].sentences == (("cats", "sleep"), ("dogs",))
    labels = read(name(text), Kind.NLI).examples
    assert [e.target for e in labels] == ["neutral", "entailment", "contradiction"]


def test_sicks_later_release_has_all_parts_in_one_file(name):
    path = name(SICK_LATER)
    assert len(read(path, Kind.RELATEDNESS).examples) == 4
    for part, scores in (("train", [1, 4]), ("valid", [2]), ("test", [3])):
        corpus = read(path, Kind.RELATEDNESS, Reading(part=part))
        assert [example.target for example in corpus.examples] == scores
        assert corpus.parts == {"train": [path], "valid": [path], "test": [path]}


def test_trec_in_latin_1(tmp_path):
    path = write(tmp_path / "train_5500.label", TREC.encode("latin-1"))
    corpus = read(path, Kind.CLASSIFICATION)
    assert [example.target for example in corpus.examples] == ["DESC", "HUM", "LOC"]
    assert corpus.examples[1].sentences == (("who", "is", "j\xf6rg", "?"),)
    assert corpus.recoded == 1
    fine = read(path, Kind.CLASSIFICATION, Reading(label_column="fine"))
    assert fine.examples[0].target == "DESC:manner"


def test_a_row_of_empty_cells_is_an_example(tmp_path):
    path = write(tmp_path / "pairs.tsv", b"sentence_A\tsentence_B\nA b\tC d\n\t\nE f\tG h\n\n")
    corpus = read(path, Kind.RELATEDNESS, Reading(labelled=False))
    assert [e.sentences[0] for e in corpus.examples] == [("a", "b"), (), ("e", "f")]
    assert corpus.dropped == {"blank lines": 1}


def test_a_digit_and_a_text_where_empty_sentences_are_examples(name):
    corpus = read(name(CR), Kind.CLASSIFICATION)
    assert [example.target for example in corpus.examples] == ["1", "0", "0", "1"]
    assert [len(example.sentences[0]) for example in corpus.examples] == [3, 0, 4, 0]
    assert corpus.dropped == {"blank lines": 1}


def test_trees(name):
    whole = read(name(TREES), Kind.CLASSIFICATION).examples
    assert [(" ".join(e.sentences[0]), e.target) for e in whole] == [
        ("cats n/a ( sleep", "3"), ("tea", "2"), ("do n't sleep", "0"),
    ]  # fmt: skip
    phrases = read(name(TREES), Kind.CLASSIFICATION, Reading(phrases=True)).examples
    assert len(phrases) == 7 + 1 + 5
    assert phrases[0] == whole[0] and phrases[7] == whole[1]
    assert Example((("n/a", "("),), "2") in phrases
    # Whole sentences, and phrases of another class than 2, four times: the code of the papers.
    repeated = read(name(TREES), Kind.CLASSIFICATION, Reading(phrases=True, repeat=True)).examples
    assert len(repeated) == (4 * 4 + 3) + 4 + (4 * 4 + 1)
    assert set(repeated) == set(phrases)


def test_two_classes_of_trees_leave_out_the_neutral(name):
    corpus = read(name(TREES), Kind.CLASSIFICATION, Reading(sst="binary"))
    assert [example.target for example in corpus.examples] == ["positive", "negative"]
    assert corpus.dropped == {"neutral": 1}
    phrases = read(name(TREES), Kind.CLASSIFICATION, Reading(sst="binary", phrases=True)).examples
    assert [e.target for e in phrases].count("positive") == 3 and len(phrases) == 3 + 4 + 1 - 1 + 1


def test_candidates(name):
    first, second = read(name(SELECTION), Kind.SELECTION).examples
    assert first.sentences == (("who", "sleeps", "?"), ("cats", "sleep", "."),
                               ("dogs", "run", "."), ())  # fmt: skip
    assert first.target == 2
    assert second.sentences[0] == () and second.target == 0


@pytest.mark.parametrize(
    ("kind", "text", "target"),
    [
        ("nli", "Label\tPremise\tHypothesis\nEntailment\tA\tB\n", "entailment"),
        ("classification", "\ufeffsentence\tlabel\r\nA B\tx\r\n", "x"),
        ("classification", "coarse\tfine\tquestion\nNUM\tNUM:dist\tA B\n", "NUM"),
        ("classification", '{"text": "A B", "label": 3}\n', "3"),
        ("classification", '{"sentences": [["A", "B"]], "target": "x"}\n', "x"),
        ("relatedness", '{"sentence1": "A", "sentence2": "B", "score": 2}\n', 2.0),
        ("selection", '{"sentences": [["A"], ["B"], []], "target": 1}\n', 1),
    ],
)
def test_plain_tables_and_json_lines(tmp_path, kind, text, target):
    (example,) = read(write(tmp_path / "f", text), Kind(kind)).examples
    assert example.target == target
    assert example.sentences[0][0] == "a"


def test_a_line_of_a_folder_is_read_again_as_it_was_written(tmp_path):
    example = Example((("a", "b/c", "d-e"), ()), "neutral")
    path = write(tmp_path / "f", example.line() + "\n")
    assert read(path, Kind.NLI, Reading(tokens=Tokens(split_words=True))).examples == [example]


@pytest.mark.parametrize(
    ("kind", "text", "target"),
    [
        ("classification", "sentence\nA\nB\n", None),
        ("nli", "premise\thypothesis\nA\tB\n", None),
        ("nli", '{"premise": "A", "hypothesis": "B", "label": null}\n', None),
        ("relatedness", "sentence_A\tsentence_B\trelatedness_score\nA\tB\t\n", None),
        ("selection", '{"question": "A", "sentences": ["B", "C"]}\n', None),
    ],
)
def test_without_labels(tmp_path, kind, text, target):
    path = write(tmp_path / "f", text)
    found = read(path, Kind(kind), Reading(labelled=False)).examples
    assert {example.target for example in found} == {target}
    with pytest.raises(UserError, match="no label|needs .* but there are only"):
        read(path, Kind(kind))


HEAD = "label\tpremise\thypothesis\n"
SCORES = "relatedness\tsentence_A\tsentence_B\n"


@pytest.mark.parametrize(
    ("kind", "text", "message"),
    [
        ("nli", "", "f is empty"),
        ("nli", "\n \n", "f is empty"),
        ("nli", HEAD, "f holds no example"),
        ("nli", HEAD + "- \tA\tB\n", "f holds no example"),
        ("nli", HEAD + "neutral\tA\tB\nno\tA\tB\n", "line 3: the label is 'no', but must be"),
        ("nli", HEAD + "2\tA\tB\n", "line 2: the label is '2', .*numbers mean other"),
        ("nli", HEAD + "\tA\tB\n", "line 2: no label"),
        ("nli", HEAD + "neutral\tA\n", "line 2: 2 fields between tabs, but the header names 3"),
        ("nli", HEAD + "neutral\tA\tB\tC\n", "line 2: 4 fields between tabs"),
        ("nli", "premise\thypothesis\tx\nA\tB\tC\n", "line 1: the task nli needs gold_label or"),
        ("nli", "neutral\tA\tB\n", "begins with 'neutral.*', which is none of the forms of"),
        ("nli", "1 A\n", "none of the forms of the task nli"),
        ("nli", b"\xff\xfel\0a\0\n\0", "line 1: byte 0xff at position 1 is not UTF-8"),
        ("nli", gzip.compress(SNLI_TXT.encode())[:-9], "f is not a complete gzip file"),
        ("relatedness", SCORES + "5.1\tA\tB\n", "line 2: the score is '5.1', but must be a number"),
        ("relatedness", SCORES + "0.9\tA\tB\n", "a number from 1 to 5"),
        ("relatedness", SCORES + "nan\tA\tB\n", "line 2: the score is 'nan'"),
        ("relatedness", SCORES + "high\tA\tB\n", "line 2: the score is 'high'"),
        ("relatedness", '{"text1": "", "text2": "", "score": 1%s}\n' % ("0" * 400), "score is 1"),
        ("relatedness", HEAD + "neutral\tA\tB\n", "needs relatedness_score or .* only: label, pre"),
        ("classification", "DESC:def A\nno label\n", "line 2: no label such as DESC:manner"),
        ("classification", "1 A\nB\n", "line 2: no digit and a blank before the text: 'B'"),
        ("classification", "(3 (2 A) (2 B)\n", "line 1: broken tree: 1 brackets are not closed"),
        ("classification", "(3 (2 A)))\n", "line 1: broken tree: something follows"),
        ("classification", "(2 A)\n(5 A)\n", "line 2: broken tree: the label '5' is none of 0"),
        ("classification", "(3 (2 ) A)\n", "line 1: broken tree: a node without a word"),
        ("classification", "(2 A) b\n", "line 1: broken tree: something follows"),
        ("classification", "(2 A)\n)\n", "line 2: broken tree: '\\)' stands before"),
        ("classification", "(2 A)\n(\n", "line 2: broken tree: the label ''"),
        ("classification", "(" * 100_000 + "\n", "line 1: broken tree: the label '\\('"),
        ("classification", '{"text": "A"\n', "line 1: no JSON"),
        ("classification", '{"text": "A", "label": "x"}\n[1]\n', "line 2: a JSON object in braces"),
        ("classification", '{"text": 3, "label": "x"}\n', "line 1: a sentence is 3, but must be"),
        ("classification", '{"text": "A", "label": [1]}\n', "line 1: the label is \\[1\\], but"),
        ("classification", '{"text": "A", "label": true}\n', "line 1: the label is True"),
        ("classification", '{"text": "A", "label": NaN}\n', "line 1: the label is nan, but must"),
        ("classification", "text\tLabel\tlabel\nA\tx\ty\n", "line 1: 2 columns are named label"),
        ("classification", '{"text": "A", "label": "x\\ty"}\n', "the label is .*must be printable"),
        ("classification", '{"text": "\\ud800", "label": "x"}\n', "line 1: no JSON"),
        ("classification", '{"sentences": [["a b"]], "target": "x"}\n', "or one with a blank"),
        ("classification", '{"sentences": [[""]], "target": "x"}\n', "have an empty one"),
        ("selection", SELECTION.replace(": 2", ": 3"), "line 1: the right candidate is number 3"),
        ("selection", SELECTION.replace(": 2", ": -1"), "number -1, but there are 3, counted"),
        ("selection", SELECTION.replace(": 2", ": 1.5"), "line 1: the index is 1.5, but must be"),
        ("selection", '{"question": "A", "sentences": ["B"], "answer": 0}\n', "two candidates or"),
        ("classification", '{"sentences": [["a"], ["b"]], "target": "x"}\n', "takes one sentence"),
        ("selection", '{"question": "A", "sentences": "B", "answer": 0}\n', "a list of sentences"),
        ("selection", "{}\n", "line 1: the task selection needs question or .* only: nothing"),
        ("selection", HEAD + "neutral\tA\tB\n", "none of the forms of the task selection: JSON"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(tmp_path, kind, text, message):
    with pytest.raises(UserError, match=message) as caught:
        read(write(tmp_path / "f", text), Kind(kind))
    assert "\n" not in str(caught.value) and str(tmp_path / "f") in str(caught.value)


def test_a_part_that_a_file_does_not_have(tmp_path):
    path = write(tmp_path / "f", SICK_LATER.replace("TRIAL", "TEST"))
    with pytest.raises(UserError, match="f holds no example of the part valid"):
        read(path, Kind.RELATEDNESS, Reading(part="valid"))
    path = write(tmp_path / "f", SICK_LATER.replace("TRIAL", "OTHER"))
    with pytest.raises(UserError, match="line 3: the part is 'OTHER', but must be one of train"):
        read(path, Kind.RELATEDNESS)


def test_ten_thousand_words_and_one(tmp_path):
    path = write(tmp_path / "f", "1 " + "tea " * 10_000 + "\n0 tea\n")
    long, short = read(path, Kind.CLASSIFICATION).examples
    assert len(long.sentences[0]) == 10_000 and short.sentences == (("tea",),)
    deep = "(2 " * 9_999 + "(2 tea)" + ")" * 9_999 + "\n"
    (tree,) = read(write(tmp_path / "f", deep), Kind.CLASSIFICATION).examples
    assert tree.sentences == (("tea",),)
