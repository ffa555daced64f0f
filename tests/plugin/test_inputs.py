"""Data and sentences that cannot be used: one sentence, exit code not 0."""

import shutil

import pytest

from tests.plugin.helpers import sentence

INTERACTIVE = ["--user-dir", "plugin", "--cpu", "--source-lang", "src", "--target-lang", "tgt"]


@pytest.fixture
def interactive(toy_run, toy_data, run_module):
    def translate(text, *args):
        path = ["--path", toy_run / "checkpoint_best.pt"]
        return run_module(
            "fairseq_cli.interactive", [toy_data, *INTERACTIVE, *path, *args], stdin=text
        )

    return translate


def test_interactive_translates(interactive):
    done = interactive("a1 b2 c3\nb1 unheard\n")
    assert done.returncode == 0, done.stderr
    assert [line[:4] for line in done.stdout.splitlines() if line[:2] == "D-"] == ["D-0\t", "D-1\t"]


@pytest.mark.parametrize("empty", ["", "   "], ids=["nothing", "spaces"])
def test_interactive_empty_line(interactive, empty):
    done = interactive(f"a1 b2\nb1\n{empty}\nc3\n", "--buffer-size", "2")
    assert "line 3 of the input is empty" in sentence(done, "fairseq-interactive")
    # what was translated before stays
    assert sum(line.startswith("H-") for line in done.stdout.splitlines()) == 2


def test_interactive_long_line(interactive):
    done = interactive("a1 b2\n" + "a1 " * 30 + "\n", "--max-source-positions", "20")
    line = sentence(done, "fairseq-interactive")
    assert "line 2 of the input is too long: it has (31, 0) tokens" in line and "20" in line
    assert "H-0" in done.stdout


def test_generate_long_sentence(toy_run, toy_generate):
    done = toy_generate(toy_run / "checkpoint_best.pt", ["--max-source-positions", "4"])
    line = sentence(done, "fairseq-generate")
    assert "of the data is too long" in line and "--skip-invalid-size-inputs-valid-test" in line


def test_sentence_beyond_max_tokens(toy_run, toy_generate):
    done = toy_generate(toy_run / "checkpoint_best.pt", ["--max-tokens", "3"])
    line = sentence(done, "fairseq-generate")
    assert "--max-tokens is 3, but the longest sentence has 6 tokens" in line


@pytest.mark.parametrize("missing", ["folder", "dictionary", "split", "all"])
def test_missing_data(missing, toy_data, toy_train, tmp_path):
    data = tmp_path / "data-bin"
    if missing == "all":
        data.mkdir()
        expected = "holds no binarised text"
    elif missing == "folder":
        expected = f"the data folder {data} does not exist"
    else:
        shutil.copytree(toy_data, data)
        pattern = {"dictionary": "dict.tgt.txt", "split": "valid.*"}[missing]
        for path in data.glob(pattern):
            path.unlink()
        expected = {"dictionary": "dict.tgt.txt does not exist", "split": "has no valid set"}[
            missing
        ]
    line = sentence(toy_train(["--save-dir", tmp_path / "run"], data=data), "fairseq-train")
    assert expected in line and str(data) in line


def test_bleu_of_pieces_is_warned_about(toy_text, toy_train, run_module, tmp_path):
    for path in toy_text.iterdir():
        words = path.read_text().replace(" ", " \u2581")
        (tmp_path / path.name).write_text(words, encoding="utf-8")
    prefixes = [f"--{split}pref={tmp_path / split}" for split in ("train", "valid")]
    data = tmp_path / "data-bin"
    flags = ["--source-lang=src", "--target-lang=tgt", *prefixes, "--destdir", data]
    assert run_module("fairseq_cli.preprocess", flags).returncode == 0
    bleu = ["--eval-bleu", "--eval-bleu-args", '{"beam": 1}', "--no-save", "--max-update", "1"]
    done = toy_train(bleu, data=data)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("WRONG BLEU AHEAD: --eval-bleu scores SentencePiece pieces") == 1
    done = toy_train([*bleu, "--eval-bleu-remove-bpe", "sentencepiece"], data=data)
    assert done.returncode == 0 and "WRONG BLEU" not in done.stdout
