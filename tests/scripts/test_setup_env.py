"""The set-up: what is missing gives one sentence, and what was cut short is mended."""

from __future__ import annotations

import ast
import json
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections import namedtuple
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "setup_env.py"
sys.path.insert(0, str(SCRIPT.parent))

import _setup_checks as checks  # noqa: E402
import setup_env  # noqa: E402

sys.path.remove(str(SCRIPT.parent))

Usage = namedtuple("Usage", "total used free")
NOTHING = setup_env.Step("x", "a title", [], [])
fits = pytest.mark.skipif(
    sys.version_info[:2] not in checks.FITTING, reason="the set-up refuses this Python"
)


def one_sentence(stderr: str) -> str:
    lines = stderr.strip().splitlines()
    assert len(lines) == 1, stderr
    assert lines[0].startswith("setup_env.py: error: ")
    return lines[0]


def fake_wheel(folder: Path, name: str = "tinything") -> Path:
    """A real wheel with one module, for pip to install without a network."""
    info = f"{name}-1.0.dist-info"
    files = {
        f"{name}.py": "VALUE = 1\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, text in files.items():
            wheel.writestr(inside, text)
    return path


# -- Before anything is written -------------------------------------------------------------------


@pytest.mark.parametrize("path", [SCRIPT, SCRIPT.with_name("_setup_checks.py")])
def test_an_old_python_can_read_it(path):
    ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 6))


@pytest.mark.parametrize("found", [(3, 6, 15), (3, 10, 1), (3, 13, 0), (4, 0, 0)])
def test_a_wrong_python_is_named(found):
    with pytest.raises(checks.SetupError) as caught:
        checks.check_python(found)
    assert f"Python {found[0]}.{found[1]}.{found[2]} (" in str(caught.value)
    assert "Python 3.11 or 3.12 is needed" in str(caught.value)


def test_the_right_pythons_pass_and_a_wrong_venv_is_named(tmp_path):
    checks.check_python((3, 11, 2))
    checks.check_python((3, 12, 1))
    with pytest.raises(checks.SetupError, match="was made with Python 3.9.1.*move it away"):
        checks.check_python((3, 9, 1), tmp_path / ".venv")


def test_only_linux_on_python_3_12_has_a_wheel():
    glibc = ("glibc", "2.36")
    assert checks.has_wheel((3, 12), "Linux", "x86_64", glibc)
    assert not checks.has_wheel((3, 11), "Linux", "x86_64", glibc)
    assert not checks.has_wheel((3, 12), "Linux", "aarch64", glibc)
    assert not checks.has_wheel((3, 12), "Darwin", "x86_64", ("", ""))
    assert not checks.has_wheel((3, 12), "Linux", "x86_64", ("glibc", "2.17"))


def test_too_little_disk_says_how_much(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(0, 0, 700 * 2**20))
    assert checks.check_disk(tmp_path, 700) == 700
    with pytest.raises(checks.SetupError, match="2500 MB are needed and 700 MB are free"):
        checks.check_disk(tmp_path, 2500)


@fits
def test_no_compiler_is_said_before_anything_is_made(run_cli, tmp_path):
    here = platform.system(), platform.machine(), platform.libc_ver()
    if checks.has_wheel(sys.version_info[:2], *here):
        pytest.skip("here fairseq-fixed comes compiled")
    venv, empty = tmp_path / "venv", tmp_path / "empty"
    empty.mkdir()
    done = run_cli([SCRIPT, "--venv", venv], PATH=str(empty))
    assert done.returncode == 1
    message = one_sentence(done.stderr)
    assert "no C++ compiler" in message
    assert "apt-get install g++" in message
    assert not venv.exists()


@pytest.mark.parametrize("ninja", [False, True])
def test_extensions_are_built_side_by_side_only_without_ninja(ninja, monkeypatch, tmp_path):
    if ninja:
        (tmp_path / "ninja").touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("DIST_EXTRA_CONFIG", raising=False)
    assert ("DIST_EXTRA_CONFIG" in setup_env.clean_environment()) is not ninja


def test_an_unknown_group_is_refused(run_cli):
    done = run_cli([SCRIPT, "bse"])
    assert done.returncode == 2
    assert "group 'bse' is not known: choose from base, dev, docs" in done.stderr


