"""Find the runs of a system: files by a pattern, their seeds, their logs."""

import glob
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks.files import read_json

TEST = "{test}"
FEWEST_RUNS = 3
FEWEST_SENTENCES = 30
LOG_NAME = "train.log"
# What `selfattn runs` writes beside the hypotheses: when a run begins, and when it is done.
BEGUN_NAME, RECORD_NAME = "config.json", "run.json"
_BEGUN, _RECORD = ("task", "seed", "flags"), ("system", "seed")
# NAME=..., where NAME holds no slash or wildcard, so that a path with = in a folder stays a path.
_NAMED = re.compile(r"([^=/*?\[\]{}]+)=(.+)", re.DOTALL)
_SEED = re.compile(r"seed[-_=.]?(\d+)", re.IGNORECASE)
_SEED_LOGGED = re.compile(r"'seed': (\d+)")
_FINISHED = "done training in"


@dataclass(frozen=True)
class System:
    """A system to compare."""

    name: str
    pattern: str  # glob of its runs' files; `{test}` is replaced by the name of the test set

    def pattern_for(self, test_set: str) -> str:
        """The glob of its files for a test set."""
        return self.pattern.replace(TEST, glob.escape(test_set))

    def files(self, test_set: str) -> set[Path]:
        """What that glob matches."""
        found = map(Path, glob.glob(self.pattern_for(test_set), recursive=True))
        return {path for path in found if path.is_file()}


@dataclass(frozen=True)
class Found:
    """A file of hypotheses that a pattern matched."""

    path: Path
    seed: str | None  # that it was trained with, if the log or the path says so
    log: Path | None  # `train.log` beside the file or in the folder above, if there is one
    # What `selfattn runs` wrote beside it; empty if it did not.
    record: Mapping[str, Any] = field(default_factory=dict)
    stated: bool = False  # the seed is that of a record or log, not a guess from the path

    @property
    def protocol(self) -> str:
        """How its checkpoint was chosen: ``selection:dev|folds:10``.

        Empty without a record, and where a task has one protocol only.
        """
        return str(self.record.get("protocol") or "")

    @property
    def origin(self) -> dict[str, str]:
        """What trained it, as its record says: commits, processors and versions of torch."""
        attempts, commits = self.record.get("attempts"), self.record.get("commits")
        attempts = attempts if isinstance(attempts, list) else []
        trained = [a for a in attempts if isinstance(a, dict) and a.get("step") == "train"]
        if not trained:
            return {}

        versions = [a.get("versions") for a in trained]

        def all_of(values: Iterable[object]) -> str:
            return ", ".join(dict.fromkeys(str(value) for value in values if value))

        return {
            "commit": all_of(commits if isinstance(commits, list) else []),
            "processor": str(self.record.get("gpu") or all_of(a.get("cpu") for a in trained)),
            "torch": all_of(v.get("torch") for v in versions if isinstance(v, dict)),
        }


def split_name(text: str) -> tuple[str | None, str]:
    """Name and rest of ``NAME=REST``; None and the text where there is no name."""
    match = _NAMED.fullmatch(text)
    return (match[1].strip(), match[2]) if match else (None, text)


def name_systems(arguments: Sequence[str]) -> list[System]:
    """Systems from ``NAME=GLOB`` or ``GLOB``; a missing name is what tells the patterns apart.

    Raises:
        UserError: if a name is given twice.
    """
    given = [split_name(argument) for argument in arguments]
    guesses = _distinct_parts([pattern for _, pattern in given])
    names = [name or guess for (name, _), guess in zip(given, guesses, strict=True)]
    for i, name in enumerate(names):
        if name not in names[:i]:
            continue
        if given[i][0] is not None:
            raise UserError(f"two systems have the name {name!r}; give each another: NAME=GLOB")
        names[i] = f"{name} ({i + 1})"
    return [System(name, pattern) for name, (_, pattern) in zip(names, given, strict=True)]


def name_test_sets(arguments: Sequence[str]) -> list[tuple[str, Path]]:
    """Names and files from ``NAME=FILE`` or ``FILE``; a missing name is the file's.

    Raises:
        UserError: if two have one name.
    """
    given = [split_name(argument) for argument in arguments]
    named = [
        (name or Path(path).name.lstrip(".").split(".")[0], Path(path)) for name, path in given
    ]
    names = [name for name, _ in named]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"--ref has two test sets named {name!r}; name them: NAME=FILE")
    return named


