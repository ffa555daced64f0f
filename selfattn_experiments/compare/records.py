"""What the records of runs say against comparing them."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks.folder import sha256_of

from .runs import RECORD_NAME, Found


def check_tasks(found: Sequence[Found], task: str) -> None:
    """Refuse runs of another task than the one that the references are of.

    Raises:
        UserError: naming the first.
    """
    for run in found:
        if (own := _mapping(run.record.get("training")).get("task", task)) != task:
            raise UserError(
                f"{run.path} is of a run of the task {own}, but --ref is read as one of {task}; "
                f"give the test set of {own} as --ref"
            )


def check_protocols(found: Sequence[Found]) -> tuple[str, list[str]]:
    """The protocol of all runs, and warnings: of runs that do not say theirs.

    Raises:
        UserError: if runs follow different ones, so that their scores belong in no common table.
    """
    known = {run.protocol: run.path for run in found if run.protocol}
    if len(known) > 1:
        first, second, *_ = known
        raise UserError(
            f"{known[first]} is a run with {first} and {known[second]} one with {second}: scores "
            "of different protocols are never mixed in one table"
        )
    silent = [run for run in found if not run.protocol]
    if not known or not silent:
        return "".join(known), []
    return "".join(known), [
        f"{silent[0].path}{' and others have' if len(silent) > 1 else ' has'} no record of how "
        f"checkpoints were chosen; the other runs have {''.join(known)}"
    ]


def mixed_origins(found: Sequence[Found]) -> list[str]:
    """A warning for each part of machinery, training and test that is not the same for all runs."""
    training = [_settings(run, "training") for run in found if run.record.get("training")]
    values = (
        {
            f"differ in {part}": [run.origin[part] for run in found if run.origin.get(part)]
            for part in ("commit", "processor", "torch")
        }
        | {  # of a hash, ten digits do
            f"were trained with different {name}": [one.get(name, "none")[:10] for one in training]
            for name in ("data", "--max-update", "--max-epoch")
        }
    )
    warnings = []
    for how, names in values.items():
        if len(known := Counter(names)) > 1:
            words = "; ".join(f"{count} with {name}" for name, count in known.most_common())
            warnings.append(f"the runs {how}: {words}")
    if apart := _apart(found, "test"):
        warnings.append(f"the runs were not tested alike: {apart}")
    return warnings


def unlike_runs(found: Sequence[Found], system: str) -> list[str]:
    """Warnings of runs of one system that were trained in different ways, or changed afterwards."""
    warnings = [
        f"{system}: {run.path} is not the file that {RECORD_NAME} beside it was written for"
        for run in found
        if _is_changed(run)
    ]
    if apart := _apart(found, "training"):
        warnings.append(f"{system}: its runs were not trained alike: {apart}")
    return warnings


def _is_changed(run: Found) -> bool:
    entries = map(_mapping, _mapping(run.record.get("hypotheses")).values())
    hashes = [entry.get("sha256") for entry in entries if entry.get("file") == run.path.name]
    return any(hashes) and sha256_of(run.path) not in hashes


def _apart(found: Sequence[Found], part: str) -> str:
    """The first two runs with different settings, and these; empty if there are none."""
    settings = [(run.path, _settings(run, part)) for run in found if run.record.get(part)]
    for path, other in settings[1:]:
        first, one = settings[0]
        if changed := [name for name in {**one, **other} if one.get(name) != other.get(name)]:
            words = "; ".join(
                f"{name} {one.get(name, 'not given')} and {other.get(name, 'not given')}"
                for name in changed[:3]
            )
            return f"{first} and {path} differ in {words}{' ...' if len(changed) > 3 else ''}"
    return ""


def _settings(run: Found, part: str) -> dict[str, str]:
    """Flags and what else a record says of its training or test, but what tells runs apart."""
    settings, apart = _mapping(run.record[part]), ("flags", "seed", "fold", "tests")
    return {name: str(value) for name, value in settings.items() if name not in apart} | {
        name: " ".join(map(str, values)) if isinstance(values, list) else str(values)
        for name, values in _mapping(settings.get("flags")).items()
    }


def _mapping(found: Any) -> dict[str, Any]:
    """A part of a record, which anybody may have edited."""
    return found if isinstance(found, dict) else {}
