"""The commit that results are recorded with, of repositories made here."""

import subprocess

import pytest

from selfattn_experiments import machine


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone with one commit, in which ``facts`` stands."""
    root = tmp_path / "clone"
    root.mkdir()
    (root / "code.py").write_text("x = 1\n")
    who = ["-c", "user.name=x", "-c", "user.email=x@localhost"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "x"]):
        subprocess.run(["git", *words], cwd=root, check=True)
    monkeypatch.setattr(machine, "_ROOT", root)
    return root


def commit():
    return machine.facts("cpu")["commit"]


def test_the_commit_is_the_clone_s_own(clone, tmp_path, monkeypatch):
    head = subprocess.run(
        ["git", "rev-parse", "--short=10", "HEAD"], cwd=clone, capture_output=True, text=True
    ).stdout.strip()
    assert commit() == head
    subprocess.run(["git", "init", "-q", tmp_path / "other"], check=True)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))  # as in a hook
    assert commit() == head
    (clone / "code.py").write_text("x = 2\n")
    assert commit() == head + "+"


def test_what_git_does_not_tell_is_never_clean(clone):
    head = commit()
    (clone / ".git" / "index").write_bytes(b"no index")
    assert commit() == head + "?"
    (clone / ".git" / "HEAD").write_text("no reference")
    assert commit() == "??"
