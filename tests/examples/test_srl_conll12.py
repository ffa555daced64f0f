"""examples/srl_conll12: its scripts, on small files in the layout of the shared task."""

import sys
from dataclasses import replace

import pytest

from selfattn.errors import UserError
from selfattn_tasks.srl import Proposition, Sentence
from selfattn_tasks.srl.formats import conll
from selfattn_tasks.srl.tagger.request import read_queries
from tests.plugin.srl_corpus import sentences
from tests.selfattn_tasks.srl.writers import write_conll12

FOLDERS = {"train": "v4/data/train", "dev": "v4/data/development", "test": "v9/data/test"}
SIZES = {"train": (60, 1), "dev": (12, 2), "test": (12, 3)}


def as_ontonotes(sentence: Sentence) -> Sentence:
    """With OntoNotes' names of labels."""

    def renamed(proposition: Proposition) -> Proposition:
        spans = proposition.spans
        labels = [s.label.replace("AM-", "ARGM-").replace("A0", "ARG0") for s in spans]
        labels = [f"ARG{label[1:]}" if label in ("A1", "A2") else label for label in labels]
        return replace(
            proposition,
            spans=tuple(replace(s, label=name) for s, name in zip(spans, labels, strict=True)),
        )

    return replace(sentence, propositions=tuple(map(renamed, sentence.propositions)))


@pytest.fixture
def data(tmp_path):
    """Two documents of each part, one of them with two parts; what is not gold is not read."""
    for part, (number, seed) in SIZES.items():
        found = [as_ontonotes(sentence) for sentence in sentences(number, seed)]
        for i, content in enumerate((found[: number // 2], found[number // 2 :])):
            name = f"nw/{part}/00/{part}_{i:04}"
            path = tmp_path / FOLDERS[part] / "data/english/annotations" / f"{name}.v4_gold_conll"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_conll12(path, content, name)
            if i:
                text = path.read_text()
                path.write_text(text + text.replace("part 000", "part 001"))
            path.with_suffix(".v4_auto_conll").write_text("not read\n")
    return tmp_path


def english(part):
    return f"{FOLDERS[part]}/data/english"


@pytest.fixture
def check(data, run_cli):
    def run(*flags):
        script = "examples/srl_conll12/check_data.py"
        folders = [word for part in SIZES for word in (f"--{part}", english(part))]
        return run_cli([script, *folders, *flags], cwd=data)

    return run


def test_counts(check):
    done = check("--any-counts").ok()
    first = done.stdout.splitlines()[0]
    assert first.split()[:6] == ["train", "2", "files,", "3", "parts,", "90"]
    expected = [as_ontonotes(s) for s in sentences(60, 1)]
    found = sum(len(s.propositions) for s in (*expected, *expected[30:]))
    assert f" {found} propositions: no known release" in first


def test_other_counts_are_refused(check):
    done = check()
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "has 2 files with 3 parts, but published are 1,940 files with 2,802 parts" in done.stderr


def test_a_document_in_two_parts_is_refused(check, data):
    (source,) = data.rglob("train_0000.v4_gold_conll")
    (data / english("test") / "annotations" / source.name).write_bytes(source.read_bytes())
    done = check("--any-counts")
    assert done.returncode == 2
    assert "nw/train/00/train_0000 is both in --train and in --test" in done.stderr


def test_a_malformed_sentence_is_named(check, data):
    (path,) = data.rglob("dev_0000.v4_gold_conll")
    path.write_text(path.read_text().replace("(V*)", "(V*", 1))
    done = check("--any-counts")
    assert done.returncode == 2 and "dev_0000.v4_gold_conll, line " in done.stderr


def test_a_file_that_was_cut_off_is_refused(check, data):
    (path,) = data.rglob("dev_0000.v4_gold_conll")
    path.write_text(path.read_text()[: path.read_text().index("\n\n") + 2])  # its first sentence
    done = check("--any-counts")
    assert done.returncode == 2
    assert "dev_0000.v4_gold_conll has 1 #begin document but 0 #end document" in done.stderr


def test_words_that_were_not_filled_in(check, data, run_cli):
    """In one file of two: the check names it, `selfattn prepare srl` and `predict` the folder."""
    (path,) = data.rglob("train_0000.v4_gold_conll")
    found = conll.read(path)
    write_conll12(path, [replace(s, words=("[WORD]",) * len(s.words)) for s in found])
    message = "sentences every word is [WORD]: fill the words in by OntoNotes' skeleton2conll.sh\n"
    done = check("--any-counts")
    assert done.returncode == 2
    assert done.stderr.endswith(f"/train/00/train_0000.v4_gold_conll: in 30 of 30 {message}")
    files = ["--train", english("train"), "--valid", english("dev"), "--dest", "data-bin"]
    done = run_cli(["scripts/prepare_srl.py", *files], cwd=data)
    assert done.returncode == 2
    assert done.stderr.endswith(f"{english('train')}: in 30 of 90 {message}")
    with pytest.raises(UserError, match=r"every word is \[WORD\]"):
        read_queries(data / english("train"))


@pytest.mark.fairseq
def test_from_the_files_to_the_score(data, run_cli):
    vectors = data / "vectors.txt"
    vectors.write_text("the " + " ".join(["0.1"] * 16) + "\nkettle" + " 0.2" * 16 + "\n")
    options = {"python": "bash", "cwd": data, "PYTHON": sys.executable, "ANY_COUNTS": "1"}

    def run(name, *words):
        return run_cli([f"examples/srl_conll12/{name}", *words], **options).ok().stdout

    said = run("prepare.sh", *map(english, SIZES), "data-bin")
    assert "valid       18 sentences" in said
    assert "18 sentences" in run("prepare.sh", *map(english, SIZES), "data-bin", "--overwrite")
    mistyped = ["examples/srl_conll12/evaluate.sh", "nowhere", "data-bin"]
    assert run_cli(mistyped, **options | {"PYTHON": "false"}).returncode == 1
    assert not (data / "nowhere").exists()
    flags = "--max-update 4 --encoder-layers 1 --encoder-embed-dim 32 --encoder-attention-heads 2"
    flags += " --max-tokens 500 --num-workers 0"
    run("train.sh", "deepatt_cnn", "1", vectors, "data-bin", "run", *flags.split())
    said = run("evaluate.sh", "run", "data-bin")
    assert [line for line in said.splitlines() if line.startswith("==")] == ["== valid", "== test"]
    assert said.count("Overall") == 2
    gold = conll.read(data / "data-bin/test.conll")
    assert {s.label for g in gold for p in g.propositions for s in p.spans} >= {"ARG0", "V"}
    found = conll.read(data / "run/test.props", lenient=True)
    assert [len(s.propositions) for s in found] == [len(s.propositions) for s in gold]
