"""scripts/prepare_translation.py as a user runs it, with good and with bad text."""

import json
import random
import sys

import pytest

from tests.scripts.conftest import refused

pytest.importorskip("sentencepiece")
pytestmark = pytest.mark.fairseq

LANGUAGES = ["--source-lang", "en", "--target-lang", "de"]


@pytest.fixture
def prepare(run_cli, corpus):
    def run(*args, given=True):
        files = ["--train", "corpus/train", "--valid", "corpus/valid", "--test", "corpus/test"]
        words = [*LANGUAGES, *(files if given else []), *args]
        return run_cli(["scripts/prepare_translation.py", *words], cwd=corpus.parent)

    return run


def test_three_splits(prepare, corpus):
    (corpus / "test2.en").write_bytes((corpus / "valid.en").read_bytes())
    (corpus / "test2.de").write_bytes((corpus / "valid.de").read_bytes())
    prepare("--dest", "data/toy", "--vocab-size", "90", "--lowercase",
            "--test", "corpus/test2").ok()  # fmt: skip
    data = corpus.parent / "data" / "toy"
    assert {path.name for path in data.iterdir()} == {
        "data-bin", "prepared.json", "raw", "spm.model", "spm.vocab",
    }  # fmt: skip
    names = {path.name for path in (data / "data-bin").iterdir()}
    for split in ("train", "valid", "test", "test1"):
        assert {f"{split}.en-de.en.bin", f"{split}.en-de.de.idx"} <= names
    dictionary = (data / "data-bin" / "dict.en.txt").read_text("utf-8")
    assert dictionary == (data / "data-bin" / "dict.de.txt").read_text("utf-8")
    assert dictionary == dictionary.lower()
    raw = (data / "raw" / "test.de").read_text("utf-8")
    assert raw == (corpus / "test.de").read_text("utf-8").lower()
    summary = json.loads((data / "prepared.json").read_text("utf-8"))
    assert summary["pairs"] == {"train": 300, "valid": 20, "test": 30, "test1": 20}
    assert summary["options"]["vocab_size"] == 90
    assert len(summary["inputs"]) == 8
    assert all(len(digest) == 64 for digest in summary["inputs"].values())


def test_pair_is_split_and_the_same_every_time(prepare, corpus):
    pair = ["--pair", "corpus/train.en", "corpus/train.de", "--held-out", "12"]
    for name in ("one", "two"):
        prepare(*pair, "--dest", name, "--vocab-size", "90", given=False).ok()
    one, two = corpus.parent / "one", corpus.parent / "two"
    for path in sorted(one.rglob("*")):
        if path.is_file() and path.name != "preprocess.log":
            assert path.read_bytes() == (two / path.relative_to(one)).read_bytes(), path
    pairs = json.loads((one / "prepared.json").read_text("utf-8"))["pairs"]
    assert pairs == {"train": 276, "valid": 12, "test": 12}


def test_an_existing_destination_is_kept_unless_asked(prepare, corpus):
    prepare("--dest", "toy", "--vocab-size", "90").ok()
    before = (corpus.parent / "toy" / "prepared.json").read_bytes()
    refused(prepare("--dest", "toy", "--vocab-size", "80"), "toy already exists", "--overwrite")
    refused(prepare("--dest", "toy", "--vocab-size", "9999", "--overwrite"), "--vocab-size is 9999")
    assert (corpus.parent / "toy" / "prepared.json").read_bytes() == before
    prepare("--dest", "toy", "--vocab-size", "80", "--overwrite").ok()
    assert (corpus.parent / "toy" / "prepared.json").read_bytes() != before
    assert sorted(path.name for path in corpus.parent.iterdir()) == ["corpus", "toy"]


def add_line(path, line):
    path.write_bytes(path.read_bytes() + line)


