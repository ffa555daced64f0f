"""Every option of every script that names a file or a folder, with bad ones: one sentence each."""

import gzip
import os
import runpy
import shutil
import tarfile

import pytest
import torch

from selfattn_tasks.sentences.model.network import SentenceModel, SentenceModelConfig
from selfattn_tasks.sentences.model.state import KEY, PREFIX, SentenceState
from selfattn_tasks.sentences.record import NLI_LABELS
from selfattn_tasks.words.vocabulary import Vocabulary
from tests.scripts.test_show_attention import save_tagger

pytest.importorskip("matplotlib")
pytest.importorskip("yaml")

CONLL = "We - (A0*) (A0*\npoured pour (V*) *)\ntea - (A1* *\nto - * *\ndrink drink *) (V*)\n\n"
PROPS = "".join(line.partition(" ")[2] + "\n" for line in CONLL.splitlines())
LOG = (
    '2026-01-31 12:00:00 | INFO | train_inner | {"update": 0.5, "loss": "5", "num_updates": "1"}\n'
)
GRID = """
task: translation
data: data
output: out
seeds: [1]
common: --arch tiny --max-update 10
systems: {base: --dropout 0.1}
references: a.txt
user_dir: plugin
"""
# No sentence holds these names by chance.
READ = "bad.folder bad.missing bad.file/x bad.loop bad.bytes bad.empty bad.gz".split()
WRITTEN = "bad.folder bad.missing/x bad.file/x bad.loop /proc/x".split()
MADE = "bad.file bad.file/x bad.loop /proc/x".split()

# Command lines whose files are in the folder below; then the words that are read, written, made.
COMMANDS = [
    ("average_checkpoints --inputs tagger.pt --output o.pt", "tagger.pt", "o.pt", ""),
    ("average_checkpoints --dir folder --last 1 --output o.pt", "folder", "", ""),
    (
        "compare_bleu --ref a.txt --baseline b.txt --system c.txt --samples 100 --metrics bleu "
        "--json o.json --csv o.csv --markdown o.md --latex o.tex --plots o",
        "a.txt b.txt c.txt", "o.json o.csv o.md o.tex", "o",
    ),
    ("export_model --to hf tagger.pt o --record run.json", "tagger.pt run.json", "", "o"),
    ("export_model --to fairseq folder o.pt", "folder", "o.pt", ""),
    ("export_model --to onnx tagger.pt o", "tagger.pt", "", "o"),
    ("../selfattn_experiments/__main__ page tagger.pt", "tagger.pt", "", ""),
    ("plot_curves train.log --output o.svg", "train.log", "o.svg", ""),
    ("predict_srl tagger.pt --input a.conll --output o.props", "tagger.pt a.conll", "o.props", ""),
    ("predict_srl --model tagger.pt --prose a.txt --predicates old --output o.html",
     "tagger.pt a.txt", "o.html", ""),
    ("predict_sentences pairs.pt --input a.tsv --output o.tsv --embeddings o.npy",
     "pairs.pt a.tsv", "o.tsv o.npy", ""),
    ("prepare_conll05 --treebank folder --archive a.tgz --dest o", "folder a.tgz", "", "o"),
    ("prepare_sentences --task nli --train a.tsv --valid b.tsv --test c.tsv "
     "--vectors v.txt --dest o",
     "a.tsv b.tsv c.tsv v.txt", "", "o"),
    ("prepare_srl --train a.conll --valid b.conll --test c.conll --dest o",
     "a.conll b.conll c.conll", "", "o"),
    ("prepare_translation --source-lang en --target-lang de --train a --valid b --test c --dest o",
     "a b c", "", "o"),
    ("prepare_translation --source-lang en --target-lang de --pair a.en a.de --dest o",
     "a.en a.de", "", ""),
    ("run_seeds grid.yaml --slurm o", "grid.yaml", "", "o"),
    ("score_sentences a.tsv b.tsv", "a.tsv b.tsv", "", ""),
    ("score_srl a.conll b.conll", "a.conll b.conll", "", ""),
    ("srl_table folder --gold folder2 --markdown o.md --latex o.tex",
     "folder folder2", "o.md o.tex", ""),
    ("score_translation a.txt --ref b.txt --save o.txt", "a.txt b.txt", "o.txt", ""),
    ("show_attention tagger.pt old --predicate old --output o --json o.json",
     "tagger.pt", "o.json", ""),
    ("simulate_tests --repetitions 1 --output o.md --plot o.svg", "", "o.md o.svg", ""),
    ("bench_attention --read a.csv --compare b.csv --csv o.csv --plots o",
     "a.csv b.csv", "o.csv", "o"),
    ("bench_attention --list --methods-module a.py", "a.py", "", ""),
    ("demo --pair a.en a.de --held-out 1 --dir o", "a.en a.de", "", "o"),
    ("../examples/wmt14_en_de/prepare --archives folder --sources a.json --dest o",
     "folder a.json", "", "o"),
    ("../examples/wmt14_en_de/score --run folder --name x --checkpoint tagger.pt --output a.txt "
     "--data data", "tagger.pt a.txt data", "", "folder"),
    ("../examples/wmt14_en_de/table folder", "folder", "", ""),
    ("../examples/srl_ewt/build_data --propbank folder --words folder2 --dest o",
     "folder folder2", "", "o"),
    ("../examples/srl_conll12/check_data --train folder --dev folder2 --test data",
     "folder", "", ""),
]  # fmt: skip
CASES = [
    (command, word, bad)
    for command, *groups in COMMANDS
    for words, kinds in zip(groups, (READ, WRITTEN, MADE), strict=True)
    for word in words.split()
    for bad in kinds
]


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    path = tmp_path_factory.mktemp("tagger") / "tagger.pt"
    save_tagger(path, "mtsa")
    return path


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """A checkpoint of inference."""
    path = tmp_path_factory.mktemp("pairs") / "pairs.pt"
    config = SentenceModelConfig("nli", 3, 3, embed_dim=4, context="none", hidden_size=2)
    meta = {"kind": "nli", "labels": list(NLI_LABELS), "tokens": {}, "sst": None}
    state = SentenceState(Vocabulary(("a", "b", "c"), NLI_LABELS), meta, config)
    weights = SentenceModel(config).state_dict().items()
    model = {f"{PREFIX}{name}": value for name, value in weights}
    torch.save({"model": model, "args": {"arch": "x"}, "task_state": {KEY: state.dump()}}, path)
    return path