@fits
def test_a_folder_that_is_no_environment_is_left_alone(run_cli, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    done = run_cli([SCRIPT, "--venv", tmp_path])
    assert done.returncode == 1
    assert "is not a Python environment: move it away" in one_sentence(done.stderr)
    assert (tmp_path / "notes.txt").read_text() == "mine"


@fits
def test_an_environment_without_pip_is_left_alone(run_cli, tmp_path):
    """As uv makes it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "mine"], check=True)
    done = run_cli([SCRIPT, "--venv", tmp_path / "mine"])
    assert done.returncode == 1
    assert "is a Python environment without pip: move it away" in one_sentence(done.stderr)
    assert (tmp_path / "mine/bin/python").exists()


# -- Pip's failures -------------------------------------------------------------------------------


@fits
def test_no_network_names_the_package_and_the_next_run_takes_up(run_cli, tmp_path):
    """The first run makes the environment and cannot fetch; the second does not make it again.

    The clone was moved with its environment, which must be a new one: the commands in bin/ name the
    place where they were made.
    """
    venv, empty = tmp_path / "venv", tmp_path / "empty"
    empty.mkdir()
    (venv / ".selfattn").mkdir(parents=True)
    (venv / "bin").mkdir()
    (venv / "bin" / "python").symlink_to(sys.executable)
    done = {"torch": "another fingerprint, as its arguments name the old place"}
    note = {"torch": "torch==9", "place": str(tmp_path / "old"), "done": done}
    (venv / ".selfattn" / "state.json").write_text(json.dumps(note))
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(empty), "PIP_CONFIG_FILE": "/dev/null"}
    first = run_cli([SCRIPT, "--venv", venv, "--torch", setup_env.default_torch()], **offline)
    assert first.returncode == 1
    message = one_sentence(first.stderr)
    assert "torch==2.13.0 could not be fetched" in message
    log = Path(re.search(r"pip's own words are in (.*)$", message).group(1))
    assert "No matching distribution found" in log.read_text()
    assert "environment in venv ... done" in first.stdout
    assert str(venv) in (venv / "bin" / "pip").read_text().splitlines()[0]
    second = run_cli([SCRIPT, "--venv", venv], **offline)
    assert second.returncode == 1
    assert "environment in" not in second.stdout
    assert "[1/4] PyTorch and build tools ... failed" in second.stdout


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        (
            "Collecting scipy\n  Downloading scipy-1.whl\n"
            "ERROR: Could not install packages: [Errno 28] No space left on device",
            "the disk ran full while scipy-1.whl was installed",
        ),
        (
            "Collecting fairseq-fixed==0.12.3.1\nERROR: THESE PACKAGES DO NOT MATCH THE HASHES",
            "fairseq-fixed==0.12.3.1 is not the file that was pinned",
        ),
        (
            "WARNING: Retrying (Retry(total=0)) after NewConnectionError\n"
            "ERROR: No matching distribution found for numpy==2.3.5 (from -r build.txt)",
            "numpy==2.3.5 could not be fetched",
        ),
        (
            "Collecting lxml\nerror: command 'gcc' failed\nERROR: Failed building wheel for lxml\n",
            "lxml could not be installed: ERROR: Failed building wheel for lxml",
        ),
        ("Killed", "a title could not be installed: Killed"),
        ("", "a title could not be installed: no output"),
    ],
)
def test_pips_words_become_one_sentence(log, sentence):
    assert setup_env.explain(log, NOTHING).startswith(sentence)


def test_the_hash_of_fairseq_is_enforced(run_cli, tmp_path):
    """pip refuses another file under the pinned name and version."""
    fake_wheel(tmp_path, "fairseq_fixed").rename(
        tmp_path / "fairseq_fixed-0.12.3.1-py3-none-any.whl"
    )
    step = next(s for s in setup_env.plan(["base"], "torch") if s.name == "fairseq")
    alone = ["--no-index", "--find-links", tmp_path, "--target", tmp_path / "out"]
    done = run_cli(["-m", "pip", "install", *alone, *step.arguments])
    assert done.returncode != 0
    assert not (tmp_path / "out").exists()
    said = setup_env.explain(done.stdout + done.stderr, step)
    assert "is not the file that was pinned" in said


# -- What is done stays done, what is not is mended ------------------------------------------------


def test_the_fingerprint_follows_the_files_and_the_torch():
    def prints(torch):
        steps = setup_env.plan(["base", "dev", "docs"], torch)
        return {step.name: step.fingerprint() for step in steps}

    one, other = prints("torch==2.13.0"), prints("torch==2.11.0")
    assert one == prints("torch==2.13.0")
    assert {name for name in one if one[name] != other[name]} == {"torch"}


def test_a_changed_requirement_makes_its_step_due(tmp_path):
    pins = tmp_path / "pins.txt"
    pins.write_text("a==1\n")
    step = setup_env.Step("base", "packages", ["-r", str(pins)], [pins])
    before = step.fingerprint()
    pins.write_text("a==2\n")
    assert step.fingerprint() != before


def test_changed_constraints_make_each_step_due_that_has_them():
    steps = setup_env.plan(["base", "dev", "docs"], "torch")
    constraints = ROOT / "requirements" / "constraints.txt"
    assert sum("-c" in step.arguments for step in steps) == 4
    assert all((constraints in step.files) == ("-c" in step.arguments) for step in steps)


@pytest.mark.parametrize("text", [None, "", "{", '{"done": 3}', "[]"])
def test_a_damaged_note_counts_as_nothing_done(tmp_path, text):
    (tmp_path / ".selfattn").mkdir()
    if text is not None:
        (tmp_path / ".selfattn" / "state.json").write_text(text)
    assert setup_env.read_state(tmp_path) == {"torch": None, "place": None, "done": {}}


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """An environment made with a plan of one step, which a real pip can do offline.

    It starts from what a set-up leaves that was killed while it made the environment.
    """
    folder = tmp_path_factory.mktemp("tiny")
    venv = folder / "venv"
    (venv / ".selfattn").mkdir(parents=True)
    (venv / "include").mkdir()
    wheel = fake_wheel(folder)
    step = setup_env.Step("tiny", "a tiny package", ["--no-index", str(wheel)], [wheel])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup_env, "plan", lambda groups, torch: [step])
        assert setup_env.main(["--venv", str(venv), "--torch", "torch==9"]) == 0
        yield venv


@fits
def test_the_second_run_does_nothing(tiny, capsys):
    note = tiny / ".selfattn" / "state.json"
    assert json.loads(note.read_text())["torch"] == "torch==9"
    before = note.stat().st_mtime_ns
    assert setup_env.main(["--venv", str(tiny)]) == 0
    assert capsys.readouterr().out == ""
    assert note.stat().st_mtime_ns == before


@fits
def test_a_killed_pip_is_mended(tiny, capsys):
    """No note, a package without its RECORD, some of its files missing."""
    module = next(tiny.glob("lib/python*/site-packages/tinything.py"))
    (tiny / ".selfattn" / "state.json").unlink()
    module.unlink()
    (module.parent / "tinything-1.0.dist-info" / "RECORD").unlink()
    assert setup_env.main(["--venv", str(tiny)]) == 0
    said = capsys.readouterr().out
    assert "[1/1] a tiny package ... done" in said
    assert module.read_text() == "VALUE = 1\n"


BACKEND = """
import pathlib, shutil, sysconfig, time

def build_wheel(folder, config_settings=None, metadata_directory=None):
    module = pathlib.Path(sysconfig.get_path("purelib"), "tinything.py")
    while not module.exists():
        time.sleep(0.1)
    wheel = next(pathlib.Path(__file__).parent.glob("*.whl"))
    return shutil.copy(wheel, folder) and wheel.name
"""


def compiled(folder: Path):
    """A package in the place of fairseq, whose build waits until another one is installed."""
    fake_wheel(folder, "tinycompiled")
    (folder / "backend.py").write_text(BACKEND)
    keys = 'requires = []\nbuild-backend = "backend"\nbackend-path = ["."]'
    (folder / "pyproject.toml").write_text(f"[build-system]\n{keys}\n")
    arguments = ["--no-index", "--no-build-isolation", str(folder)]
    return setup_env.Step(setup_env.COMPILED, "compiled", arguments, [])


@fits
@pytest.mark.parametrize("broken", [False, True])
def test_what_compiles_goes_on_beside_the_others(broken, tiny, tmp_path, monkeypatch, capsys):
    site = next(tiny.glob("lib/python*/site-packages"))
    for path in site.glob("tiny*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (tiny / ".selfattn" / "state.json").unlink()
    other = tmp_path / "none.whl" if broken else fake_wheel(tiny)
    steps = [compiled(tmp_path), setup_env.Step("base", "others", ["--no-index", str(other)], [])]
    monkeypatch.setattr(setup_env, "plan", lambda groups, torch: steps)
    assert setup_env.main(["--venv", str(tiny)]) == broken
    said = capsys.readouterr().out
    assert "[1/2] others ... failed" in said if broken else "[2/2] compiled ... done" in said
    assert (site / "tinycompiled.py").exists() is not broken
    gone = 'while pgrep -f "$PLACE"; do sleep 0.1; done'  # also what pip had started
    monkeypatch.setenv("PLACE", str(tiny))
    subprocess.run(["timeout", "10", "sh", "-c", gone], check=True)


def test_two_at_once_take_turns(tmp_path):
    code = "import setup_env, pathlib\nwith setup_env.locked(pathlib.Path(%r)): print(1)"
    with setup_env.locked(tmp_path):
        second = subprocess.Popen(
            [sys.executable, "-c", code % str(tmp_path)],
            cwd=SCRIPT.parent,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert second.stdout.readline().startswith("waiting for another make")
    assert second.communicate(timeout=60)[0] == "1\n"
