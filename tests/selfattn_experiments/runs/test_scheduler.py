"""The scheduler with processes that are short shell commands."""

import os
import signal
import subprocess
import sys
import time

import pytest

from selfattn.errors import UserError
from selfattn_experiments.runs.execution.child import stop_all
from selfattn_experiments.runs.execution.scheduler import Job, Scheduler
from selfattn_experiments.runs.execution.slots import Slot, find_slots
from tests.selfattn_experiments.runs.fakes import FakeRun


@pytest.fixture
def work_off(tmp_path):
    """A function that runs jobs on slots; gives the jobs and what was said."""

    def run(*runs, slots=1, retries=2):
        said = []
        jobs = [Job(run) for run in runs]
        Scheduler(jobs, [Slot()] * slots, retries=retries, say=said.append).run()
        return jobs, "\n".join(said)

    return run


def test_steps_run_in_order_and_once(tmp_path, work_off):
    trace = tmp_path / "trace"
    commands = {"train": f"echo train >> {trace}", "test": f"echo test >> {trace}"}
    run = FakeRun(tmp_path, "a-1", **commands)
    (job,), said = work_off(run)
    assert job.state == "done" and not said
    assert [attempt["step"] for attempt in run.attempts.read()] == ["train", "test"]
    (job,), _ = work_off(FakeRun(tmp_path, "a-1", **commands))
    assert job.state == "done"
    run.mark("test").unlink()
    work_off(FakeRun(tmp_path, "a-1", **commands))
    assert trace.read_text().split() == ["train", "test", "test"]


def test_a_file_that_is_removed_while_it_runs_ends_nothing_else(tmp_path, work_off):
    file = tmp_path / "a-1.json"
    command = f"until [ -e {file} ]; do sleep 0.05; done; rm {file}"
    jobs, said = work_off(
        FakeRun(tmp_path, "a-1", train=command), FakeRun(tmp_path, "b-1", train=":")
    )
    assert [job.state for job in jobs] == ["done", "done"] and not said


@pytest.mark.parametrize("part", ["prepare", "steps"])
def test_a_file_that_cannot_be_read_ends_its_run_alone(tmp_path, work_off, monkeypatch, part):
    """As torch says it of a truncated checkpoint: EINVAL, without a file name."""
    bad = FakeRun(tmp_path, "a-1", train=":")

    def fail(*args):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(bad, part, fail)
    jobs, said = work_off(bad, FakeRun(tmp_path, "b-1", train=":"))
    assert [job.state for job in jobs] == ["failed", "done"]
    assert said == "a-1: [Errno 22] Invalid argument" and jobs[0].reason in said


@pytest.mark.parametrize("file", ["a-1.json", "a-1.train"])
def test_a_file_that_cannot_be_read_any_more_ends_its_run_alone(tmp_path, work_off, file):
    file = tmp_path / file
    command = f"until [ -e {file} ]; do sleep 0.05; done; rm {file}; mkdir {file}; sleep 60"
    bad = FakeRun(tmp_path, "a-1", train=command.replace("sleep 60", "true"))
    if file.suffix == ".train":
        bad.commands["train"] = command  # the runner reads the log while it grows
    jobs, said = work_off(bad, FakeRun(tmp_path, "b-1", train=":"), slots=2)
    assert [job.state for job in jobs] == ["failed", "done"]
    assert "Is a directory" in said and not jobs[0].running


def test_a_record_that_cannot_be_written_starts_nothing(tmp_path, work_off):
    (tmp_path / "a-1.json").symlink_to("no/such/folder")
    bad = FakeRun(tmp_path, "a-1", train=f"touch {tmp_path}/started")
    jobs, _ = work_off(bad, FakeRun(tmp_path, "b-1", train=":"))
    assert [job.state for job in jobs] == ["failed", "done"]
    assert not (tmp_path / "started").exists()


def test_a_run_whose_files_were_changed_is_not_done(tmp_path, work_off):
    run = FakeRun(tmp_path, "a-1", train=":")
    run.done = lambda step: None
    (job,), said = work_off(run)
    assert job.state == "failed" and said == f"a-1: {job.reason}" and "were changed" in said


def test_no_more_runs_than_slots_and_all_slots_used(tmp_path, work_off):
    """Each counts the runs beside it; none ends before a second one has counted."""
    (tmp_path / "now").mkdir()
    command = (
        f"cd {tmp_path}; touch now/$$; ls now | wc -l >> counts; "
        "until [ $(wc -l < counts) -ge 2 ]; do sleep 0.05; done; rm now/$$"
    )
    jobs, _ = work_off(
        *(FakeRun(tmp_path, f"a-{seed}", train=command) for seed in range(5)), slots=2
    )
    assert all(job.state == "done" for job in jobs)
    counts = [int(line) for line in (tmp_path / "counts").read_text().split()]
    assert len(counts) == 5 and max(counts) == 2


def test_a_slot_gives_its_environment(tmp_path, monkeypatch):
    slots = [Slot(("3",)), Slot(("5", "GPU-7"), threads=2)]
    command = "sleep 0.3; echo $CUDA_VISIBLE_DEVICES:$OMP_NUM_THREADS"
    jobs = [Job(FakeRun(tmp_path, f"a-{seed}", train=command)) for seed in (1, 2)]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    Scheduler(jobs, slots).run()
    logs = [(tmp_path / f"a-{seed}.train").read_text().splitlines()[-1] for seed in (1, 2)]
    assert logs == ["3:", "5,GPU-7:2"]