@pytest.fixture
def place(tmp_path, repo_root, monkeypatch, tagger, pairs):
    """The current folder, with what the right command lines name, and with bad things."""
    monkeypatch.chdir(tmp_path)
    ewt = tmp_path / "folder" / "data" / "google" / "ewt" / "answers"
    listed = tmp_path / "folder" / "docs" / "evaluation"
    for name in ("folder2", "data/text", "plugin", "bad.folder", ewt, listed):
        (tmp_path / name).mkdir(parents=True)
    (ewt / "x.xml.gold_skel").write_text("x 0 0 [WORD] UH (TOP*) - -\n")
    (listed / "ewt.train.txt").write_text("answers/00/x.xml.conllu\n")
    (tmp_path / "folder" / "valid.props").write_text(PROPS)
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).symlink_to(repo_root / "examples/benchmarks/layer-training-cpu.csv")
    (tmp_path / "a.json").symlink_to(repo_root / "examples/wmt14_en_de/sources.json")
    tarfile.open(tmp_path / "a.tgz", "w:gz").close()
    for name in ("a.conll", "b.conll", "c.conll"):
        (tmp_path / name).write_text(CONLL)
    for name in ("a.tsv", "b.tsv", "c.tsv"):
        rows = "neutral\ta b\tc\nentailment\tb\tc\n" * 4
        (tmp_path / name).write_text("label\tpremise\thypothesis\n" + rows)
    (tmp_path / "run.json").write_text("{}")
    (tmp_path / "v.txt").write_text("a 1 2\n")
    for name in ("a.txt", "b.txt", "c.txt", "data/text/reference.de", "data/dict.de.txt"):
        (tmp_path / name).write_text(f"{name} d e f\ng h i\n")
    for name in ("a", "b", "c"):
        for language in ("en", "de"):
            (tmp_path / f"{name}.{language}").write_text("a b c\nd e f\ng h\n" * 4)
    (tmp_path / "tagger.pt").symlink_to(tagger)
    (tmp_path / "pairs.pt").symlink_to(pairs)
    (tmp_path / "train.log").write_text(LOG)
    (tmp_path / "grid.yaml").write_text(GRID)
    (tmp_path / "bad.bytes").write_bytes(b"\xff\xfe\x00\x80\n" * 3)
    (tmp_path / "bad.gz").write_bytes(gzip.compress(b"hello\n" * 100)[:20])
    (tmp_path / "bad.loop").symlink_to("bad.loop")
    for name in ("bad.empty", "bad.file"):
        (tmp_path / name).touch()
    for bad in READ[3:]:  # for options that name PREFIX.en and PREFIX.de
        for language in ("en", "de"):
            (tmp_path / f"{bad}.{language}").symlink_to(bad)
    return tmp_path


