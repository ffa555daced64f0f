"""scripts/average_checkpoints.py as a user runs it; it needs no fairseq."""

import argparse

import pytest
import torch


@pytest.fixture
def average(run_cli):
    return lambda *args, cwd: run_cli(["scripts/average_checkpoints.py", *args], cwd=cwd)


@pytest.fixture
def run_folder(tmp_path):
    for epoch in range(1, 5):
        state = {
            "cfg": {"model": argparse.Namespace(arch="x")},
            "model": {
                "weight": torch.full((2, 2), float(epoch)),
                "layer._extra_state": torch.tensor([float(epoch < 3)]),
            },
            "last_optimizer_state": {"momentum": torch.zeros(100)},
            "extra_state": {"epoch": epoch, "ema": {"weight": torch.zeros(2, 2)}},
        }
        torch.save(state, tmp_path / f"checkpoint{epoch}.pt")
    state["model"] = {"weight": torch.full((2, 2), 1e5)}
    torch.save(state, tmp_path / "large.pt")
    for name, weight in (("bio_crf", 1.0), ("bio_tagging", 2.0)):
        state["cfg"]["criterion"] = argparse.Namespace(_name=name)
        state["model"] = {"weight": torch.full((2, 2), weight)}
        torch.save(state, tmp_path / f"{name}.pt")
    return tmp_path


def test_last_epochs(average, run_folder):
    done = average("--dir", ".", "--last", 3, "--output", "average.pt", cwd=run_folder).ok()
    assert "checkpoint2.pt, checkpoint3.pt, checkpoint4.pt" in done.stdout
    state = torch.load(run_folder / "average.pt", weights_only=False)
    assert state["model"]["weight"].tolist() == [[3.0, 3.0], [3.0, 3.0]]
    assert state["model"]["layer._extra_state"].tolist() == [0.0], "the newest's, as it is"
    assert "last_optimizer_state" not in state and state["extra_state"] == {"epoch": 4}
    assert not list(run_folder.glob(".average.pt*"))


def test_runs_with_different_seeds_get_a_warning(average, run_folder):
    inputs = run_folder / "checkpoint1.pt", run_folder / "checkpoint2.pt"
    state = torch.load(inputs[0], weights_only=False)
    for seed, warned in ((None, False), (2, True)):
        state["cfg"]["model"].seed = seed
        torch.save(state, inputs[0])
        done = average("--inputs", *inputs, "--output", "average.pt", cwd=run_folder).ok()
        assert ("runs with different seeds" in done.stderr) is warned


def test_updates_whose_last_ends_an_epoch(average, run_folder):
    """Epochs of 3 updates, a checkpoint due every 2: update 6 is that of epoch 2, 3 is not due."""
    (run_folder / "checkpoint3.pt").unlink()
    (run_folder / "checkpoint4.pt").rename(run_folder / "checkpoint_2_4.pt")
    old = torch.load(run_folder / "checkpoint1.pt", weights_only=False)
    old["model"]["weight"] -= 1
    torch.save(old, run_folder / "checkpoint_1_2.pt")
    for name, update in (("_1_2", 2), ("1", 3), ("_2_4", 4), ("2", 6), ("_last", 7)):
        path = run_folder / f"checkpoint{name}.pt"
        state = torch.load(
            path if update < 7 else run_folder / "checkpoint2.pt", weights_only=False
        )
        state["optimizer_history"] = [{"num_updates": update}]
        state["cfg"]["checkpoint"] = {"save_interval_updates": 2}
        torch.save(state, path)
    command = ("--dir", ".", "--by", "update", "--last", 2, "--output", "a.pt")
    done = average(*command, cwd=run_folder).ok()
    assert "averaged checkpoint_2_4.pt, checkpoint2.pt into" in done.stdout
    warning = "warning: averaged are the updates 4, 6, not 7, of which there is no checkpoint by "
    assert warning in done.stderr
    (run_folder / "checkpoint2.pt").rename(run_folder / "away")
    done = average(*command, cwd=run_folder).ok()
    assert "averaged checkpoint_1_2.pt, checkpoint_2_4.pt into" in done.stdout
    assert "warning: averaged are the updates 2, 4, not 6, 7, of which there is" in done.stderr
    assert "the cause may be --no-epoch-checkpoints, --keep-last-epochs, --keep-int" in done.stderr
    few = average(*command[:5], 3, *command[6:], cwd=run_folder)
    assert few.returncode == 2 and "3 and without --no-epoch-checkpoints" in few.stderr
    content = (run_folder / "checkpoint_last.pt").read_bytes()
    for rest in (content[:600], b""):
        (run_folder / "checkpoint_last.pt").write_bytes(rest)
        assert "warning" not in average(*command, cwd=run_folder).ok().stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--dir", ".", "--last", "9"],
            "--last is 9, but . holds 4 checkpoints by epoch (checkpointN.pt): give fewer, or "
            "train with --keep-last-epochs 9",
        ),
        (["--dir", "."], "--dir needs --last N"),
        (["--inputs", "checkpoint1.pt", "checkpoint7.pt"], "checkpoint7.pt does not exist"),
        (
            ["--inputs", "checkpoint1.pt", "--by", "update"],
            "--by belongs to --dir, not to --inputs",
        ),
        (["--inputs", "average.pt"], "--output average.pt is one of the inputs"),
        (
            ["--inputs", "checkpoint1.pt", "./checkpoint1.pt"],
            "hold the same weights",
        ),
        (["--inputs", "checkpoint1.pt", "--keep-vectors", "9"], "checkpoint1.pt is not a tagger"),
        (["--inputs", "checkpoint1.pt", "--keep-vectors", "-1"], "--keep-vectors is -1, but must"),
        (["--inputs", "large.pt", "--half"], "the weight weight is too large for half precision"),
        (
            ["--inputs", "bio_crf.pt", "bio_tagging.pt"],
            "bio_crf.pt cannot be averaged with bio_tagging.pt: --criterion was bio_crf against "
            "bio_tagging",
        ),
    ],
    ids="too-many no-number missing by overwritten twice other minus large criterion".split(),
)
def test_mistakes(average, args, message, run_folder):
    done = average(*args, "--output", "average.pt", cwd=run_folder)
    assert done.returncode == 2
    assert message in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr
    assert not (run_folder / "average.pt").exists()


def test_half_precision_keeps_numbers_and_what_is_shared(average, run_folder):
    state = torch.load(run_folder / "checkpoint1.pt", weights_only=False)
    tied = torch.full((100, 100), 0.5)
    state["model"] = {"a": tied, "b": tied, "count": torch.tensor(70_000)}
    torch.save(state, run_folder / "tied.pt")
    average("--inputs", "tied.pt", "--half", "--output", "half.pt", cwd=run_folder).ok()
    found = torch.load(run_folder / "half.pt", weights_only=False)["model"]
    assert found["a"].dtype == torch.float16 and torch.equal(found["a"].float(), tied)
    assert found["a"].data_ptr() == found["b"].data_ptr() and found["count"] == 70_000


def test_output_in_no_folder(average, run_folder):
    done = average("--inputs", "checkpoint1.pt", "--output", "none/a.pt", cwd=run_folder)
    assert done.returncode == 2 and "there is no folder none" in done.stderr
