"""Scripts for a SLURM cluster: an array job with a task a run, and a job that collects.

Own code, because submitit pickles a function and submits it immediately: here a user gets scripts
to read and edit, on a machine that need not have SLURM, and a task is an ordinary command.
"""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from selfattn.errors import UserError
from selfattn_tasks.files import check_output_folder, write_text

from .grid import Grid


def write_scripts(
    folder: Path, grid: Grid, runs: Sequence[str], runner: Sequence[str], flags: Sequence[str] = ()
) -> Path:
    """Write ``array.sbatch``, ``collect.sbatch`` and ``submit.sh``.

    Returns:
        The path of ``submit.sh``.

    Raises:
        UserError: if the folder cannot be made, or SLURM could not write the output there.
    """
    check_output_folder("--slurm", folder)
    folder = Path(os.path.realpath(folder))
    if "\\" in str(folder) or "\n" in str(folder):
        raise UserError(
            f"--slurm is {str(folder)!r}, but sbatch takes no backslash in a log's name"
        )
    folder.mkdir(parents=True, exist_ok=True)
    command = shlex.join([*runner, str(grid.file.resolve())])
    task = shlex.join([*runner, str(grid.file.resolve()), *flags])
    gpus = () if "cpu" in flags else (f"--gpus={grid.gpus_per_run}",)
    usual = (*gpus, f"--cpus-per-task={grid.cpus_per_run or 4}", "--time=24:00:00")
    enter = f"cd {shlex.quote(str(Path.cwd()))}"
    name = grid.file.stem
    scripts = {}
    scripts["array.sbatch"] = [
        *_head(f"{name}-run", folder, "%x-%A_%a.log"),
        f"#SBATCH --array=0-{len(runs) - 1}",
        # A task that is moved to another host resumes from its last checkpoint, and so does one
        # that ran out of time and is submitted again.
        "#SBATCH --requeue",
        "#SBATCH --signal=B:TERM@60",
        *(f"#SBATCH {option}" for option in _options(grid.slurm or usual)),
        "set -euo pipefail",
        enter,
        f"runs=({shlex.join(runs)})",
        f'exec {task} --only "${{runs[$SLURM_ARRAY_TASK_ID]}}"',
    ]
    scripts["collect.sbatch"] = [
        *_head(f"{name}-collect", folder, "%x-%j.log"),
        *(f"#SBATCH {option}" for option in _options(grid.slurm) if _of_account(option)),
        "set -euo pipefail",
        enter,
        f"exec {command} --summary",
    ]
    scripts["submit.sh"] = [
        "#!/usr/bin/env bash",
        "# Runs that are done are skipped, so this may be called again after a failure.",
        "set -euo pipefail",
        f"array=$(sbatch --parsable {shlex.quote(str(folder / 'array.sbatch'))})",
        'sbatch --dependency="afterany:${array%%;*}" '
        + shlex.quote(str(folder / "collect.sbatch")),
    ]
    for file, lines in scripts.items():
        write_text(folder / file, "\n".join(lines) + "\n")
    (folder / "submit.sh").chmod(0o755)
    return folder / "submit.sh"


def _head(name: str, folder: Path, log: str) -> list[str]:
    log = str(folder).replace("%", "%%") + "/" + log
    return [
        "#!/usr/bin/env bash",
        f"#SBATCH --job-name={_quoted(name)}",
        f"#SBATCH --output={_quoted(log)}",
        "#SBATCH --open-mode=append",
    ]


def _options(words: Sequence[str]) -> list[str]:
    """One text for each flag with its values."""
    options: list[str] = []
    for word in words:
        if word.startswith("-"):
            name, equals, value = word.partition("=")
            options.append(name + equals + (_quoted(value) if value else ""))
        else:
            options[-1] += f" {_quoted(word)}"
    return options


def _quoted(word: str) -> str:
    """A word of an ``#SBATCH`` line, where a backslash escapes inside of single quotes, too."""
    return shlex.quote(word.replace("\\", r"\\"))


def _of_account(option: str) -> bool:
    """Whether an option is about who may run where, not about what training needs."""
    names = ("--account", "-A", "--partition", "-p", "--qos", "-q", "--clusters", "-M")
    return option.startswith((*names, "--reservation"))