@pytest.mark.parametrize(("command", "word", "bad"), CASES, ids=lambda text: text.split()[0])
def test_a_bad_file_is_one_sentence(command, word, bad, place, repo_root, monkeypatch, capsys):
    script, *words = command.split()
    words = [bad if each == word else each for each in words]
    monkeypatch.setattr("sys.argv", [script, *words])
    monkeypatch.syspath_prepend(repo_root / "scripts")
    before = sorted(place.rglob("*"))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(repo_root / "scripts" / f"{script}.py"), run_name="__main__")
    said = capsys.readouterr().err
    assert ended.value.code in (1, 2), said
    assert ": error: " in said.splitlines()[-1] and "Traceback" not in said
    assert "unrecognized arguments" not in said
    without_sentence = "--prose" in command and (word, bad) == ("a.txt", "bad.empty")
    assert ("there is no sentence" if without_sentence else bad) in said.splitlines()[-1]
    # The demo notes how long each of its steps took, also one that failed.
    assert script == "demo" or sorted(place.rglob("*")) == before, "something was written"


@pytest.mark.parametrize(
    "first",
    ["compare_bleu --ref a.txt", "score_sentences a.tsv", "score_srl a.conll",
     "score_translation a.txt", "prepare_srl --train a.conll"],
)  # fmt: skip
def test_a_pipe_that_would_be_read_twice(first, place, repo_root, monkeypatch, capsys):
    (command,) = (c for c, *_ in COMMANDS if c.startswith(first))
    script, *words = command.replace(first.split()[-1], "pipe", 1).split()
    os.mkfifo("pipe")
    monkeypatch.setattr("sys.argv", [script, *words])
    monkeypatch.syspath_prepend(repo_root / "scripts")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(repo_root / "scripts" / f"{script}.py"), run_name="__main__")
    assert ended.value.code == 2
    assert "pipe is no regular file, but is read more than once" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    ["predict_sentences folder2 --sentence a --sentence b --output",
     "predict_sentences folder2 --sentence a --sentence b --embeddings",
     "predict_srl --model folder2 --sentence a --sentence b --format text --output",
     "show_attention folder2 a b --json"],
)  # fmt: skip
@pytest.mark.parametrize(
    "files", ["checkpoint_best.pt", "generation_config.json model.safetensors"]
)
def test_the_model_in_a_folder_is_not_overwritten(
    words, files, place, repo_root, monkeypatch, capsys
):
    for name in files.split():
        shutil.copy("pairs.pt", f"folder2/{name}")
    model = f"folder2/{files.split()[0]}"
    monkeypatch.setattr("sys.argv", [*words.split(), model])
    monkeypatch.syspath_prepend(repo_root / "scripts")
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(repo_root / "scripts" / f"{words.split()[0]}.py"), run_name="__main__")
    assert ended.value.code == 2
    assert f"{model} is one of the inputs, which would be lost" in capsys.readouterr().err