def name_logs(arguments: Sequence[str], systems: Sequence[System]) -> dict[str, list[Path]]:
    """System to logs from ``NAME=GLOB``.

    Raises:
        UserError: if there is no such system, or no such file.
    """
    logs: dict[str, list[Path]] = {}
    names = [system.name for system in systems]
    for argument in arguments:
        name, pattern = split_name(argument)
        if name not in names:
            raise UserError(
                f"--logs is {argument!r}, but must be NAME=GLOB with a NAME of {', '.join(names)}"
            )
        found = sorted(Path(path) for path in glob.glob(pattern, recursive=True))
        if not found:
            raise UserError(f"--logs is {argument!r}, but no file matches")
        logs.setdefault(str(name), []).extend(found)
    return logs


def _distinct_parts(patterns: Sequence[str]) -> list[str]:
    folders = [_folder(pattern) for pattern in patterns]
    if all(map(glob.has_magic, patterns)) and len(set(folders)) == len(patterns):
        return folders
    # A file's ending is no part of a name, if there is a name: "." has none.
    absolute = map(Path, map(os.path.abspath, patterns))
    parts = [(path.parent / path.stem).parts for path in absolute]
    for place in range(min(map(len, parts))):
        names = [_clean(part[place]) for part in parts]
        if all(names) and len(set(names)) == len(set(patterns)) > 1:
            return names
    return folders


def _folder(pattern: str) -> str:
    """The last part of the path before the first wildcard that says more than "seed"."""
    named = [name for p in Path(re.split(r"[*?\[]", pattern)[0]).parts if (name := _clean(p))]
    return named[-1] if named else pattern


def _clean(part: str) -> str:
    bare = re.sub(r"\[.*?\]|\{.*?\}|[*?]", "", part).strip("-_. /")
    return re.sub(r"[-_.]*seed$", "", bare, flags=re.IGNORECASE)


def find_runs(system: System, test_set: str, several: bool) -> tuple[list[Found], list[str]]:
    """The files of a system for a test set, of one or several, and warnings.

    Raises:
        UserError: if nothing matches, or the pattern misses ``{test}``.
    """
    if several and TEST not in system.pattern:
        raise UserError(
            f"the pattern of {system.name} is {system.pattern!r}; with several --ref it must hold "
            f"{TEST}, which is replaced by the name of the test set"
        )
    pattern = system.pattern_for(test_set)
    paths = sorted(
        system.files(test_set),
        key=lambda path: [int(t) if t.isdecimal() else t for t in re.split(r"(\d+)", str(path))],
    )
    if not paths:
        if folders := list(filter(os.path.isdir, glob.glob(pattern))):
            raise UserError(
                f"{pattern!r}, the pattern of {system.name}, matches only folders, such as "
                f"{folders[0]}; add the name of the hypotheses, such as /test.hyp"
            )
        raise UserError(
            f"no file matches {pattern!r}, the pattern of {system.name}; put it in quotes so that "
            "the shell leaves it alone, and look whether the runs are finished"
        )
    records = [read_json(path.parent / RECORD_NAME, *_RECORD) or {} for path in paths]
    owners = sorted({str(record["system"]) for record in records if record})
    if len(owners) > 1:
        raise UserError(
            f"the pattern of {system.name}, {pattern!r}, matches runs of several systems: "
            f"{', '.join(owners)}; give one that matches one, such as 'NAME-[0-9]*'"
        )
    logs = [_log_beside(path) for path in paths]
    seeds, stated = _seeds([str(path) for path in paths], logs, records)
    found = [Found(*row, stated) for row in zip(paths, seeds, logs, records, strict=True)]
    return found, [*_missing(pattern, paths, system.name), *_run_warnings(found, system.name)]


def _log_beside(path: Path) -> Path | None:
    logs = (folder / LOG_NAME for folder in (path.parent, path.parent.parent))
    return next(filter(Path.is_file, logs), None)


