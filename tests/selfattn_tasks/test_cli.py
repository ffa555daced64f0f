"""Every way in which a command can end, each in a real process."""

import os
import runpy
import signal
import subprocess
import sys

import pytest
import torch

from selfattn.errors import UserError, needed
from selfattn_tasks.cli import fairseq_command

SCRIPT = """
import errno, os, sys, time
from selfattn_tasks.cli import run
from selfattn.errors import UserError

def main():
{body}

run(main, prog="tool")
"""


@pytest.fixture(autouse=True)
def importable(monkeypatch, repo_root):
    monkeypatch.setenv("PYTHONPATH", str(repo_root))


def end_of(tmp_path, body, *words, stdout=subprocess.PIPE, **options):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(body="    " + body))
    options |= {"stdout": stdout, "stderr": subprocess.PIPE, "text": True}
    return subprocess.run([sys.executable, script, *words], **options)


@pytest.mark.parametrize(
    ("body", "code", "stderr"),
    [
        ("return None", 0, ""),
        ("return 3", 3, ""),
        ("raise UserError('--size is 0, but must be 1 or more')", 2,
         "tool: error: --size is 0, but must be 1 or more\n"),
        ("raise KeyboardInterrupt", 130, "tool: error: interrupted\n"),
    ],
    ids=["none", "code", "user-error", "ctrl-c"],
)  # fmt: skip
def test_endings(tmp_path, body, code, stderr):
    done = end_of(tmp_path, body)
    assert (done.returncode, done.stderr) == (code, stderr)


def test_without_stderr(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT.format(body="    print(sys.stderr.isatty())"))
    command = f'"{sys.executable}" script.py 2>&-'
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "False\n")


@pytest.mark.parametrize("name", ["ENOSPC", "EFBIG", "EDQUOT"])
def test_full_disk_is_one_sentence_naming_the_file(tmp_path, name):
    done = end_of(tmp_path, f"raise OSError(errno.{name}, 'x', 'big.bin')")
    assert done.returncode == 1
    assert done.stderr.startswith("tool: error: no space left while writing big.bin")
    assert done.stderr.count("\n") == 1


def test_a_really_full_device(tmp_path):
    done = end_of(tmp_path, "print('x' * 100000, file=open('/dev/full', 'w'))")
    assert done.returncode == 1
    assert "no space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_cannot_be_opened_is_one_sentence(tmp_path):
    done = end_of(tmp_path, "open('missing.txt')")
    assert done.returncode == 1
    assert done.stderr == "tool: error: missing.txt: No such file or directory\n"


def test_other_os_errors_are_bugs_and_keep_their_traceback(tmp_path):
    done = end_of(tmp_path, "os.close(999)")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_sigterm_runs_finally_blocks(tmp_path):
    script = tmp_path / "script.py"
    body = (
        "    try:\n        print('up', flush=True)\n        time.sleep(60)\n"
        "    finally:\n        print('tidied')"
    )
    script.write_text(SCRIPT.format(body=body))
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=20)[0] == "tidied\n"
    assert process.returncode == 143


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(100000): print(i)",
        "print(0)",  # which Python writes at its end
        "import argparse; argparse.ArgumentParser(description='long ' * 99).parse_args(['-h'])",
    ],
    ids=["many lines", "one line", "help"],
)
def test_closed_pipe_is_silent(tmp_path, body, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    reader, writer = os.pipe()
    os.close(reader)
    done = end_of(tmp_path, body, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_an_argument_that_is_no_text_is_refused(tmp_path):
    done = end_of(tmp_path, "print(0)", b"caf\xff")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "tool: error: the argument caf\\xff is not UTF-8 text\n"


def test_text_that_the_locale_cannot_read_is_not_called_wrong(tmp_path):
    env = {name: os.environ[name] for name in ("PATH", "PYTHONPATH")}
    env |= {"LC_ALL": "C", "PYTHONUTF8": "0"}
    done = end_of(tmp_path, "print(0)", "caf\u00e9".encode(), env=env)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the argument caf\\xe9 cannot be read in this locale; set LC_ALL=C.UTF-8" in done.stderr


def test_closed_standard_output_is_no_traceback(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(body="    print(0)"))
    done = subprocess.run(
        ["bash", "-c", f"exec {sys.executable} {script} >&-"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_module_that_is_a_command_ends_in_the_same_way(monkeypatch):
    called = []
    module = "selfattn_experiments.user_dir"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setattr("selfattn_tasks.cli.run", lambda main, prog=None: called.append(prog))
    runpy.run_module(module, run_name="__main__")
    assert called == ["selfattn-user-dir"]


def test_a_package_that_is_missing_or_broken_is_one_sentence(tmp_path, monkeypatch):
    assert needed("json.decoder").JSONDecoder
    with pytest.raises(UserError, match="^PyNone is not installed: install it with `pip install"):
        needed("no_such_package.part", "PyNone")
    with pytest.raises(UserError, match="^no_such_package is not installed"):
        needed("no_such_package.part")
    (tmp_path / "too_old.py").write_text("raise ImportError('it needs numpy>=9\\nTry: pip')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match="^too_old cannot be imported: it needs numpy>=9$"):
        needed("too_old")
    (tmp_path / "unfit.py").write_text("raise OSError('Could not load this library: x.so')")
    with pytest.raises(UserError, match="^unfit cannot be imported: Could not load this library"):
        needed("unfit")
    (tmp_path / "lacking.py").write_text("import no_such_package")
    with pytest.raises(UserError, match="^lacking cannot be imported: No module named 'no_such"):
        needed("lacking")


def test_matmul_precision_of_the_environment(tmp_path, monkeypatch):
    seen = "torch.get_float32_matmul_precision(), torch.backends.cuda.flash_sdp_enabled()"
    on_gpu = torch.cuda.is_available()
    for chosen, expected in (("", "highest True"), ("medium", f"medium {on_gpu}")):
        monkeypatch.setenv("SELFATTN_MATMUL_PRECISION", chosen)
        assert end_of(tmp_path, f"import torch; print({seen})").stdout.strip() == expected
    monkeypatch.setenv("SELFATTN_MATMUL_PRECISION", "low")
    assert end_of(tmp_path, "pass").stderr == (
        "tool: error: SELFATTN_MATMUL_PRECISION=low is not allowed; "
        "it must be one of highest, high, medium\n"
    )


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no -P")
def test_fairseqs_commands_take_no_module_from_the_working_folder(tmp_path, monkeypatch):
    package = tmp_path / "site" / "fairseq_cli"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "train.py").write_text("import sys, tokenize\nprint(sys.argv[1:], 'theirs')\n")
    (tmp_path / "tokenize.py").write_text("raise SystemExit('mine')\n")
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    command = fairseq_command("train", "data", "--cpu")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("['data', '--cpu'] theirs\n", "")
