"""A run's own files, cut or changed by hand: it is not done, and no other run suffers."""

import json
import re
import shlex
from dataclasses import replace

import pytest
import torch

from selfattn.errors import UserError
from selfattn_experiments.runs import session
from selfattn_experiments.runs.execution import child
from selfattn_experiments.runs.execution.slots import Slot
from selfattn_experiments.runs.grid import read_grid
from selfattn_experiments.runs.identity import Identity
from selfattn_experiments.runs.run import Run
from selfattn_tasks import saved
from selfattn_tasks.cli import fairseq_command
from tests.conftest import run_verb

GRID = """
task: translation
data: {folder}
output: {folder}/out
seeds: [1, 2]
common: --arch tiny --max-update 10
systems: {{base: --dropout 0.1}}
references: {folder}/ref
"""


@pytest.fixture
def grid(tmp_path):
    (tmp_path / "dict.de.txt").touch()
    (tmp_path / "ref").write_text("a\n")
    (tmp_path / "grid.yaml").write_text(GRID.format(folder=tmp_path))
    return read_grid(tmp_path / "grid.yaml")


def new_run(grid, seed):
    run = Run(Identity(grid), "base", seed)
    run.prepare()
    return run


@pytest.fixture
def done(grid):
    """A run that is done, as far as its files say."""
    return done_run(grid, 1)


def done_run(grid, seed):
    run = new_run(grid, seed)
    run._mark_trained()
    run.attempts.begin(run.steps(Slot())[0], Slot())
    (run.folder / "test.out").write_text("D-0\t-1\ta\n")
    run._score("test")
    assert run.record() is not None
    return run


def test_languages_may_be_given_by_their_letters(grid, tmp_path):
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/test.en").write_text("a\n")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/dict.de.txt").touch()
    text = GRID.replace("data: {folder}", "data: {folder}/bin").replace(
        "--arch", "-s de -t en --arch"
    )
    text = text.replace("references: {folder}/ref", "").format(folder=tmp_path)
    grid.file.write_text(text)
    grid = read_grid(grid.file)
    assert grid.tests == {"test": tmp_path / "raw/test.en"}
    command = new_run(grid, 1).generate_command(Slot(), "test")
    assert "--source-lang de --target-lang en" in " ".join(command)
    assert command[:3] == fairseq_command("generate")


@pytest.mark.parametrize("key", ["identity", "hypotheses", "scores", "updates", "attempts"])
def test_a_record_without_a_part_does_not_count(done, grid, key):
    path = done.folder / "run.json"
    record = json.loads(path.read_text())
    del record[key]
    path.write_text(json.dumps(record))
    assert done.record() is None and done.state() == "unfinished"
    assert session.summarise(grid) == 1
    assert [step.name for step in done.steps(Slot())] == ["test"]


@pytest.mark.parametrize("found", [{}, {"test": {}}, {"test": None}, [], {"test": {"sha256": 1}}])
def test_a_record_without_a_hash_does_not_count(done, found):
    path = done.folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"hypotheses": found}))
    assert done.record() is None


@pytest.mark.parametrize(
    "edit",
    [
        {"seconds": None}, {"seconds": {"train": "1"}}, {"attempts": [1]}, {"scores": [1]},
        {"scores": {}}, {"scores": {"test": {"BLEU": "high"}}}, {"commits": None},
        {"warnings": None}, {"best_valid": "x"},
    ],
    ids=str,
)  # fmt: skip
def test_a_record_that_was_edited_does_not_count(done, grid, edit):
    path = done.folder / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | edit))
    assert done.record() is None and session.summarise(grid) == 1


@pytest.mark.parametrize("edit", [{"files": None}, {"flags": [1]}, {"more": 1}], ids=str)
def test_a_configuration_that_was_edited_is_told_from_another(done, edit):
    path = done.folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | edit))
    if "files" in edit:
        return done.check()
    with pytest.raises(UserError, match="was trained with (other flags|what nobody knows)"):
        done.check()


