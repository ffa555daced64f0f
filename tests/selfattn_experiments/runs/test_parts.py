"""Grid files, slots, locks, logs and estimates, without fairseq."""

import io
import json
import subprocess
import sys

import pytest

from selfattn.errors import UserError
from selfattn_experiments.runs.execution.lock import locked
from selfattn_experiments.runs.execution.scheduler import Job
from selfattn_experiments.runs.execution.screen import Estimate, Screen, duration
from selfattn_experiments.runs.execution.slots import cpu_slots, gpu_slots, visible_gpus
from selfattn_experiments.runs.flags import difference, owned_by, parse, refuse_owned
from selfattn_experiments.runs.grid import read_grid
from selfattn_experiments.runs.keys import load
from selfattn_experiments.runs.slurm import write_scripts
from selfattn_tasks.sentences.task import Sentences
from selfattn_tasks.srl.task import SRL
from tests.selfattn_experiments.runs.fakes import FakeRun

GRID = """
task: translation
data: {data}
output: {data}/out
seeds: [1, 2]
common: --arch tiny --max-update 10 --save-interval-updates 2
systems:
  base: --dropout 0.1
  more: --dropout 0.2
references: {data}/ref
average: 2
"""


@pytest.fixture
def grid_file(tmp_path):
    """A function that writes a grid file with some text replaced, and gives its path."""
    (tmp_path / "dict.de.txt").touch()
    (tmp_path / "ref").touch()

    def write(old="", new=""):
        text = GRID.format(data=tmp_path)
        assert old in text
        path = tmp_path / "grid.yaml"
        path.write_text(text.replace(old, new))
        return path

    return write


def test_a_grid_file_is_read(grid_file, tmp_path):
    grid = read_grid(grid_file())
    assert grid.names() == [("base", 1), ("more", 1), ("base", 2), ("more", 2)]
    assert grid.flags("more")["--dropout"] == ["0.2"]
    assert grid.flags("more")["--max-update"] == ["10"]
    assert grid.tests == {"test": tmp_path / "ref"}
    assert grid.saves_by_update("base") and grid.average == 2


def test_a_save_interval_may_end_anywhere_where_updates_are_counted(grid_file):
    read_grid(grid_file("--max-update 10", "--max-update 10 --max-epoch 7 --save-interval 3"))


def test_a_grid_file_may_merge_keys(tmp_path):
    (tmp_path / "a.yaml").write_text("base: &base {a: 1, b: 2}\nmore: {<<: *base, b: 3}\n")
    assert load(tmp_path / "a.yaml")["more"] == {"a": 1, "b": 3}
    (tmp_path / "a.yaml").write_text("x: &x {a: 1}\nin: {y: &y {<<: *x, a: 2}}\nz: {<<: *y}\n")
    assert load(tmp_path / "a.yaml")["z"] == {"a": 2}


