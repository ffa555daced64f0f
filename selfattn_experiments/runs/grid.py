"""A grid: what is trained, with which seeds, and how it is tested; read from a file.

Each mistake in the file is one sentence.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from selfattn.errors import UserError
from selfattn_tasks.registry import TASKS
from selfattn_tasks.task import Task

from ..process import plugin_folder
from . import flags as flag
from .keys import NAME, Reader, load


@dataclass(frozen=True)
class Grid:
    """What a grid file says; paths are relative to the current folder."""

    file: Path
    task: Task  # from `selfattn_tasks.registry`
    data: Path  # the folder that fairseq-train reads
    output: Path  # gets a folder `SYSTEM-SEED` for each run, and the summary
    seeds: Mapping[str, tuple[int, ...]]  # name of a system to the seeds of its runs
    systems: Mapping[str, tuple[str, ...]]  # name to flags of fairseq-train, common ones first
    tests: Mapping[str, Path]  # name of a test set to its references or gold file
    user_dir: Path
    generate: tuple[str, ...] = ()  # flags of what applies a checkpoint to a test set
    average: int | None = None  # how many of the last checkpoints are averaged
    checkpoint: str = "best"  # without `average`: `best` or `last`
    keep_checkpoints: bool = False  # of folds that are tested, too
    lowercase: bool = False  # whether scores ignore case
    cpus_per_run: int | None = None  # cores and threads of a run
    gpus_per_run: int = 1  # GPUs of a run, if it is trained on GPUs
    slurm: tuple[str, ...] = ()

    def names(self) -> list[tuple[str, int]]:
        """System and seed of each run: every system's first seed, then every second one."""
        every = dict.fromkeys(seed for seeds in self.seeds.values() for seed in seeds)
        return [(name, seed) for seed in every for name in self.systems if seed in self.seeds[name]]

    def flags(self, system: str) -> flag.Flags:
        """The flags of a system, by name."""
        return flag.parse(self.systems[system], f"system {system}")

    def saves_by_update(self, system: str) -> bool:
        """Whether checkpoints are saved by update, not by epoch alone."""
        return flag.number(self.flags(system), "--save-interval-updates") is not None


def read_grid(path: Path) -> Grid:
    """Read and check a grid file, which is YAML as ``selfattn runs --help`` shows it.

    Raises:
        UserError: for the first mistake found.
    """
    content = load(path)
    reader = Reader(path, content)
    task = TASKS[reader.one_of("task", tuple(TASKS), required=True)]
    reader.check_keys(task)
    data = _data_folder(reader.path("data"), task)
    common = reader.flags("common")
    systems = reader.systems(common)
    words = reader.flags(task.flags_key)
    where = f"{path}: {task.flags_key}"
    flag.refuse_owned(flag.parse(words, where), flag.owned_by(task), where)
    slurm = reader.flags("slurm")
    flag.refuse_owned(flag.parse(slurm, f"{path}: slurm"), flag.SLURM, f"{path}: slurm")
    grid = Grid(
        file=path,
        task=task,
        data=data,
        output=Path(reader.text("output")),
        seeds=reader.seeds(),
        systems=systems,
        tests=_tests(reader, task, data, flag.spelt_out(flag.parse(common, f"{path}: common"))),
        user_dir=reader.path("user_dir") if "user_dir" in content else plugin_folder("`user_dir`"),
        generate=words,
        average=reader.whole_number("average"),
        checkpoint=reader.one_of("checkpoint", ("best", "last")) or "best",
        keep_checkpoints=bool(reader.one_of("keep_checkpoints", (True, False))),
        lowercase=bool(reader.one_of("lowercase", (True, False))),
        cpus_per_run=reader.whole_number("cpus_per_run"),
        gpus_per_run=reader.whole_number("gpus_per_run") or 1,
        slurm=slurm,
    )
    if "average" in content and "checkpoint" in content:
        raise UserError(f"{path}: `average` and `checkpoint` exclude each other; give one of them")
    _check_folds(reader, task, data, grid.tests)
    if task.predictor is None and os.pathsep in str(grid.output):
        raise UserError(
            f"{path}: `output` is {grid.output}, but fairseq-generate takes {os.pathsep!r} for the "
            "end of a path; leave it out"
        )
    if grid.output.resolve() == data.resolve():
        raise UserError(f"{path}: `output` is {grid.output}, the folder of the data; give another")
    for system in grid.systems:
        _check_training(grid, system)
    return grid


