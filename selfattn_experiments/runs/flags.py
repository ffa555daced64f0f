"""Command-line flags in a grid file: parsed, compared, and those that the runner sets itself."""

import math
import re
from collections.abc import Mapping, Sequence

from selfattn.errors import UserError
from selfattn_tasks.task import Task

Flags = dict[str, list[str]]
_NUMBER = re.compile(r"-[\d.]")

_FOLDER = "each run has a folder of its own, and the runner names it"
_RESUME = "it would keep a run from resuming where it stopped"
# Flags that a grid file must not give, and what to use instead.
TRAIN: Mapping[str, str] = {
    "--seed": "the key `seeds` lists them",
    "--task": "the key `task` sets it",
    "--user-dir": "the key `user_dir` sets it",
    "--cpu": "`selfattn runs --device cpu` does that",
    "--fold": "the runner trains every fold in turn",
    "--distributed-world-size": "the key `gpus_per_run` sets it",
    "--device-id": "the runner chooses the device",
    "--log-format": "the runner reads the log",
    **dict.fromkeys(("--save-dir", "--log-file", "--tensorboard-logdir"), _FOLDER),
    **dict.fromkeys(
        ("--no-save", "--no-last-checkpoints", "--no-save-optimizer-state", "--restore-file",
         "--reset-optimizer", "--reset-dataloader", "--reset-meters", "--reset-lr-scheduler"),
        _RESUME,
    ),
}  # fmt: skip
GENERATE: Mapping[str, str] = {
    **{name: TRAIN[name] for name in ("--seed", "--task", "--user-dir", "--cpu")},
    "--path": "the keys `average` and `checkpoint` choose the checkpoint",
    "--results-path": _FOLDER,
    "--quiet": "the translations would be missing",
    **dict.fromkeys(("--score-reference", "--prefix-size"), "it translates by the references"),
}
PREDICT: Mapping[str, str] = {
    "--device": "`selfattn runs --device` does that",
    **dict.fromkeys(("--output", "--format", "--embeddings"), _FOLDER),
}
SLURM: Mapping[str, str] = {
    **dict.fromkeys(
        ("--array", "-a"),
        "a task is a run; `scontrol update ArrayTaskThrottle=N` limits how many run at a time",
    ),
    **dict.fromkeys(("--output", "-o", "--open-mode"), "logs go to the folder of --slurm"),
    **dict.fromkeys(("--job-name", "-J"), "it is the name of the grid's file"),
    **dict.fromkeys(("--signal", "--requeue", "--no-requeue"), "a stopped run is to resume"),
}


def parse(words: Sequence[str], where: str) -> Flags:
    """Flag to values; of a flag that is given twice the last one counts, as in argparse.

    Raises:
        UserError: if the first word is not a flag.
    """
    flags: Flags = {}
    values: list[str] | None = None
    for word in words:
        if word.startswith("-") and not _NUMBER.match(word):
            name, equals, value = word.partition("=")
            if len(word) > 2 and word[1] != "-":  # -a0-9: a letter and its value
                name, equals, value = word[:2], "=", word[2:].removeprefix("=")
            values = flags[name] = [value] if equals else []
        elif values is None:
            raise UserError(f"{where} begins with {word!r}, but must begin with a flag (--...)")
        else:
            values.append(word)
    return flags


def owned_by(task: Task) -> Mapping[str, str]:
    """The flags that the runner sets itself where a checkpoint is applied."""
    where = f"the key `{task.gold_key}` names the "
    if task.predictor is None:
        return {**GENERATE, "--gen-subset": f"{where}test sets"}
    return {**PREDICT, **dict.fromkeys(task.input_flags, f"{where}files")}


def refuse_owned(flags: Flags, owned: Mapping[str, str], where: str) -> None:
    """Refuse a flag that the runner sets itself."""
    for name in flags:
        if name in owned:
            raise UserError(f"{where} gives {name}, which is not allowed: {owned[name]}")


def spelt_out(flags: Flags) -> Flags:
    """The same flags with fairseq's two letters for languages in full."""
    letters = {"-s": "--source-lang", "-t": "--target-lang"}
    return {letters.get(name, name): values for name, values in flags.items()}


def number(flags: Flags, name: str) -> float | None:
    """The value of a numeric flag; None if absent, 0 (fairseq's "never"), infinite or no number."""
    try:
        value = float((flags.get(name) or ["0"])[0])
    except ValueError:  # fairseq says better what it wants
        return None
    return value if value and math.isfinite(value) else None


def difference(old: Flags, new: Flags) -> str:
    """What changed, in words: ``--lr 0.1 then, --lr 0.2 now``; empty if nothing did."""

    def shown(flags: Flags, name: str) -> str:
        return " ".join([name, *flags[name]]) if name in flags else f"no {name}"

    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    parts = [f"{shown(old, name)} then, {shown(new, name)} now" for name in changed[:3]]
    return "; ".join(parts + ["and others"] * (len(changed) > 3))
