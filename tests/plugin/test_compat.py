"""fairseq on today's torch: precision flags, and how a command ends."""

import logging
import platform
import textwrap
from types import SimpleNamespace

import pytest
import torch
from fairseq import tasks
from fairseq.dataclass.configs import EMAConfig
from fairseq.models.ema.ema import EMA
from fairseq.optim.adam import FairseqAdam

from plugin.compat import runtime
from selfattn.errors import UserError
from selfattn.layers import build_attention

from .conftest import TINY
from .helpers import parsed


def test_fp16_without_gpu_is_refused(toy_train):
    done = toy_train(["--fp16", "--no-save"])
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.startswith("fairseq-train: error: --fp16 needs a GPU, but --cpu is set")
    words = "data --arch transformer_mtsa_tiny --cpu --memory-efficient-fp16".split()
    message = "^--memory-efficient-fp16 needs .* or use --memory-efficient-bf16$"
    with pytest.raises(UserError, match=message):
        parsed(*words)


def test_bf16_trains_resumes_and_translates(toy_train, toy_generate, tmp_path):
    toy_train(["--bf16", "--save-dir", tmp_path]).ok()
    done = toy_train(["--bf16", "--save-dir", tmp_path, "--max-update", "6"])
    assert done.returncode == 0 and "num_updates=6" in done.stdout, done.stderr
    done = toy_generate(tmp_path / "checkpoint_last.pt", ["--bf16"])
    assert done.returncode == 0 and "H-0" in done.stdout, done.stderr


def test_amp_without_gpu_says_that_it_does_nothing(toy_train):
    done = toy_train(["--amp", "--no-save"]).ok()
    assert done.stdout.count("--amp has no effect without a GPU") == 1
    assert "Warning" not in done.stderr


def test_each_line_of_the_log_file_is_there_once(toy_train, tmp_path):
    log = tmp_path / "train.log"
    every = ["--log-interval", "1", "--validate-interval-updates", "1", "--max-update", "4"]
    toy_train(["--no-save", "--log-format", "json", "--log-file", log, *every]).ok()
    updates = [line for line in log.read_text().splitlines() if line.startswith('{"epoch": ')]
    assert len(updates) > 8  # 4 updates, 4 validations, the epoch
    assert len(updates) == len(set(updates))


def test_matmul_precision_of_the_environment_holds_in_training(run_cli):
    seen = "import plugin, torch; print(torch.get_float32_matmul_precision())"
    done = run_cli(["-c", seen], fresh=False, SELFATTN_MATMUL_PRECISION="medium")
    assert done.stdout == "medium\n", done.stderr


def test_log_is_quiet(toy_train):
    done = toy_train(["--no-save"])
    assert done.stderr == ""
    assert "DEBUG" not in done.stdout and "Warning" not in done.stdout


@pytest.mark.parametrize("own", [logging.INFO, logging.WARNING])
def test_only_fairseqs_own_log_level_is_changed(own, caplog, monkeypatch):
    """WARNING is what fairseq gives the second process of a run, before its plugin."""
    monkeypatch.delenv("LOGLEVEL", raising=False)
    for before, after in ((own, own), (logging.DEBUG, logging.INFO)):
        caplog.set_level(before)
        runtime.restore_log_level()
        assert logging.getLogger().level == after


