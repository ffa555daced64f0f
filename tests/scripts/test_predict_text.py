"""`selfattn predict` on raw text: arguments, standard input and prose, in every form."""

import hashlib
import html.parser
import io
import json
import os
import threading
from argparse import ArgumentParser, Namespace
from types import SimpleNamespace

import pytest

from selfattn.errors import UserError
from selfattn_experiments.commands import predict as predict_command
from selfattn_experiments.commands.predict import put
from selfattn_experiments.commands.predict import texts as texts_of
from selfattn_experiments.commands.predict_sentences import wanted
from selfattn_tasks.sentences.record import Kind
from selfattn_tasks.sentences.tokens import Tokens
from selfattn_tasks.srl import Text, read
from selfattn_tasks.srl.text.segmentation import Segmenter
from tests.scripts.test_show_attention import save_tagger

pytest.importorskip("nltk")

TEXT = "The old cat chased a mouse. <b>It</b> wasn't chased & left."


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    save_tagger(folder / "checkpoint_best.pt", "mtsa", "sentence")
    return folder


@pytest.fixture
def predict(folder, run_cli):
    def run(*args, **options):
        command = ["scripts/predict_srl.py", "--model", folder, *args]
        return run_cli(command, cwd=folder, **options)

    return run


class Cells(html.parser.HTMLParser):
    """The text of a page's table cells, and every tag of the page."""

    def __init__(self):
        super().__init__()
        self.cells, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "td":
            self.cells.append("")

    def handle_data(self, data):
        if self.cells and self.lasttag == "td":
            self.cells[-1] += data.strip()


def test_a_text_as_text_and_columns(predict, folder):
    done = predict(TEXT, "--predicates", "chased").ok()
    assert done.stdout.startswith("The  old  cat  chased  a  mouse  .\n")
    assert "[V" in done.stdout and "was  n't  chased" in done.stdout
    predict(TEXT, "--predicates", "chased", "--output", "out.conll").ok()
    first, second = read(folder / "out.conll", lenient=True)
    assert first.words[:3] == ("The", "old", "cat")
    assert [p.predicate for p in (*first.propositions, *second.propositions)] == [3, 9]


def test_the_speed_does_not_count_loading(folder, monkeypatch):
    calls = []
    clock = SimpleNamespace(perf_counter=lambda: calls.append("clock") or float(len(calls)))
    monkeypatch.setattr(predict_command, "time", clock)
    made = lambda **given: calls.append("segmenter") or Segmenter(**given)  # noqa: E731
    monkeypatch.setattr("selfattn_tasks.srl.text.model.Segmenter", made)
    parser = ArgumentParser()
    predict_command.add_flags(parser)
    words = ["--model", str(folder), TEXT, "--predicates", "chased"]
    predict_command.main(parser.parse_args(words))
    assert calls == ["segmenter", "clock", "clock"]


def test_a_standard_output_that_is_closed(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(UserError, match="standard output is closed; give --output FILE"):
        put(["text"], Namespace(output=None))


def test_a_tab_parts_predicates_on_standard_input_alone():
    for texts, sentence in (["Cats\tsleep"], None), ([], ["Cats\tsleep"]):
        given = Namespace(prose=None, texts=texts, sentence=sentence, predicates=None)
        assert list(texts_of(given)) == [Text("Cats\tsleep", flag="--predicates")]


def test_empty_texts_are_counted():
    given = Namespace(prose=None, texts=["", "Cats sleep"], sentence=None, predicates=["sleep"])
    assert [text.predicates for text in texts_of(given)] == [(), ("sleep",)]


def test_json_lines_of_prose_name_characters_of_the_file(predict, folder):
    content = f"A title\r\n\r\n{TEXT}\r\n\r\nThey\r\nchased us 😀 twice."
    (folder / "prose.txt").write_bytes(content.encode())
    done = predict("--prose", "prose.txt", "--predicates", "chased", "--format", "jsonl",
                   "--confidence").ok()  # fmt: skip
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [record["document"] for record in records] == [0, 1, 1, 2]
    text = content.replace("\r\n", "\n")
    for record in records:
        start, end = record["chars"]
        assert text[start:end] == record["text"]
        assert [text[a:b] for a, b in record["offsets"]] == record["words"]
        for proposition in record["propositions"]:
            assert 0 < proposition["confidence"] <= 1
            for span in proposition["spans"]:
                start, end = span["chars"]
                assert text[start:end] == span["text"]
    assert [len(record["propositions"]) for record in records] == [0, 1, 1, 1]


def test_a_line_may_lack_the_named_word(predict):
    lines = "The cat chased a mouse.\n\nIt slept.\n\tIt chased us.\n"
    done = predict("--format", "jsonl", "--predicates", "chased", "chsed", "9", stdin=lines).ok()
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [len(record["propositions"]) for record in records] == [1, 0, 1]
    assert [record["document"] for record in records] == [0, 2, 3], "empty lines count"
    warned = [line for line in done.stderr.splitlines() if line.startswith("--predicates")]
    assert warned == [
        "--predicates chsed: no text has this word",
        "--predicates 9: no text has this word, nor this position as one sentence",
    ]
    done = predict("--predicates", "2", "3", stdin="It got away. It slept.\nIt ran .\n").ok()
    assert "--predicates 2" not in done.stderr and "--predicates 3: no text has" in done.stderr


def test_a_page_shows_the_words_and_nothing_that_they_hold(predict, folder):
    text = "<script>alert('x')</script> \"chased\" <img src=x onerror=alert(1)> &amp; 茶"
    predict("--output", "out.html", "--predicates", "chased", stdin=f"\n{text}\n\n").ok()
    page = Cells()
    page.feed((folder / "out.html").read_text("utf-8"))
    assert page.tags == {"html", "head", "meta", "title", "style", "body", "div", "table", "tr",
                         "td"}  # fmt: skip
    assert "".join(cell for cell in page.cells if cell not in ("V", "A0")) == text.replace(" ", "")
    assert "V" in page.cells


@pytest.mark.parametrize(
    ("args", "stdin", "sentence"),
    [
        (["It ran."], "", "trained without predicate identification: name the predicates"),
        (["It ran.", "--predicates", "swam"], "", "--predicates swam is neither a word"),
        ([], "It ran.\tran\nIt cost\t5 $.\n", "standard input, line 2, after the tab: 5 is nei"),
        (["--predicates", "ran", "It ran."], "", "not 'It ran.'; a TEXT comes before the flag"),
        (["It ran.", "--output", "o.xml"], "", "--output o.xml must end in .json, .jsonl, .conll"),
        ([" "], "", "there is no sentence"),
        (["--predicates", "ran"], "\n \n", "there is no sentence"),
        (["It ran.", "--prose", "a.txt"], "", "a TEXT cannot go with"),
        (["--input", "/dev/null"], "", "is no regular file, but is read more than once"),
        (["--input", "a.txt", "--tokenized"], "", "--tokenized is for texts"),
        (["It ran.", "--word-column", "2"], "", "--word-column needs --input"),
        (["It ran.", "--confidence"], "", "--confidence needs --format json or jsonl"),
        (["It ran.", "--output", "checkpoint_best.pt", "--format", "props"], "", "would be lost"),
        (["--prose", "missing.txt", "--predicates", "a"], "", "there is no file missing.txt"),
        (["It ran.", "--predicates", "ran", "--output", "none/x"], "", "there is no folder"),
    ],
)
def test_refused(predict, args, stdin, sentence):
    done = predict(*args, stdin=stdin)
    assert done.returncode == 2 and sentence in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr and not done.stdout


@pytest.mark.parametrize("typed", [None, []], ids=["predict sentences", "predict"])
def test_a_person_is_told_to_type_sentences(monkeypatch, capsys, typed):
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"a b\n")))
    stdin.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", stdin)
    args = Namespace(input=None, sentence=typed, tokenized=True)
    (example,) = wanted(args, Kind("classification"), Tokens(), {})
    assert example.sentences == (("a", "b"),)
    assert capsys.readouterr().err == "Type sentences, one per line; Ctrl-D ends.\n"