def test_a_gpu_that_was_given_but_is_not_found_is_not_replaced_by_a_cpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    for none in ("", "-1", "NoDevFiles"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", none)
        assert find_slots("auto")[0].gpus == ()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert find_slots("cpu")[0].gpus == ()
    with pytest.raises(UserError, match="CUDA_VISIBLE_DEVICES is 0, but torch finds no GPU here"):
        find_slots("auto")


def test_a_crash_is_tried_again_and_shown(tmp_path, work_off):
    flag = tmp_path / "flag"
    run = FakeRun(
        tmp_path, "a-1", train=f"[ -e {flag} ] || {{ touch {flag}; echo oh; kill -9 $$; }}"
    )
    (job,), said = work_off(run)
    assert job.state == "done" and job.crashes == 1
    assert "a-1: train was killed by signal 9, perhaps because the memory was full" in said
    assert "1 of 2 times" in said and "\n  | oh" in said
    assert [attempt["code"] for attempt in run.attempts.read()] == [-9, 0]


def test_a_run_that_crashes_too_often_fails_alone(tmp_path, work_off):
    bad = FakeRun(tmp_path, "a-1", train="exit 3")
    (first, second), _ = work_off(bad, FakeRun(tmp_path, "b-1", train="true"), retries=1)
    assert (first.state, second.state) == ("failed", "done")
    assert first.record is None
    assert first.reason.startswith("train ended with code 3, see ")
    assert len(bad.attempts.read()) == 2


def test_a_full_disk_ends_all(tmp_path, work_off):
    first = FakeRun(tmp_path, "a-1", train="echo 'x: error: No space left on device' >&2; exit 1")
    second = FakeRun(tmp_path, "b-1", train="true")
    with pytest.raises(OSError, match="No space left on device"):
        work_off(first, second)
    assert not second.attempts.read()


def test_a_disk_that_was_full_in_an_earlier_call_ends_nothing(tmp_path, work_off):
    (tmp_path / "a-1.train").write_text("$ sh -c old\nx: error: No space left on device\n")
    jobs, said = work_off(
        FakeRun(tmp_path, "a-1", train="exit 3"), FakeRun(tmp_path, "b-1", train=":"), retries=0
    )
    assert [job.state for job in jobs] == ["failed", "done"]
    assert said.endswith("\n  | $ sh -c 'exit 3'") and "No space left" not in said


def test_a_mistake_of_the_user_is_not_tried_again(tmp_path, work_off):
    said = "fairseq-train: error: no such thing"
    run = FakeRun(tmp_path, "a-1", train=f"echo '{said} {'x' * 999}' >&2; exit 1")
    (job,), _ = work_off(run)
    assert job.state == "failed" and len(run.attempts.read()) == 1
    assert job.reason.startswith(said) and len(job.reason) == 300

    run = FakeRun(tmp_path, "b-1", train="true")

    def done(step):
        raise UserError("a sentence is missing")

    run.done = done
    (job,), said = work_off(run)
    assert job.state == "failed" and said == "b-1: a sentence is missing"
    (attempt,) = run.attempts.read()
    assert (attempt["code"], attempt["error"]) == (0, "a sentence is missing")


INTERRUPTED = """
import signal, sys
from pathlib import Path
from selfattn_tasks.cli import run
from selfattn_experiments.runs.execution.scheduler import Job, Scheduler
from selfattn_experiments.runs.execution.slots import Slot
from tests.selfattn_experiments.runs.fakes import FakeRun
# A shell that started the tests in the background left this signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
folder = Path(sys.argv[1])
# Training with a data loader; both would run for an hour.
train = f"trap '' INT; sleep 3600 & echo $! $$ >> {folder}/pids; wait"
jobs = [Job(FakeRun(folder, f"a-{seed}", train=train)) for seed in (1, 2)]
run(lambda: Scheduler(jobs, [Slot()] * 2).run())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(tmp_path, number, repo_root):
    runner = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)], cwd=repo_root, stderr=subprocess.PIPE
    )
    pids = tmp_path / "pids"
    wait_for(lambda: pids.is_file() and len(pids.read_text().split()) == 4)
    processes = [int(pid) for pid in pids.read_text().split()]
    assert all(is_alive(pid) for pid in processes)
    runner.send_signal(number)
    expected = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGKILL: -9}[number]
    assert runner.wait(30) == expected, runner.stderr.read()
    if number == signal.SIGKILL:  # the kernel ends training; loaders look after themselves
        processes = processes[1::2]
    wait_for(lambda: not any(is_alive(pid) for pid in processes))
    for pid in map(int, pids.read_text().split()):
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(condition, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_processes_that_do_not_end_share_one_grace():
    waited, killed = [], []

    class Stubborn:
        def terminate(self):
            """Ignored."""

        def wait(self, seconds):
            waited.append(seconds)
            time.sleep(seconds)

        def kill(self):
            killed.append(self)

    stop_all([Stubborn() for _ in range(3)], grace=0.2)
    assert len(killed) == 3 and sum(waited) < 0.3