def test_a_dry_run_writes_nothing(done, grid):
    (done.folder / "run.json").unlink()
    (done.folder / "trained.json").unlink()
    last = done.folder / "checkpoints" / "checkpoint_last.pt"
    last.parent.mkdir()
    state = {"model": {"w": torch.ones(1)}, "cfg": {"a": 1}}
    saved.write(state | {"optimizer_history": [{"num_updates": 10}]}, last)
    session.dry_run(grid, session.Options("cpu"))
    assert not (done.folder / "trained.json").exists()
    done.prepare()
    assert (done.folder / "trained.json").exists()
    (done.folder / "trained.json").unlink()
    saved.write(state | {"optimizer_history": []}, last)
    with pytest.raises(UserError, match="does not say after how many updates it was saved"):
        done.steps(Slot())


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"attempts": [1, {}]}', '{"attempts": 5}', "\udcff", "[" * 10**5]
)
@pytest.mark.parametrize("name", ["run.json", "attempts.json", "trained.json"])
def test_files_that_were_cut_are_read_as_missing(done, grid, name, text):
    (done.folder / name).write_text(text, errors="surrogateescape")
    done.attempts.read()
    again = ["train", "test"] if name == "trained.json" else ["test"]
    assert [step.name for step in done.steps(Slot())] == again
    session.summarise(grid)