def test_empty_lines_are_left_out_with_a_warning(monkeypatch, caplog):
    """What follows one in a pair is of the next line."""
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"a\n\nb\n")))
    monkeypatch.setattr("sys.stdin", stdin)
    args = Namespace(input=None, sentence=None, tokenized=True)
    (example,) = wanted(args, Kind("nli"), Tokens(), {})
    assert example.sentences == (("a",), ("b",))
    assert caplog.messages == ["lines without a sentence are left out: 1"]


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("exported", [False, True])
def test_the_corpus_of_folds_is_named_where_it_is_known(tmp_path, caplog, piped, exported):
    path, corpus = tmp_path / "cr", b"1 good\n0 bad\n"
    if piped:
        os.mkfifo(path)
        threading.Thread(target=path.write_bytes, args=[corpus]).start()
    else:
        path.write_bytes(corpus)
    args = Namespace(input=[path], sentence=None, tokenized=False)
    inputs = {"cr": hashlib.sha256(corpus).hexdigest()}
    meta = {"folds": 3} | ({} if exported else {"inputs": inputs})
    assert len(wanted(args, Kind("classification"), Tokens(), meta)) == 2
    assert ("is the corpus that was cut into folds" in caplog.text) is not (piped or exported)


def test_the_translation_model_that_comes_with_the_package(run_cli, tmp_path):
    pytest.importorskip("transformers")
    command = ["scripts/predict_srl.py", "--model", "translation-en-de-small"]
    done = run_cli(command, cwd=tmp_path, stdin="Save changes\n\nYour password is wrong.\n").ok()
    assert done.stdout == "Änderungen speichern\n\nDein Passwort ist falsch.\n"
    assert done.stderr.startswith("3 lines in "), done.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            ["--model", "srl-en-small", "text.txt"],
            "text.txt is a file; give it as --input text.txt",
        ),
        (["A dog runs."], "'A dog runs.' is no checkpoint; a text needs --model MODEL before it"),
    ],
)
def test_a_text_is_neither_a_file_nor_a_checkpoint(given, message, run_cli, tmp_path):
    (tmp_path / "text.txt").write_text("The cat chased a mouse.\n")
    done = run_cli(["scripts/predict_srl.py", *given], cwd=tmp_path)
    assert done.returncode != 0 and message in done.stderr


def test_the_model_that_comes_with_the_package(run_cli, tmp_path):
    pytest.importorskip("safetensors")
    text = "The cat chased a mouse. It got away."
    done = run_cli(["scripts/predict_srl.py", "--model", "srl-en-small", text], cwd=tmp_path).ok()
    assert done.stdout.split("\n")[:2] == [
        "The  cat  chased  a  mouse  .",
        "[A0----]  [V---]  [A1----]",
    ]
    (tmp_path / "srl-en-small").mkdir()  # what is there comes first
    command = ["scripts/predict_srl.py", "--model", "srl-en-small", "The cat."]
    done = run_cli(command, cwd=tmp_path)
    assert "srl-en-small holds no checkpoint_best.pt" in done.stderr
