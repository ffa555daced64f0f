"""Two processes on the CPU train the model that one process trains on the same batches."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from plugin.compat.commands import explain
from tests.conftest import free_port
from tests.plugin.helpers import FLAGS, losses, run_ranks, sentence, weights

# Each process draws its own dropout, so that it must be off for a comparison.
MORE = """
    --max-update 6 --save-interval-updates 2 --disable-validation
    --dropout 0 --attention-dropout 0
""".split()


def two_processes(run_cli, data: Path, save_dir: Path, *more: str) -> list[str]:
    """The tiny run by two processes."""
    return run_ranks(run_cli, [data, *FLAGS, "--save-dir", save_dir, *MORE], *more)


@pytest.fixture(scope="module")
def alone(train, tmp_path_factory) -> tuple[Path, list[str]]:
    """One process with twice the batches: the folder and the log."""
    folder = tmp_path_factory.mktemp("alone")
    return folder, train(folder, *MORE, "--update-freq", "2")


@pytest.fixture(scope="module")
def together(prepared, run_cli, tmp_path_factory) -> tuple[Path, list[str]]:
    """Two processes with fairseq's default, --ddp-backend pytorch_ddp: the folder and the logs."""
    folder = tmp_path_factory.mktemp("together")
    return folder, two_processes(run_cli, prepared / "data-bin", folder)


def resumable(folder: Path, earlier: Path) -> Path:
    """A new folder with the checkpoint of an earlier run, within its epoch."""
    folder.mkdir()
    shutil.copy(earlier / "checkpoint_2_4.pt", folder / "checkpoint_last.pt")
    return folder


def check_same(folder: Path, outputs: list[str], alone: tuple[Path, list[str]], first: int) -> None:
    """Same losses from update *first* on, logged by one process; same weights at the end."""
    expected = {number: loss for number, loss in losses(alone[1]).items() if int(number) >= first}
    lines = [line for output in outputs for line in output.splitlines()]
    assert sum("training on 2 devices" in line for line in lines) == 1
    assert len(expected) == 7 - first
    for number, (loss, *_) in losses(lines).items():
        assert float(loss) == pytest.approx(float(expected.pop(number)[0]), abs=2e-3)
    assert not expected
    final = weights(folder / "checkpoint_last.pt")
    for name, value in weights(alone[0] / "checkpoint_last.pt").items():
        torch.testing.assert_close(final[name], value, rtol=1e-4, atol=1e-6, msg=name)


def test_two_processes_equal_one(alone, together):
    check_same(*together, alone, first=1)


def test_two_processes_resume(alone, together, prepared, run_cli, tmp_path):
    """With the other backend, which must not matter."""
    folder = resumable(tmp_path / "run", together[0])
    more = ("--ddp-backend", "legacy_ddp")
    outputs = two_processes(run_cli, prepared / "data-bin", folder, *more)
    check_same(folder, outputs, alone, first=5)


def test_two_processes_drop_layers(prepared, run_cli, tmp_path):
    more = ("--encoder-layers", "2", "--encoder-layerdrop", "0.5")
    outputs = two_processes(run_cli, prepared / "data-bin", tmp_path / "run", *more)
    assert len(losses([line for output in outputs for line in output.splitlines()])) == 6


STAND_INS = {
    # Every task at once, each on a host of its own, as srun does with one task a host.
    "srun": 'for host in 0 1; do "$@" & done; for job in $(jobs -p); do wait "$job" || exit; done; '
    'echo "cores of a task: $SRUN_CPUS_PER_TASK"',
    "scontrol": "printf '127.0.0.1\\n127.0.0.1\\n'",
}


def test_the_slurm_script_with_two_hosts(alone, together, prepared, run_cli, tmp_path):
    """torchrun twice, meeting at one address; stand-ins for SLURM's own commands."""
    for name, body in STAND_INS.items():
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/usr/bin/env bash\n{body}\n", encoding="utf-8")
        path.chmod(0o755)
    folder = resumable(tmp_path / "run", together[0])
    env = {
        "PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHON": sys.executable,
        "PROCESSES": "1",
        "PORT": str(free_port()),
        "SLURM_JOB_NODELIST": "host[0-1]",
        "SLURM_NNODES": "2",
        "SLURM_JOB_ID": "7",
        "SLURM_CPUS_PER_TASK": "16",
    }
    script = ["examples/distributed/slurm.sbatch", prepared / "data-bin", folder, *FLAGS, *MORE]
    done = run_cli(script, python="bash", **env).ok()
    assert done.stdout.endswith("cores of a task: 16\n")
    check_same(folder, [done.stdout, done.stderr], alone, first=5)


LEAVING = """
import os, sys, torch.distributed as dist
dist.init_process_group("gloo", init_method=sys.argv[1], rank=1, world_size=2)
sys.stdin.read()  # until the other one has met it, too
os._exit(1)
"""


def test_a_process_whose_partner_has_died_says_so(tmp_path):
    """What gloo raises in the one that is left, and what fairseq-train then prints."""
    meeting = (tmp_path / "store").as_uri()
    command = [sys.executable, "-c", LEAVING, meeting]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as partner:
        torch.distributed.init_process_group("gloo", init_method=meeting, rank=0, world_size=2)
        partner.communicate()  # it leaves
        try:
            with pytest.raises(RuntimeError) as raised:
                torch.distributed.all_reduce(torch.ones(1))
        finally:
            torch.distributed.destroy_process_group()
    assert "another process of this run has ended" in (explain(raised.value) or "")
    assert explain(RuntimeError("shape mismatch")) is None


@pytest.mark.parametrize(
    ("meeting", "advice"),
    [
        (["--distributed-init-method", "tcp://127.0.0.1:1"], "add --distributed-no-spawn"),
        (["--distributed-port", "29999"], "give --distributed-world-size 1"),
        ([], "give --distributed-world-size 1"),
    ],
    ids=["address", "a port without SLURM", "none"],
)
def test_what_would_train_nothing_is_refused(meeting, advice, run_cli, tmp_path):
    """fairseq starts a process for each GPU: none here, and exit code 0."""
    group = ["--distributed-world-size", "2", *meeting]
    command = ["-m", "fairseq_cli.train", tmp_path, *FLAGS, *group]
    done = run_cli([*command, "--save-dir", tmp_path], CUDA_VISIBLE_DEVICES="")
    assert advice in sentence(done)