def test_a_system_may_have_seeds_of_its_own(grid_file):
    own = "more: {flags: --dropout 0.2, seeds: [2, 7]}"
    grid = read_grid(grid_file("more: --dropout 0.2", own))
    assert grid.names() == [("base", 1), ("base", 2), ("more", 2), ("more", 7)]
    assert grid.flags("more")["--dropout"] == ["0.2"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("average: 2", "avarage: 2", "the key `avarage` is unknown: do you mean `average`?"),
        ("task: translation", "task: srl", "`references` belongs to task translation, not to srl"),
        ("task: translation", "task: parsing", "'parsing', but must be translation or srl"),
        ("[1, 2]", "[1, 1]", "a list of distinct whole numbers"),
        ("[1, 2]", "3", "`seeds` is 3, but must be a list"),
        ("[1, 2]", "[yes]", "`seeds` is [True], but must be a list"),
        ("seeds: [1, 2]", "", "the key `seeds` is missing"),
        ("--dropout 0.2", "{seeds: [0.5]}", "`systems: more: seeds` is [0.5], but must be a list"),
        ("--dropout 0.2", "{seed: [1]}", "`systems: more` has the keys seed, but may have flags"),
        ("average: 2", "average: two", "`average` is 'two', but must be a whole number of 1"),
        ("  more:", "  base:", "line 9: 'base' is given twice"),
        ("--dropout 0.2", "--dropout 0.1", "systems base and more have the same flags"),
        ("--dropout 0.2", "--seed 3", "system more gives --seed, which is not allowed: the key"),
        ("--dropout 0.2", "--save-dir=x", "gives --save-dir, which is not allowed"),
        ("--dropout 0.2", "[1]", "`systems: more` is [1], but must be flags as on a command line"),
        ("--dropout 0.2", "dropout 0.2", "must begin with a flag"),
        ("--dropout 0.2", "--dropout '0.2", "No closing quotation"),
        ("  more:", "  no:", "the system False must have a name"),
        ("  more:", "  a/b:", "the system 'a/b' must have a name"),
        ("--max-update 10", "", "must give --max-update or --max-epoch, or it never ends"),
        ("--max-update 10", "--max-update inf", "--max-epoch, or it never ends"),
        ("--max-update 10", "--max-update -10", "--max-epoch, or it never ends"),
        ("--max-update 10", "--max-update 3", "saves every 2 of 3 updates, which makes less than "),
        ("--save-interval-updates 2", "--no-epoch-checkpoints", "keeps no checkpoints to average"),
        ("-updates 2", "-updates 2 --keep-interval-updates 1", "but `average` is 2"),
        ("average: 2", "average: 2\ncheckpoint: best", "exclude each other"),
        ("--max-update 10", "--max-epoch 3 --save-interval 2", "its last epoch would not be saved"),
        ("--max-update 10 --save-interval-updates 2", "--max-epoch 1", "saves 1 checkpoints by --"),
        ("output: ", "output: 12:30/", "but fairseq-generate takes ':' for the end of a path"),
        ("/ref", "/none", "none, but there is no such file"),
        ("data: ", "data: /nowhere", "but there is no such file or folder"),
        ("average: 2", "generate: --beam 5 --quiet", "--quiet, which is not allowed: the transl"),
        ("average: 2", "slurm: --time 1 --array 0-1%1", "--array, which is not allowed: a task is"),
        ("average: 2", "slurm: --time 1 -a0-1", "-a, which is not allowed: a task is a run"),
        ("average: 2", "generate: --score-reference", "not allowed: it translates by the referen"),
        ("task: translation", "task: [", "is not YAML"),
        ("average: 2", "average: 2026-02-30", "is not YAML: day is out of range for month"),
        ("average: 2", f"average: {'[' * 10**4}", "is not YAML: maximum recursion depth"),
    ],
)
def test_each_mistake_is_one_sentence(grid_file, old, new, said):
    with pytest.raises(UserError) as error:
        read_grid(grid_file(old, new))
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_runs_are_not_written_into_the_data(grid_file):
    with pytest.raises(UserError, match="`output` is .*, the folder of the data; give another"):
        read_grid(grid_file("/out\n", "\n"))


def test_a_run_labels_the_predicates_of_its_gold_files():
    with pytest.raises(UserError, match="predict gives --find-predicates, which is not allowed"):
        refuse_owned(parse(["--find-predicates"], ""), owned_by(SRL()), "predict")
    for flag in ("--embeddings", "--tokenized", "--baseline"):
        with pytest.raises(UserError, match=f"predict gives {flag}, which is not allowed"):
            refuse_owned(parse([flag, "x"], ""), owned_by(Sentences()), "predict")


def test_what_changed_is_said():
    old, new = parse(["--lr", "0.1", "--amp"], ""), parse(["--lr=0.2", "--beta", "-1"], "")
    said = difference(old, new)
    assert "--lr 0.1 then, --lr 0.2 now" in said
    assert "--amp then, no --amp now" in said
    assert "no --beta then, --beta -1 now" in said


def test_gpus_of_the_environment():
    assert visible_gpus(2, {}) == ["0", "1"]
    assert visible_gpus(2, {"CUDA_VISIBLE_DEVICES": "3, GPU-5a"}) == ["3", "GPU-5a"]
    assert visible_gpus(0, {"CUDA_VISIBLE_DEVICES": ""}) == []
    # An invalid entry hides those behind it, so torch counts only the first.
    assert visible_gpus(1, {"CUDA_VISIBLE_DEVICES": "2,-1,3"}) == ["2"]


def test_slots(monkeypatch):
    four = ["0", "1", "2", "3"]
    assert [slot.gpus for slot in gpu_slots(four, 1, 1, None)] == [("0",), ("1",), ("2",), ("3",)]
    assert [slot.gpus for slot in gpu_slots(four[:3], 2, 1, None)] == [("0", "1")]
    shared = [slot.gpus for slot in gpu_slots(four[:2], 1, 2, None)]
    assert shared == [("0",), ("1",), ("0",), ("1",)]
    with pytest.raises(UserError, match="gpus_per_run is 2, but torch finds 1"):
        gpu_slots(["0"], 2, 1, None)
    assert len(cpu_slots(7, 2)) == 3 and len(cpu_slots(1, 2)) == 1
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    environment = cpu_slots(4, 2)[0].environment()
    assert environment["OMP_NUM_THREADS"] == "2" and environment["CUDA_VISIBLE_DEVICES"] == ""
    assert environment["OMP_WAIT_POLICY"] == "PASSIVE", "threads that wait do not spin"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert cpu_slots(4, 2)[0].environment()["OMP_WAIT_POLICY"] == "ACTIVE"
    assert cpu_slots(4, 2)[0].environment()["LOGLEVEL"] == "INFO"
    assert gpu_slots(four, 2, 1, None)[1].environment()["CUDA_VISIBLE_DEVICES"] == "2,3"