def _data_folder(folder: Path, task: Task) -> Path:
    """The folder with the dictionaries: the one named, or ``data-bin`` in it."""
    for place in (folder, folder / "data-bin"):
        if any(place.glob(task.data_mark)):
            return place
    raise UserError(
        f"`data` is {folder}, which holds no prepared data (no {task.data_mark}): make it with "
        f"`{task.prepare}`"
    )


def _tests(reader: Reader, task: Task, data: Path, common: flag.Flags) -> dict[str, Path]:
    """Name of each test set to its references or gold file."""
    key = task.gold_key
    value = reader.content.get(key)
    if value is None and (usual := task.usual_gold(data, common)) is not None:
        value = str(usual)
    if isinstance(value, str):
        value = {"test": value}
    if not isinstance(value, dict) or not value:
        raise reader.wrong(key, "a file, or names of test sets with a file each")
    for name, file in value.items():
        if not isinstance(name, str) or not NAME.fullmatch(name) or not isinstance(file, str):
            raise reader.wrong(key, "a file, or names of test sets with a file each")
        if not Path(file).is_file():
            raise UserError(f"{reader.file}: `{key}` names {file}, but there is no such file")
        if fault := task.gold_fault(Path(file), data):
            raise UserError(f"{reader.file}: `{key}`: {fault}")
    return {name: Path(file) for name, file in value.items()}


def _check_folds(reader: Reader, task: Task, data: Path, tests: Mapping[str, Path]) -> None:
    """Refuse gold files of folds that are not what is held out, in its order."""
    if task.folds(data) is None:
        return
    if len(tests) > 1:
        raise UserError(
            f"{reader.file}: `{task.gold_key}` names {len(tests)} test sets, but the folds of "
            f"{data} are tested on their own held-out parts"
        )
    (file,) = tests.values()
    usual = task.usual_gold(data, {})
    if usual not in (None, file) and task.read_gold(file) != task.read_gold(usual):
        raise UserError(
            f"{reader.file}: `{task.gold_key}` is {file}, but the folds of {data} are tested on "
            f"{usual}, which says something else; leave it out"
        )


def _check_training(grid: Grid, system: str) -> None:
    """Refuse flags with which training does not end, or its checkpoints are not kept."""
    flags = grid.flags(system)
    where = f"{grid.file}: system {system}"
    limits = [flag.number(flags, name) or 0 for name in ("--max-update", "--max-epoch")]
    if max(limits) <= 0:
        raise UserError(f"{where} must give --max-update or --max-epoch, or it never ends")
    every = flag.number(flags, "--save-interval") or 1
    if limits[0] <= 0 and limits[1] % every:  # fairseq saves where --max-update ends training
        raise UserError(
            f"{where} gives --save-interval {every:g}, but --max-epoch {limits[1]:g}: its last "
            "epoch would not be saved; make one a multiple of the other"
        )
    if grid.average is None:
        if grid.checkpoint == "best" and "--disable-validation" in flags:
            raise UserError(f"{where} gives --disable-validation, so set `checkpoint: last`")
        return
    by_update = grid.saves_by_update(system)
    if not by_update and "--no-epoch-checkpoints" in flags:
        raise UserError(
            f"{where} keeps no checkpoints to average: give --save-interval-updates, or leave out "
            "--no-epoch-checkpoints"
        )
    if not by_update and limits[0] <= 0 and limits[1] / every < grid.average:
        raise UserError(
            f"{where} saves {limits[1] / every:.0f} checkpoints by --max-epoch {limits[1]:g}, but "
            f"`average` is {grid.average}"
        )
    name = "--keep-interval-updates" if by_update else "--keep-last-epochs"
    kept = flag.number(flags, name)
    if kept is not None and 0 < kept < grid.average:
        raise UserError(f"{where} gives {name} {kept:.0f}, but `average` is {grid.average}")
    interval = flag.number(flags, "--save-interval-updates") or 0
    if interval > 0 and 0 < limits[0] < interval * grid.average:
        raise UserError(
            f"{where} saves every {interval:.0f} of {limits[0]:.0f} updates, which makes less than "
            f"the {grid.average} checkpoints of `average`"
        )
