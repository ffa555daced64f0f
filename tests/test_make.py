"""The two commands around everything: what make and .ci/run say before any work begins."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(root, *arguments):
    # Of the environment only PATH: the MAKEFLAGS of a calling `make test` must not leak in.
    return subprocess.run(
        ["make", *arguments],
        cwd=root,
        env={"PATH": os.environ["PATH"]},
        text=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )


def test_make_alone_lists_each_target(repo_root):
    text = (repo_root / "Makefile").read_text(encoding="utf-8")
    phony = next(line for line in text.splitlines() if line.startswith(".PHONY:"))
    done = make(repo_root)
    assert done.returncode == 0, done.stderr
    listed = [line.split()[0] for line in done.stdout.split("\n\n")[0].splitlines()]
    assert listed == phony.split()[1:]


@pytest.mark.parametrize("target", ["env", "demo", "test", "matrix", "check", "format", "docs"])
def test_a_missing_python_gives_one_sentence(repo_root, target):
    done = make(repo_root, target, "PYTHON=no-such-python")
    assert done.returncode != 0
    said = [line for line in done.stderr.splitlines() if not line.startswith("make: ***")]
    assert said == [
        "make: no Python runs under the name 'no-such-python': "
        "install Python 3.11 or 3.12, or name one, as in: make env PYTHON=python3.11"
    ]
    assert done.stdout == ""


def test_ci_runs_both_targets_and_reports_each_failure(repo_root, tmp_path):
    """A copy of .ci/run beside a Makefile whose targets end as we say."""
    (tmp_path / ".ci").mkdir()
    script = shutil.copy(repo_root / ".ci" / "run", tmp_path / ".ci" / "run")
    cases = [("true", "true", 0), ("false", "true", 1), ("true", "false", 1)]
    for check, test, expected in cases:
        closing = "echo '=== 3 passed in 1.00s ==='"
        (tmp_path / "Makefile").write_text(
            f"check:\n\t@echo checked; {check}\ntest:\n\t@{closing}; {test}\n"
        )
        done = subprocess.run([script], text=True, capture_output=True, env=dict(os.environ))
        assert done.returncode == expected, (check, test)
        lines = done.stdout.splitlines()
        assert lines[0] == "checked"
        assert lines[-1] == "=== 3 passed in 1.00s ==="
