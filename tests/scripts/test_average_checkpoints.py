"""scripts/average_checkpoints.py as a user runs it; it needs no fairseq."""

import argparse
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "average_checkpoints.py"


@pytest.fixture
def average(run_cli):
    def run(*args, cwd):
        return run_cli([SCRIPT, *args], cwd=cwd)

    return run


@pytest.fixture
def run_folder(tmp_path):
    for epoch in range(1, 5):
        state = {
            "cfg": {"model": argparse.Namespace(arch="x")},
            "model": {"weight": torch.full((2, 2), float(epoch))},
            "last_optimizer_state": {"momentum": torch.zeros(100)},
        }
        torch.save(state, tmp_path / f"checkpoint{epoch}.pt")
    return tmp_path


def test_last_epochs(average, run_folder):
    done = average("--dir", ".", "--last", 3, "--output", "average.pt", cwd=run_folder)
    assert done.returncode == 0, done.stderr
    assert "checkpoint2.pt, checkpoint3.pt, checkpoint4.pt" in done.stdout
    state = torch.load(run_folder / "average.pt", weights_only=False)
    assert state["model"]["weight"].tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert "last_optimizer_state" not in state
    assert not (run_folder / "average.pt.tmp").exists()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--dir", ".", "--last", "9"], "--last is 9, but . holds 4 checkpoints by epoch"),
        (["--dir", "."], "--dir needs --last N"),
        (["--inputs", "checkpoint1.pt", "checkpoint7.pt"], "checkpoint7.pt does not exist"),
        (["--inputs", "average.pt"], "--output average.pt is one of the inputs"),
        (
            ["--inputs", "checkpoint1.pt", "./checkpoint1.pt"],
            "hold the same weights",
        ),
    ],
    ids=["too-many", "no-number", "missing", "overwritten", "twice"],
)
def test_mistakes(average, args, message, run_folder):
    done = average(*args, "--output", "average.pt", cwd=run_folder)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
    assert not (run_folder / "average.pt").exists()


def test_output_in_no_folder(average, run_folder):
    done = average("--inputs", "checkpoint1.pt", "--output", "none/a.pt", cwd=run_folder)
    assert done.returncode == 2 and "there is no folder none" in done.stderr


def test_help_shows_an_example(average, tmp_path):
    assert "--last 5" in average("--help", cwd=tmp_path).stdout