def test_a_lock_is_held_by_one_and_given_back_by_a_kill(tmp_path):
    code = (
        "import sys; from pathlib import Path\n"
        "from selfattn_experiments.runs.execution.lock import locked\n"
        "with locked(Path(sys.argv[1]), 'it'):\n    print('held', flush=True); sys.stdin.read()"
    )
    path = tmp_path / "lock"
    command = [sys.executable, "-c", code, str(path)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=rf"another runner is using it \(process {holder.pid} "):
            locked(path, "it").__enter__()
        with pytest.raises(UserError, match="another runner"):
            locked(path, "it", shared=True).__enter__()
    finally:
        holder.kill()
        holder.wait()
    assert json.loads(path.read_text())["pid"] == holder.pid  # stale, and no obstacle
    with locked(path, "it"):
        pass
    with locked(path, "it", shared=True), locked(path, "it", shared=True):
        pass


def test_the_time_that_is_left(tmp_path):
    """Two slots: one run has 30 s left, one 50 s; the third, of 100 s, follows the first."""
    jobs = [Job(FakeRun(tmp_path, name, max_update=100)) for name in ("a-1", "a-2", "b-1")]
    estimate = Estimate(jobs, 2)
    assert estimate.total() is None
    for job, update in zip(jobs, (70, 50), strict=False):
        job.child, job.state = object(), "training"
        job.work.follower.update = update
        job.work.follower._first, job.work.follower._last = (0, 0.0), (update, float(update))
    assert estimate.of(jobs[0]) == 30 and estimate.of(jobs[2]) == 100
    assert estimate.total() == 130
    jobs[0].child, jobs[0].state = None, "done"
    jobs[0].record = {"updates": 100, "seconds": {"train": 200.0, "test": 7.0, "average": 1.0}}
    assert estimate.of(jobs[1]) == 58, "its own speed, and the tests of its system"
    assert estimate.of(jobs[2]) == 100 * 1.5 + 8, "the mean speed of the others"


def test_a_file_gets_lines_now_and_then(tmp_path):
    jobs = [Job(FakeRun(tmp_path, name, max_update=100)) for name in ("a-1", "b-1")]
    stream, now = io.StringIO(), 0.0
    screen = Screen("grid", jobs, Estimate(jobs, 1), stream, lambda: now)
    screen.show()
    assert stream.getvalue() == "grid: 0 of 2 runs done, 2 waiting\n"
    jobs[0].child, jobs[0].state = object(), "training"
    jobs[0].work.follower.update, jobs[0].work.follower.loss = 40, 3.5
    now = 1.0
    screen.show()
    now = 59.0
    screen.show()
    assert stream.getvalue().count("\n") == 2
    now = 61.0
    screen.show()
    assert stream.getvalue().splitlines()[2:] == [
        "a-1  training        40/100  loss 3.50",
        "grid: 0 of 2 runs done, 1 running, 1 waiting, time left unknown",
    ]


def test_a_terminal_is_never_overfull(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "8")
    jobs = [Job(FakeRun(tmp_path, f"a-{seed}", max_update=100)) for seed in range(20)]
    jobs[7].state, jobs[7].reason = "failed", "because " * 20
    jobs[9].child, jobs[9].state = object(), "training"
    stream = io.StringIO()
    stream.isatty = lambda: True
    screen = Screen("grid", jobs, Estimate(jobs, 1), stream)
    screen.show()
    lines = stream.getvalue().splitlines()
    assert len(lines) <= 7 and max(map(len, lines)) < 40
    assert any(line.startswith("a-9   training") for line in lines)
    assert any(line.startswith("a-7   failed") for line in lines)
    assert lines[-1] == "... 16 waiting"
    screen.show(last=True)
    assert stream.getvalue().count(f"\x1b[{len(lines)}A\x1b[J") == 1


def test_durations():
    shown = [duration(seconds) for seconds in (0, 59.4, 59.6, 719, 3599, 11100, 187200)]
    assert shown == ["0s", "59s", "1m", "12m", "1h00m", "3h05m", "2d04h"]


