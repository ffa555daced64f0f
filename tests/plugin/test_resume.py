"""A run that is killed and started again equals one that was never killed."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock, Mock

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.trainer import Trainer
from fairseq_cli import train as fairseq_train

from plugin.compat.patience import KEY
from selfattn_tasks import checkpoints
from tests.conftest import ROOT
from tests.plugin.helpers import BLEU, FLAGS, MORE, UPDATES, logged, losses
from tests.preloaded import Server, basic_environment


def run_until_killed(server: Server, command: Sequence[object], at: str) -> list[str]:
    """Run fairseq-train, SIGKILL it when it logs update *at*, return what it printed."""
    process = subprocess.Popen(
        [server.python, "-m", "fairseq_cli.train", *map(str, command)],
        cwd=ROOT,
        env=basic_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if f'"num_updates": "{at}"' in line and "train_inner" in line:
            process.send_signal(signal.SIGKILL)
            break
    lines += process.stdout.readlines()
    assert process.wait(60) == -signal.SIGKILL, "".join(lines)
    return lines


def test_killed_and_resumed_equals_uninterrupted(train, trained, prepared, server, tmp_path):
    folder, lines = trained("mtsa")
    whole, flags = losses(lines), ["--encoder-attention", "mtsa", *MORE, *BLEU]
    command = [prepared / "data-bin", *FLAGS, "--save-dir", tmp_path / "killed", *flags]
    before = losses(run_until_killed(server, command, at="9"))
    last = tmp_path / "killed" / "checkpoint_last.pt"
    saved = checkpoints.read(last)["optimizer_history"][-1]["num_updates"]
    assert 0 < saved < UPDATES, "killed too early or too late to say anything"
    after = losses(train(tmp_path / "killed", *flags))
    assert list(after) == [str(update) for update in range(saved + 1, UPDATES + 1)]
    assert {**before, **after} == whole
    assert {name: whole[name] for name in before} == before

    expected, resumed = (
        checkpoints.read(at / "checkpoint_last.pt") for at in (folder, tmp_path / "killed")
    )
    for name, value in expected["model"].items():
        assert torch.equal(resumed["model"][name], value), name
    for one, other in zip(moments(expected), moments(resumed), strict=True):
        assert torch.equal(one, other)


def test_validating_the_training_set_changes_nothing(train, trained, tmp_path):
    flags = ["--max-update", "7", "--valid-subset", "valid,train", "--no-save"]
    found = losses(train(tmp_path, "--encoder-attention", "mtsa", *flags))
    assert len(found) == 7
    whole = losses(trained("mtsa")[1])
    assert found == {name: whole[name] for name in found}


@pytest.mark.parametrize(("subset", "epochs"), [("train", []), ("valid", [1])])
def test_validating_the_training_set_leaves_its_epoch(subset, epochs):
    """Masks of masked language models follow it."""
    found = []

    class Data:
        def set_epoch(self, epoch):
            found.append(epoch)

    trainer = MagicMock(model=Mock(max_positions=Mock(return_value=None)))
    trainer.cfg.dataset.train_subset = "train"
    trainer.task.max_positions.return_value = None
    trainer.task.dataset.return_value = data = Data()
    trainer.task.get_batch_iterator = lambda dataset, epoch, **_: (
        dataset.set_epoch(epoch) or MagicMock()
    )
    Trainer.get_valid_iterator(trainer, subset)
    assert found == epochs
    data.set_epoch(7)
    assert found == [*epochs, 7]


def test_patience_goes_on_where_it_was(toy_run, toy_train, tmp_path):
    state = checkpoints.read(toy_run / "checkpoint_last.pt")
    state["extra_state"][KEY] = {"best": -1.0, "num_runs": 1}  # no loss is better
    torch.save(state, tmp_path / "checkpoint_last.pt")
    flags = "--patience 3 --validate-interval-updates 1 --max-update 9 --log-format json".split()
    done = toy_train(["--save-dir", tmp_path, *flags])
    found = logged(done.lines, "valid")
    assert [record["valid_num_updates"] for record in found] == ["5", "6"]
    state = checkpoints.read(tmp_path / "checkpoint_last.pt")
    assert state["extra_state"][KEY] == {"best": -1.0, "num_runs": 3}


@pytest.mark.parametrize("limit", ["--max-update 4", "--stop-time-hours 1e-9"])
def test_what_is_finished_is_not_trained_on(limit, run_folder, toy_train):
    """fairseq makes one more update, which replaces checkpoint_last.pt."""
    before = {path.name: path.read_bytes() for path in run_folder.glob("*.pt")}
    done = toy_train(["--save-dir", run_folder, "--max-update", "9", *limit.split()]).ok()
    assert f"{limit.split()[0]} " in "".join(done.lines)
    assert any(line.endswith("left to do; to train on, raise it") for line in done.lines)
    assert {path.name: path.read_bytes() for path in run_folder.glob("*.pt")} == before


def test_what_has_stopped_early_is_not_trained_on(toy_run, toy_train, tmp_path):
    """As if it was killed between its last checkpoint and its end."""
    state = checkpoints.read(toy_run / "checkpoint_last.pt")
    state["extra_state"][KEY] = {"best": -1.0, "num_runs": 3}
    torch.save(state, tmp_path / "checkpoint_last.pt")
    before = (tmp_path / "checkpoint_last.pt").read_bytes()
    flags = "--validate-interval-updates 1 --max-update 9 --log-format json".split()
    done = toy_train(["--save-dir", tmp_path, *flags, "--patience", "3"]).ok()
    assert not logged(done.lines, "valid") and "done training in" in "".join(done.lines)
    assert [path.name for path in tmp_path.glob("*.pt")] == ["checkpoint_last.pt"]
    assert (tmp_path / "checkpoint_last.pt").read_bytes() == before
    assert "--patience 3 has run out" in "".join(done.lines)
    new = ["--save-dir", tmp_path / "new", "--restore-file", tmp_path / "checkpoint_last.pt"]
    for more in (
        ["--save-dir", tmp_path, "--patience", "4"],
        [*new, "--patience", "3"],
        ["--save-dir", tmp_path, "--patience", "3", "--reset-lr-scheduler"],
    ):
        found = logged(toy_train([*more, *flags]).ok().lines, "valid")
        assert found[0]["valid_num_updates"] == "5"
        torch.save(state, tmp_path / "checkpoint_last.pt")


NAN = float("nan")


@pytest.fixture
def save(monkeypatch):
    """``save(options, score, write)``: what fairseq-train saves after a validation."""
    function = checkpoint_utils.save_checkpoint
    # It counts in attributes of its own, which other tests have perhaps set.
    monkeypatch.setattr(checkpoint_utils, "save_checkpoint", lambda *args: function(*args))
    epoch = SimpleNamespace(epoch=1, end_of_epoch=lambda: True, state_dict=dict)

    def save(options, score, write):
        trainer = SimpleNamespace(
            data_parallel_rank=0,
            should_save_checkpoint_on_current_rank=True,
            checkpoint_suffix="",
            task=None,
            consolidate_optimizer=lambda: None,
            get_num_updates=lambda: 1,
            save_checkpoint=write,
        )
        checkpoint_utils.save_checkpoint(options, trainer, epoch, score)

    return save


@pytest.mark.parametrize(
    ("scores", "best"),
    [([30.0, NAN, 5.0, 31.0], [30.0, 31.0]), ([NAN, 5.0, 31.0, 30.0], [5.0, 31.0])],
)
def test_a_validation_of_nan_is_never_the_best(scores, best, monkeypatch, tmp_path, save):
    """What fairseq-train does after each validation: ask patience, then save."""
    function = fairseq_train.should_stop_early  # counts as save_checkpoint does
    monkeypatch.setattr(fairseq_train, "should_stop_early", lambda *args: function(*args))
    saved = []
    options = CheckpointConfig(save_dir=str(tmp_path), no_epoch_checkpoints=True)
    options.no_last_checkpoints = options.maximize_best_checkpoint_metric = True
    options.patience = 3
    for score in scores:
        assert not fairseq_train.should_stop_early(SimpleNamespace(checkpoint=options), score)
        save(options, score, lambda path, state: saved.append((Path(path).name, state["best"])))
    assert saved == [("checkpoint_best.pt", score) for score in best]
    assert fairseq_train.should_stop_early.best == 31.0


@pytest.mark.parametrize("above", [0.0, 3.0])
def test_the_best_checkpoints_are_kept_whatever_their_sign(above, tmp_path, save):
    options = CheckpointConfig(
        save_dir=str(tmp_path), no_epoch_checkpoints=True, no_last_checkpoints=True,
        best_checkpoint_metric="reward", maximize_best_checkpoint_metric=True,
        keep_best_checkpoints=2,
    )  # fmt: skip
    for score in (-3.0, -1.0, -2.0, -0.5):
        save(options, score + above, lambda path, state: Path(path).touch())
    kept = {float(path.name[23:-4]) for path in tmp_path.glob("checkpoint.best_*")}
    assert kept == {above - 1, above - 0.5}


def moments(state: dict) -> list[torch.Tensor]:
    """Adam's averages."""
    per_weight = state["last_optimizer_state"]["state"].values()
    return [value[name] for value in per_weight for name in ("exp_avg", "exp_avg_sq")]