@pytest.mark.parametrize(
    ("spoil", "args", "words"),
    [
        (lambda c: add_line(c / "train.en", b"one more\n"), [], ["train.en has 301", "de has 300"]),
        (lambda c: (c / "valid.de").unlink(), [], ["--valid is corpus/valid", "corpus/valid.de"]),
        (
            lambda c: (c / "train.de").write_bytes("grün\n".encode("latin-1") * 300),
            [],
            ["corpus/train.de, line 1", "0xfc", "not UTF-8"],
        ),
        (
            lambda c: [add_line(c / f"test.{lang}", b"\n") for lang in ("en", "de")],
            [],
            ["corpus/test.en, line 31: the line is empty"],
        ),
        (
            lambda c: [add_line(c / f"valid.{lang}", b"a " * 300) for lang in ("en", "de")],
            [],
            ["corpus/valid.en, line 21: 300 words are more than --max-length 250"],
        ),
        (
            lambda c: [add_line(c / f"valid.{lang}", b"kd" * 150) for lang in ("en", "de")],
            [],
            ["corpus/valid.de, line 21: more than --max-length 250 SentencePiece pieces"],
        ),
        (
            lambda c: [add_line(c / f"train.{lang}", b"\n") for lang in ("en", "de")],
            ["--strict"],
            ["corpus/train.en, line 301: the line is empty"],
        ),
        (lambda c: None, ["--vocab-size", "99999"], ["--vocab-size is 99999", "at most"]),
        (lambda c: None, ["--max-length", "0"], ["--max-length 0 is not allowed", "at least 1"]),
        (lambda c: None, ["--max-ratio", "nan"], ["--max-ratio is nan", "1 or more"]),
        (lambda c: None, ["--max-ratio", "inf"], ["--max-ratio is inf", "1 or more"]),
        (lambda c: None, ["--vocab-size", "99999999999"], ["99999999999 is not", "at most"]),
        (lambda c: None, ["--workers", "0"], ["--workers 0 is not allowed", "at least 1"]),
        (lambda c: None, ["--workers", "1000000"], ["--workers 1000000 is not", "at most 1024"]),
        (lambda c: None, ["--source-lang", "de"], ["are both 'de'", "must differ"]),
        (lambda c: None, ["--target-lang", "d-e"], ["--target-lang is 'd-e'"]),
        (lambda c: None, ["--pair", "a", "b"], ["--pair cannot be combined"]),
    ],
    ids=["lines", "missing", "encoding", "empty", "long", "pieces", "strict", "vocabulary",
         "max-length", "max-ratio", "infinite", "integer", "workers", "many-workers", "same",
         "language", "pair"],
)  # fmt: skip
def test_bad_input_is_one_sentence_and_writes_nothing(prepare, corpus, spoil, args, words):
    spoil(corpus)
    refused(prepare("--dest", "data", "--vocab-size", "90", *args), *words)
    assert [path.name for path in corpus.parent.iterdir()] == ["corpus"]


@pytest.mark.parametrize("whole", [True, False], ids=["pair", "splits"])
def test_every_dropped_pair_is_counted(prepare, corpus, whole):
    long = bytes(random.Random(1).choices(b"acdehiknot", k=900))
    for lang in ("en", "de"):
        add_line(corpus / f"train.{lang}", b"\n" + b"a " * 300 + b"\n" + long + b"\n")
    pair = ["--pair", "corpus/train.en", "corpus/train.de", "--held-out", "12"]
    args = ["--dest", "data", "--vocab-size", "90", *(pair if whole else [])]
    done = prepare(*args, given=not whole).ok()
    assert "corpus/train.en: dropped 2 of 303 pairs (1 empty, 1 too long)" in done.stdout
    summary = json.loads((corpus.parent / "data" / "prepared.json").read_text("utf-8"))
    expected = {"read": 303, "kept": 300, "empty": 1, "too long": 1, "too many pieces": 1}
    if whole:
        assert summary["counts"] == {"pair": {**expected, "duplicates left out": 0}}
        assert sum(summary["pairs"].values()) == 300
        return
    assert summary["counts"]["train"] == expected
    assert summary["pairs"] == {name: n["kept"] for name, n in summary["counts"].items()}


def test_what_looks_wrong_is_warned_about(prepare, corpus):
    english = (corpus / "valid.en").read_bytes()
    (corpus / "valid.en").write_bytes((corpus / "valid.de").read_bytes())
    (corpus / "valid.de").write_bytes(english)
    done = prepare("--dest", "data", "--vocab-size", "90").ok()
    assert "warning: corpus/valid.en and corpus/valid.de: pairs whose words are " in done.stdout
    (warning,) = json.loads((corpus.parent / "data/prepared.json").read_text("utf-8"))["warnings"]
    assert warning in done.stdout


def test_a_full_disk_leaves_nothing(run_cli, corpus, repo_root):
    """A limit on the size of files stands for the full disk."""
    script = repo_root / "scripts" / "prepare_translation.py"
    command = (
        f"ulimit -f 4; trap '' XFSZ; exec \"$PYTHON\" '{script}' --source-lang en "
        "--target-lang de --train corpus/train --valid corpus/valid --dest data --vocab-size 90"
    )
    done = run_cli(["-c", command], python="bash", cwd=corpus.parent, PYTHON=sys.executable)
    assert done.returncode == 1, done.stderr
    assert "no space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in corpus.parent.iterdir()] == ["corpus"]