def sbatch_words(script):
    """The words of the #SBATCH lines, as SLURM's src/sbatch/opt.c reads them.

    Quotes may begin inside of a word, a backslash escapes within them too, and # outside begins a
    comment.
    """
    words = []
    for line in script.splitlines():
        if not line.startswith("#SBATCH"):
            continue
        word, quote, letters = None, "", iter(line.removeprefix("#SBATCH"))
        for letter in letters:
            if letter == "\\":
                word = (word or "") + next(letters)
            elif quote and letter == quote:
                quote = ""
            elif not quote and letter in "'\"":
                word, quote = word or "", letter
            elif not quote and letter == "#":
                break
            elif not quote and letter.isspace():
                words += [] if word is None else [word]
                word = None
            else:
                word = (word or "") + letter
        assert not quote, line
        words += [] if word is None else [word]
    return words


def test_slurm_scripts(grid_file, tmp_path):
    """In a folder whose name has all that a shell or SLURM could stumble over."""
    tmp_path = tmp_path / "a folder's 5 % #1 ü"
    tmp_path.mkdir()
    slurm = "slurm: --partition long -A 'my lab' --gpus=1 --qos='so so' --comment 'a\\b'"
    path = grid_file("average: 2", slurm).rename(tmp_path / "my grid.yaml")
    names = ["base-1", "more-1"]
    runner = [sys.executable, str(tmp_path / "runner.py")]
    flags = ["--device", "cuda"]
    submit = write_scripts(tmp_path / "jobs", read_grid(path), names, runner, flags)
    scripts = {file.name: file.read_text() for file in submit.parent.iterdir()}
    assert sorted(scripts) == ["array.sbatch", "collect.sbatch", "submit.sh"]
    for name, text in scripts.items():
        done = subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True)
        assert done.returncode == 0 and not done.stderr, name
    for line in ("--array=0-1", "--partition long", "-A 'my lab'", "--gpus=1", "--requeue"):
        assert f"\n#SBATCH {line}\n" in scripts["array.sbatch"]
    found = {name: sbatch_words(text) for name, text in scripts.items()}
    folder = str(submit.parent).replace("%", "%%")
    assert f"--output={folder}/%x-%A_%a.log" in found["array.sbatch"]
    assert f"--output={folder}/%x-%j.log" in found["collect.sbatch"]
    assert "--job-name=my grid-run" in found["array.sbatch"]
    assert "a\\b" in found["array.sbatch"]
    for words in (found["array.sbatch"], found["collect.sbatch"]):
        assert words[words.index("-A") + 1] == "my lab" and "--qos=so so" in words
    assert "--gpus=1" not in found["collect.sbatch"] and "long" in found["collect.sbatch"]
    # What the second task and the last job do, with a runner and an sbatch that only say so.
    (tmp_path / "runner.py").write_text("import sys; print(*sys.argv[1:])")
    said = subprocess.run(
        ["bash", submit.parent / "array.sbatch"],
        env={"SLURM_ARRAY_TASK_ID": "1"}, text=True, capture_output=True,
    )  # fmt: skip
    assert said.stdout == f"{path} --device cuda --only more-1\n", said.stderr
    usual = grid_file()
    for device, asked in (("cuda", True), ("cpu", False)):
        write_scripts(tmp_path / "usual", read_grid(usual), names, runner, ["--device", device])
        script = (tmp_path / "usual" / "array.sbatch").read_text()
        assert ("--gpus=1" in sbatch_words(script)) is asked
        assert "--cpus-per-task=4" in sbatch_words(script)
    wide = grid_file("average: 2", "average: 2\ncpus_per_run: 16")
    write_scripts(tmp_path / "usual", read_grid(wide), names, runner, ["--device", "cpu"])
    assert "--cpus-per-task=16" in sbatch_words((tmp_path / "usual" / "array.sbatch").read_text())
    with pytest.raises(UserError, match="sbatch takes no backslash"):
        write_scripts(tmp_path / "a\\b", read_grid(path), names, runner)
    (tmp_path / "sbatch").write_text('#!/bin/sh\necho "$@" >> "$0.log"; echo "12;cluster"\n')
    (tmp_path / "sbatch").chmod(0o755)
    subprocess.run([submit], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    first, second = (tmp_path / "sbatch.log").read_text().splitlines()
    assert first == f"--parsable {submit.parent}/array.sbatch"
    assert second == f"--dependency=afterany:12 {submit.parent}/collect.sbatch"
