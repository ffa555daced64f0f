"""What a training log says, as it grows."""

import json

from selfattn_experiments.runs.execution.follow import Follower
from selfattn_experiments.runs.flags import parse


def inner(update: int, epoch: float, loss: float) -> str:
    values = {"epoch": 1, "update": epoch, "loss": str(loss), "num_updates": str(update)}
    return f"2026-01-31 12:00:00 | INFO | train_inner | {json.dumps(values)}\n"


def test_a_log_is_followed_as_it_grows(tmp_path):
    log, now = tmp_path / "log", 0.0
    flags = parse("--max-epoch 4 --max-update 1000 --best-checkpoint-metric bleu"
                  " --maximize-best-checkpoint-metric".split(), "")  # fmt: skip
    follower = Follower(log, flags, lambda: now)
    follower.begin_attempt()
    assert follower.total() == 1000 and follower.seconds_left(1.0) == 1000
    log.write_text(inner(10, 0.5, 9.0) + "| INFO | t | num. shared model params: 6,112 (x\n")
    follower.begin_attempt()
    assert (follower.update, follower.loss, follower.parameters) == (10, 9.0, 6112)
    assert follower.total() == 80, "4 epochs of 20 updates end before 1,000 updates"
    assert follower.seconds_an_update() is None, "written by an earlier attempt"
    with log.open("a") as file:
        for at, update in ((100.0, 20), (110.0, 30)):
            now = at
            file.write(inner(update, update / 20, 8.0))
            values = {"epoch": 1, "valid_bleu": str(40 - update), "valid_num_updates": update}
            file.write(f"x | INFO | valid | {json.dumps(values)}\n")
            file.write("half a li")
            file.flush()
            follower.read()
            file.write("ne\n")
    assert follower.seconds_an_update() == 1.0
    assert follower.seconds_left() == 50.0
    assert follower.best == (20, 20.0)


def test_the_best_validation_is_that_of_the_checkpoint(tmp_path):
    """fairseq asks the first of several sets, and of equal scores keeps the last."""
    flags = parse("--valid-subset valid,valid1 --max-update 30".split(), "")
    follower = Follower(tmp_path / "log", flags)
    lines = [
        f'x | INFO | {kind} | {{"{kind}_loss": "{loss}", "{kind}_num_updates": "{update}"}}\n'
        for update, losses in ((10, (3, 1)), (20, (2, 4)), (30, (2, 4)))
        for kind, loss in zip(("valid", "valid1"), losses, strict=True)
    ]
    (tmp_path / "log").write_text("".join(lines))
    follower.read()
    assert follower.best == (30, 2.0)


def test_every_kind_of_gpu_is_named(tmp_path):
    """A requeued task may resume on another host; two ranks of one kind are one name."""
    follower = Follower(tmp_path / "log", parse(["--max-update", "30"], ""))
    line = "rank   {}: capabilities =  8.0  ; total memory = 79.1 GB ; name = {:40s}\n".format
    (tmp_path / "log").write_text(line(0, "A100") + line(1, "A100") + line(0, "V100"))
    follower.read()
    assert follower.gpus == ["A100", "V100"]


def test_what_is_not_a_number_is_not_the_best(tmp_path):
    """fairseq writes no checkpoint_best.pt for it."""
    follower = Follower(tmp_path / "log", parse(["--max-update", "30"], ""))
    line = 'x | INFO | valid | {{"valid_loss": "{}", "valid_num_updates": "{}"}}\n'.format
    (tmp_path / "log").write_text(line("nan", 10))
    follower.read()
    assert follower.best is None
    (tmp_path / "log").write_text(line("nan", 10) + line(2.0, 20) + line(3.0, 30))
    follower.read()
    assert follower.best == (20, 2.0)


def test_a_validation_without_a_checkpoint_is_not_the_best(tmp_path):
    """fairseq looks for the best one when it saves: here at every second validation."""
    flags = parse("--max-update 40".split(), "")
    follower = Follower(tmp_path / "log", flags)
    lines = []
    for update, loss in ((10, 1.0), (20, 3.0), (30, 1.5), (40, 2.0)):
        lines.append(
            f'x | INFO | valid | {{"valid_loss": "{loss}", "valid_num_updates": "{update}"}}'
        )
        if update % 20 == 0:
            lines.append(
                f"x | INFO | fairseq.checkpoint_utils | Saved checkpoint out/checkpoint_best.pt "
                f"(epoch 1 @ {update} updates, score {loss}) (writing took 0.1 seconds)"
            )
    (tmp_path / "log").write_text("\n".join(lines) + "\n")
    follower.read()
    assert follower.best == (40, 2.0)