FAULTS = """
import resource, sys, torch
from fairseq_cli.train import cli_main

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(2**24)  # 64 MiB: 16,384 pages of 4 KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

sys.argv[0] = "fairseq-train"
cli_main()
print("faults", sum(faults() for _ in range(50)))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="malloc of glibc")
def test_training_uses_its_memory_again_unless_the_environment_sets_up_malloc(
    toy_data, run_cli, tmp_path
):
    command = ["-c", FAULTS, toy_data, "--arch", "transformer_mtsa_tiny"]
    command += ["--max-update", "1", "--no-save", "--save-dir", tmp_path, *TINY]
    found = []
    for own in ({}, {"MALLOC_TRIM_THRESHOLD_": "131072"}):
        done = run_cli(command, fresh=False, **own).ok()
        found.append(int(done.stdout.split("faults ")[1]))
    if not found[1]:
        pytest.skip("this kernel does not count page faults")
    # Not 0: malloc needs some rounds until a place that fits is free.
    assert found[0] < found[1] / 2, found


def test_an_average_of_weights_takes_the_rest_as_it_is():
    layer = build_attention("resa", 8, 2)
    model = torch.nn.ModuleDict({"layer": layer})
    average = EMA(model, EMAConfig(ema_decay=0.9))
    layer.select_all, layer.reward_mean = False, -0.5
    with torch.no_grad():
        for weight in layer.parameters():
            weight += 1
    average.step(model)
    found = average.get_model()["layer"]
    assert (found.select_all, found.reward_mean) == (False, -0.5)
    for mean, weight in zip(found.parameters(), layer.parameters(), strict=True):
        torch.testing.assert_close(mean, weight - 0.9)


def test_an_average_moves_shared_weights_once_and_counts_updates_from_the_first():
    """As a run that resumes after update 3."""
    model = torch.nn.ModuleList([torch.nn.Linear(2, 2, bias=False) for _ in range(2)])
    model[1].weight = model[0].weight
    average = EMA(model, EMAConfig(ema_decay=0.75, ema_update_freq=4))
    with torch.no_grad():
        before = model[0].weight.clone()
        model[0].weight += 1
    for update, moved in ((4, 0.25), (5, 0.25)):
        average.step(model, update)
        torch.testing.assert_close(average.get_model()[0].weight, before + moved)


def test_the_task_of_a_pretrained_bart_reads_its_data(toy_data):
    name = "translation_from_pretrained_bart"
    flags = parsed(toy_data, *f"--task {name} --langs src,tgt --arch transformer_tiny".split())
    task = tasks.setup_task(flags)
    task.load_dataset("valid")
    assert len(task.dataset("valid")) == 20


@pytest.mark.parametrize("by_user", [False, True])
def test_tiny_moments_are_flushed_while_the_optimizer_steps_alone(by_user):
    smallest = torch.finfo(torch.float32).tiny
    weight = torch.nn.Parameter(torch.ones(16))
    flags = {"lr": 1.0, "adam_betas": "(0.9, 0.98)", "adam_eps": 1e-8, "weight_decay": 0.0}
    adam = FairseqAdam(SimpleNamespace(**flags, fp16_adam_stats=False), [weight])
    weight.grad = torch.zeros(16)
    adam.step()
    moment = adam.optimizer.state[weight]["exp_avg"]
    assert torch.set_flush_denormal(by_user)
    try:
        moment.fill_(smallest)
        adam.step()  # by 0.9
        assert (torch.full((1,), smallest) * 0.5).eq(0) == by_user
    finally:
        torch.set_flush_denormal(False)
    assert moment.eq(0).all() and weight.eq(1).all()


SPAWNING = """
import sys
sys.path.insert(0, {root!r})
import plugin
from selfattn.errors import UserError
import torch

def work(rank):
    raise {error}("the sentence is 7, but must be 8")

if __name__ == "__main__":
    torch.multiprocessing.start_processes(work, nprocs=1, start_method={method!r})
"""


@pytest.mark.parametrize(
    ("name", "error", "method", "traceback"),
    [
        ("fairseq-train", "UserError", "spawn", False),
        ("fairseq-train", "ValueError", "fork", True),  # is quicker
        ("notebook.py", "UserError", "fork", True),
    ],
    ids=["mistake", "bug", "other-program"],
)
def test_errors_of_spawned_processes(
    name, error, method, traceback, run_cli, tmp_path, pytestconfig
):
    script = tmp_path / name
    root = str(pytestconfig.rootpath)
    script.write_text(textwrap.dedent(SPAWNING).format(root=root, error=error, method=method))
    done = run_cli([script])
    assert done.returncode == 1
    assert ("Traceback" in done.stderr) == traceback
    if not traceback:
        assert done.stderr.endswith("fairseq-train: error: the sentence is 7, but must be 8\n")
