"""The command `selfattn`: its verbs, their help, their mistakes, and the scripts of a clone."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

from selfattn_experiments.commands.verbs import VERBS
from selfattn_tasks.cli import fairseq_command, relative_command, typed_command

# Scripts that are no verbs: they set a clone up, and show it.
OF_A_CLONE = {"demo.py", "setup_env.py", "_setup_checks.py", "_verb.py"}


@pytest.fixture
def selfattn(run_cli, tmp_path):
    """Runs ``python -m selfattn_experiments WORDS`` in a folder of its own."""

    def run(*words, **options):
        return run_cli(["-m", "selfattn_experiments", *words], cwd=tmp_path, **options)

    return run


def test_the_overview_lists_all_verbs_and_needs_no_torch(run_cli):
    code = """
import runpy, sys
sys.argv = ["selfattn", "--help"]
try:
    runpy.run_module("selfattn_experiments", run_name="__main__")
except SystemExit as end:
    print(end.code, *sorted({"torch", "numpy", "fairseq", "argcomplete"} & set(sys.modules)))
from selfattn_experiments.commands.verbs import VERBS
for words in ("predict", "predict sentences", "show", "export"):  # nor need the flags of these
    VERBS[words].load_parser(words)
print("torch" in sys.modules)
"""
    done = run_cli(["-c", code])
    *lines, last, has_torch = done.stdout.splitlines()
    assert (last, has_torch) == ("0", "False"), done.stderr
    for verb in VERBS.values():
        assert f"  {verb.words:<20} {verb.summary}" in lines
    assert max(map(len, lines)) <= 100


def test_each_script_of_a_clone_is_a_verb(repo_root):
    scripts = {path.name for path in (repo_root / "scripts").glob("*.py")}
    assert scripts - OF_A_CLONE == {verb.script for verb in VERBS.values() if verb.script}
    for verb in VERBS.values():
        if verb.script:
            text = (repo_root / "scripts" / verb.script).read_text(encoding="utf-8")
            assert text.startswith(f'"""`selfattn {verb.words}` in a clone;')
            assert len(ast.parse(text).body) == 3, "a script calls its verb and does nothing else"


@pytest.mark.parametrize("words", VERBS)
def test_the_help_of_a_verb_has_an_example_as_it_is_typed(words):
    typed = VERBS[words].load_parser(f"selfattn {words}").format_help()
    assert " ".join(typed.split()).startswith(f"usage: selfattn {words} ")
    assert f"\n  selfattn {words} " in typed
    assert "scripts/" not in typed


def test_the_help_of_a_script_names_scripts(run_cli):
    done = run_cli(["scripts/predict_srl.py", "--help"])
    assert "\n  python scripts/predict_srl.py runs/srl/checkpoint_best.pt --input" in done.stdout
    assert "\n  python scripts/score_srl.py dev.conll dev.props\n" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("", "a verb is missing"),
        ("trian data", "trian is unknown"),
        ("prepare", "prepare is not enough: prepare takes translation, srl, sentences, conll05"),
        ("score bleu x", "score bleu is unknown: score takes translation, srl"),
    ],
)
def test_a_mistake_in_the_verb_is_one_sentence(selfattn, words, said):
    done = selfattn(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"python -m selfattn_experiments: error: {said}")
    assert done.stderr.count("\n") == 1


def test_errors_name_the_command_as_it_was_typed(selfattn, run_cli, repo_root, tmp_path):
    for words in (["--dir", "x"], ["--dir", "none", "--last", "2"]):
        words += ["--output", "y"]
        module = selfattn("average", *words)
        script = run_cli(["scripts/average_checkpoints.py", *words], cwd=tmp_path)
        folder = run_cli([repo_root / "selfattn_experiments", "average", *words], cwd=tmp_path)
        last = [done.stderr.splitlines()[-1] for done in (module, script, folder)]
        message = last[1].removeprefix("average_checkpoints.py: error: ")
        assert message != last[1]
        assert last[0] == last[2] == f"python -m selfattn_experiments average: error: {message}"
        assert module.returncode == script.returncode == folder.returncode == 2