def test_a_truncated_checkpoint_fails_its_run_alone(grid):
    """At every length at which torch's readers begin another part of the file."""
    first, second = new_run(grid, 1), new_run(grid, 2)
    last = first.folder / "checkpoints" / "checkpoint_last.pt"
    last.parent.mkdir()
    weights = {f"w{i}": torch.ones(300) for i in range(60)}
    state = {"model": weights, "cfg": {"a": 1}, "optimizer_history": [{"num_updates": 10}]}
    saved.write(state, last)
    content = last.read_bytes()
    assert len(content) > 80_000  # shorter ones never raise OSError
    for length in [*range(0, len(content), len(content) // 80), len(content) - 1]:
        last.write_bytes(content[:length])
        with pytest.raises((UserError, OSError)):
            first.steps(Slot())
    assert [step.name for step in second.steps(Slot())] == ["train", "test"]


def test_only_a_dry_run_takes_an_output_that_cannot_be_written(grid, capsys):
    text = grid.file.read_text()
    grid.file.write_text(text.replace("output: ", "output: /proc/"))
    for flags in ((), ("--summary",), ("--slurm", grid.data / "jobs")):
        with pytest.raises(UserError, match="`output` is /proc/.*, which cannot be written: No su"):
            run_verb("runs", grid.file, *flags)
    run_verb("runs", grid.file, "--dry-run", "--device", "cpu")
    assert "# base-2\n" in capsys.readouterr().out


def test_commands_of_a_dry_run_can_be_pasted(tmp_path, capsys):
    folder = tmp_path / "of a user"
    folder.mkdir()
    for name in ("ref", "dict.de.txt"):
        (folder / name).touch()
    (folder / "grid.yaml").write_text(GRID.format(folder=folder))
    session.dry_run(read_grid(folder / "grid.yaml"), session.Options("cpu"))
    (test,) = (line for line in capsys.readouterr().out.splitlines() if "base-2/test.out" in line)
    assert shlex.split(test)[-2:] == [">", str(folder / "out/base-2/test.out")]


def test_a_summary_of_nothing_is_refused(grid):
    with pytest.raises(UserError, match="no run of .* has been started"):
        session.summarise(grid)


def test_a_run_whose_output_could_not_be_scored_has_failed(grid, capsys):
    run = new_run(grid, 1)
    run.attempts.begin(run.steps(Slot())[0], Slot())
    run.attempts.end(0, "test.out has no sentence 0")
    assert session.summarise(grid) == 1 and "failed: base-1" in capsys.readouterr().out
    run.attempts.begin(run.steps(Slot())[0], Slot())  # tried again
    assert run.state() == "unfinished"


def test_what_averaging_warned_of_is_in_the_record(grid):
    run = Run(Identity(replace(grid, average=2)), "base", 1)
    run.prepare()
    command = f"$ {shlex.join(run.steps(Slot())[-2].command)}\n"
    log = f"{command}warning: of before\n{command}averaged\nwarning: 2, not 4\n"
    (run.folder / "average.log").write_text(log)
    assert run._new_warnings() == ["average: 2, not 4"]


def test_runs_of_another_grid_in_the_same_folder_are_told(grid, capsys):
    done_run(grid, 1)
    session.summarise(grid)
    assert "also holds" not in capsys.readouterr().out
    (grid.output / "other-7").mkdir()
    (grid.output / "other-7/config.json").write_text("{}")
    session.summarise(grid)
    said = f"warning: {grid.output} also holds other-7, which {grid.file} does not name: grids"
    assert said in capsys.readouterr().out


def test_a_spread_in_the_summary_is_rounded_once(grid, capsys):
    """The standard deviation of these is 0.2546: 0.255 in three digits, yet 0.25 in two."""
    for seed, bleu in ((1, 30.0), (2, 30.36)):
        path = done_run(grid, seed).folder / "run.json"
        record = json.loads(path.read_text())
        record["scores"]["test"]["BLEU"] = bleu
        path.write_text(json.dumps(record))
    assert session.summarise(grid) == 0
    assert "test BLEU 30.18 ± 0.25 (n = 2)" in capsys.readouterr().out


def test_a_figure_that_only_some_runs_have_is_summed_up_of_these(grid, capsys):
    for seed, scores in ((1, {"BLEU": 30.0}), (2, {"BLEU": 30.36, "chrF": 50.0})):
        path = done_run(grid, seed).folder / "run.json"
        record = json.loads(path.read_text()) | {"scores": {"test": scores}}
        path.write_text(json.dumps(record))
    assert session.summarise(grid) == 0
    shown = capsys.readouterr().out
    assert "(n = 2)" in shown and "chrF 50.00" in shown


def test_a_validation_that_was_done_again_counts_once(grid):
    """Killed behind update 4, resumed at 2, and on another machine the losses are others."""
    run = new_run(grid, 1)
    text = 'x | INFO | valid | {{"valid_loss": "{}", "valid_num_updates": "{}"}}\n'.format
    for losses in ([(2.0, 2), (1.0, 4), (3.0, 5)], [(1.5, 4), (1.6, 5), (1.5, 6), (1.7, 10)]):
        with run.log.open("a") as file:
            file.writelines(text(*loss) for loss in losses)
        run.follower.begin_attempt()
    run._mark_trained()
    found = json.loads((run.folder / "trained.json").read_text())
    assert found["best_valid"] == {"metric": "loss", "update": 6, "value": 1.5}


def test_each_attempt_says_what_the_clone_then_was(grid, monkeypatch):
    """A commit between two runs, or an edited file, is in the record of the second."""
    run = new_run(grid, 1)
    commits = iter("ab")
    monkeypatch.setattr(child, "facts", lambda: {"commit": next(commits), "cpu": ""})
    for _ in range(2):
        run.attempts.begin(run.steps(Slot())[0], Slot())
    assert [attempt["commit"] for attempt in run.attempts.read()] == ["a", "b"]


def test_a_user_directory_of_ones_own_is_a_part_of_the_commit(grid, tmp_path, monkeypatch):
    monkeypatch.setattr(child, "facts", lambda: {"commit": "abc", "cpu": ""})
    (tmp_path / "my_exp" / "models").mkdir(parents=True)
    (tmp_path / "my_exp" / ".#mine.py").symlink_to("nobody@nowhere")  # of an open Emacs
    mine = replace(grid, user_dir=tmp_path / "my_exp")
    found = []
    for code in ("y = softmax(x)", "y = sigmoid(x)", "y = softmax(x)"):
        (tmp_path / "my_exp" / "models" / "mine.py").write_text(code)
        run = new_run(mine, 1)
        run.attempts.begin(run.steps(Slot())[0], Slot())
        found.append(run.attempts.read()[-1]["commit"])
    assert found[0] == found[2] != found[1]
    assert re.fullmatch("abc/user_dir:[0-9a-f]{10}", found[0])


def test_word_vectors_of_the_same_name_are_not_mixed(grid, tmp_path):
    vectors = tmp_path / "elsewhere" / "vectors.txt"
    vectors.parent.mkdir()
    vectors.write_text("a 1\n")
    text = grid.file.read_text().replace("--arch", f"--word-embeddings {vectors} --arch")
    grid.file.write_text(text)
    grid = read_grid(grid.file)
    new_run(grid, 1).check()
    vectors.write_text("a 2\n")
    with pytest.raises(UserError, match=r"was trained with another file .*vectors\.txt: put that"):
        Run(Identity(grid), "base", 1).check()
    config = tmp_path / "out" / "base-1" / "config.json"
    old = json.loads(config.read_text())
    del old["files"]  # of an older runner
    config.write_text(json.dumps(old))
    Run(Identity(grid), "base", 1).check()


def test_a_run_is_tested_again_with_another_file_of_the_same_name(grid, tmp_path):
    model = tmp_path / "elsewhere" / "lm.pt"
    model.parent.mkdir()
    model.write_text("one")
    grid = replace(grid, generate=("--lm-path", str(model)))
    assert done_run(grid, 1).state() == "done"
    model.write_text("two")
    again = Run(Identity(grid), "base", 1)
    again.check()
    assert again.record() is None
    assert [step.name for step in again.steps(Slot())] == ["test"]


def test_a_value_may_be_longer_than_the_name_of_a_file(grid):
    grid.file.write_text(grid.file.read_text().replace("--arch", f"--notes {'x' * 300} --arch"))
    new_run(read_grid(grid.file), 1).check()