def _seeds(
    paths: Sequence[str], logs: Sequence[Path | None], records: Sequence[dict[str, Any]]
) -> tuple[list[str | None], bool]:
    """The seed of each run, and whether a record or log states it.

    It is the one in the grid's note, else in the log, else that of ``seedN`` in the path, else the
    one number in which the paths differ.
    """
    if all(record.get("seed") is not None for record in records):
        return [str(record["seed"]) for record in records], True
    if len(set(logs)) == len(logs) and None not in logs:
        logged = [_SEED_LOGGED.findall(_text(log)) for log in logs if log is not None]
        if all(logged):
            return [str(int(numbers[-1])) for numbers in logged], True
    # Of a folder above all runs, such as seed42-study, it tells nothing.
    above = len(_SEED.findall(os.path.commonpath(paths))) if len(paths) > 1 else 0
    named = [_SEED.findall(path)[above:] for path in paths]
    if all(named):
        return [str(int(numbers[-1])) for numbers in named], False
    numbers = [re.findall(r"\d+", path) for path in paths]
    if len({re.sub(r"\d+", "#", path) for path in paths}) == 1 and len(paths) > 1:
        changing = [column for column in zip(*numbers, strict=True) if len(set(column)) > 1]
        if len(changing) == 1:
            return [str(int(number)) for number in changing[0]], False
    return [None] * len(paths), False


def _text(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"the log {log} cannot be read: {error.strerror}") from None


def _missing(pattern: str, paths: Sequence[Path], system: str) -> list[str]:
    """A warning for run folders that match the pattern but lack the file.

    Runs that failed must not silently disappear: the rest would look better than it is.
    """
    folder, file = Path(pattern).parent, Path(pattern).name
    if glob.has_magic(file) or not glob.has_magic(str(folder)):
        return []
    while not glob.has_magic(folder.name):  # a run may have failed before it had RUN/output
        folder = folder.parent
    matched = {Path(name) for name in glob.glob(str(folder), recursive=True) if Path(name).is_dir()}
    runs = {path.parent for path in paths}
    # ** matches what holds runs, and the folders inside of them, too.
    known = runs.union(*(run.parents for run in runs))
    empty = {folder for folder in matched - known if runs.isdisjoint(folder.parents)}
    first = sorted(folder for folder in empty if empty.isdisjoint(folder.parents))
    if not first:
        return []
    return [
        f"{system}: {len(first)} of {len(first) + len(runs)} runs have no {file}, failed or "
        f"unfinished, and are left out: {', '.join(map(str, first[:3]))}"
        f"{' ...' if len(first) > 3 else ''}"
    ]


def _run_warnings(found: Sequence[Found], system: str) -> list[str]:
    warnings = [
        f"{system}: {run.log} does not say that training finished"
        for run in found
        if run.log is not None and _FINISHED not in _text(run.log)
    ]
    warnings += [
        f"{system}: {run.path.parent} has a {BEGUN_NAME}, but no {RECORD_NAME}: the grid runner "
        "has not finished it"
        for run in found
        if read_json(run.path.parent / BEGUN_NAME, *_BEGUN)  # not that of a model
        and not (run.path.parent / RECORD_NAME).is_file()
    ]
    seeds = [run.seed for run in found if run.seed is not None]
    twice = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    if twice:
        warnings.append(
            f"{system}: {len(seeds)} runs share seeds ({', '.join(twice)} more than once), so they "
            "are not independent unless something else differs"
        )
    return warnings


def few_runs(files: Mapping[str, Sequence[Found]]) -> list[str]:
    """Warnings of systems with too few runs, for themselves or beside the many of the first one."""
    runs = {system: len(found) for system, found in files.items()}
    baseline = next(iter(runs))
    warnings = [
        f"{system}: {count} run{'s' * (count > 1)}; fewer than {FEWEST_RUNS} say next to nothing "
        "about the spread over seeds"
        for system, count in runs.items()
        if count < FEWEST_RUNS
    ]
    for system, count in runs.items():
        few, many = sorted((count, runs[baseline]))
        if 2 <= few <= FEWEST_RUNS and many >= 4 * few:
            warnings.append(
                f"{system}: {count} runs against {runs[baseline]}; Welch's test rests on the "
                f"{few}, and calls equal systems different too often (2 against 20 in 12 % of "
                "studies at the level 0.05, 3 against 20 in 7 %)"
            )
    return warnings


def few_sentences(name: str, sentences: int) -> list[str]:
    """A warning of a test set with fewer than FEWEST_SENTENCES sentences."""
    if sentences >= FEWEST_SENTENCES:
        return []
    return [
        f"{name}: {sentences} sentence{'s' * (sentences > 1)}; with fewer than {FEWEST_SENTENCES} "
        "the bootstrap over sentences calls equal systems different too often (with 20 in 8 % of "
        "studies at the level 0.05, with 5 in 15 %)"
    ]