def test_the_help_of_a_group_lists_its_verbs(selfattn):
    done = selfattn("score", "--help").ok()
    assert "  score srl " in done.stdout and "  train " not in done.stdout
    assert selfattn("--version").stdout.startswith("selfattn 0.")


def test_train_fills_in_the_plugin(selfattn, run_cli, tmp_path):
    words = "train data --arch a --max-update 3 --dry-run".split()
    done = selfattn(*words)
    folder = run_cli(["-m", "selfattn_experiments.user_dir"], cwd=tmp_path).stdout
    assert Path(folder.strip()).name in ("plugin", "selfattn_fairseq")  # of a clone, or installed
    line = f"fairseq-train data --arch a --max-update 3 --user-dir {folder}"
    assert (done.returncode, done.stdout) == (0, line)
    done = selfattn(*words, "--user-dir=my own")
    assert done.stdout == "fairseq-train data --arch a --max-update 3 '--user-dir=my own'\n"
    done = selfattn("train", "data", "--user-dir", "nowhere")
    assert done.returncode == 2 and "--user-dir nowhere does not exist" in done.stderr
    done = selfattn("train", "--dry-run")
    assert done.returncode == 2 and "DATA is missing" in done.stderr


@pytest.mark.fairseq
def test_train_becomes_fairseq_train(monkeypatch, run_cli, capsys):
    became = []
    monkeypatch.setattr(os, "execv", lambda program, words: became.append((program, words)))
    words = "no-such-folder --arch transformer_mtsa --cpu --max-tokens 9".split()
    verb = VERBS["train"]
    verb.run(verb.load_parser("selfattn train"), words)
    assert capsys.readouterr().out.startswith(f"fairseq-train {' '.join(words)} --user-dir ")
    ((program, (first, *rest)),) = became
    assert program == first == sys.executable
    assert rest[:2] == fairseq_command("train")[1:]
    done = run_cli(rest)
    assert done.returncode == 1 and "no-such-folder" in done.stderr


@pytest.mark.parametrize(
    ("program", "typed"),
    [
        ("/usr/bin/selfattn", "selfattn compare 'a b'"),
        ("/clone/selfattn_experiments/__main__.py", "selfattn compare 'a b'"),
        ("scripts/compare_bleu.py", "python scripts/compare_bleu.py 'a b'"),
        ("benchmarks/exported.py", "python -m benchmarks.exported 'a b'"),
    ],
)
def test_a_record_names_the_command_as_it_can_be_typed(monkeypatch, program, typed):
    verb = [] if program[0] != "/" else ["compare"]
    monkeypatch.setattr("sys.argv", [program, *verb, "a b"])
    assert typed_command() == typed


def test_a_record_keeps_no_folder_of_its_machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    words = [f"{tmp_path}/a b/grid.yaml", f"--out={tmp_path}/out", f"/other{tmp_path}/data"]
    short = f"'a b/grid.yaml' --out=out /other{tmp_path}/data"
    assert relative_command(["run", *words]) == f"run {short}"
    monkeypatch.setattr("sys.argv", ["/usr/bin/selfattn", *words])
    assert typed_command() == f"selfattn {short}"


@pytest.mark.parametrize(
    ("line", "some", "without"),
    [
        ("selfattn ", {"info", "prepare", "compare", "bench"}, {"srl"}),
        ("selfattn pre", {"prepare", "predict"}, {"train"}),
        ("selfattn score ", {"translation", "srl"}, {"conll05"}),
        ("selfattn score srl --", {"--json", "--confusion"}, {"--ref"}),
    ],
)
def test_a_shell_gets_completions(selfattn, tmp_path, line, some, without):
    pytest.importorskip("argcomplete")
    out = tmp_path / "completions"
    asked = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE": "1"}
    selfattn(**asked, _ARGCOMPLETE_STDOUT_FILENAME=str(out)).ok()
    offered = set(Path(out).read_text().split("\v"))
    offered = {word.strip() for word in offered}
    assert some <= offered and not without & offered
