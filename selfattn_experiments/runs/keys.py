"""The keys of a grid file, and their values as typed things.

Own code, because omegaconf has no type for a system (flags, or a mapping of flags and seeds), reads
the text "5" for the number and "yes" for true, and its errors name neither the file nor what is
allowed.
"""

import re
import shlex
from pathlib import Path
from typing import Any

from selfattn.errors import UserError, meant, needed
from selfattn_tasks.registry import TASKS
from selfattn_tasks.task import Task

from . import flags as flag

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_KEYS = (
    "task", "data", "output", "seeds", "common", "systems", "average", "checkpoint",
    "keep_checkpoints", "user_dir", "cpus_per_run", "gpus_per_run", "slurm",
)  # fmt: skip
_SEEDS = "a list of distinct whole numbers, such as [1, 2, 3]"


def load(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file."""
    yaml = needed("yaml", "PyYAML")

    class Loader(yaml.SafeLoader):  # type: ignore[misc, name-defined]
        """Refuses a key that is given twice, which YAML itself accepts."""

        def compose_mapping_node(self, anchor: Any) -> Any:
            node = super().compose_mapping_node(anchor)  # later, << has brought in other keys
            seen: set[Any] = set()
            for key_node, _ in node.value:
                if key_node.tag == "tag:yaml.org,2002:merge":  # <<: its keys may be given again
                    continue
                key = self.construct_object(key_node, deep=True)
                if not isinstance(key, str | int):
                    continue
                if key in seen:
                    line = key_node.start_mark.line + 1
                    raise UserError(f"{path}, line {line}: {key!r} is given twice")
                seen.add(key)
            return node

    try:
        content = yaml.load(path.read_text(encoding="utf-8"), Loader)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except UserError:
        raise
    # ValueError: of dates such as 2026-02-30; RecursionError: of a thousand brackets.
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise UserError(f"{path} is not YAML: {said}") from None
    if not isinstance(content, dict):
        raise UserError(f"{path} must hold keys and values, as YAML")
    return content


class Reader:
    """Typed access to the keys of a grid file."""

    def __init__(self, file: Path, content: dict[str, Any]) -> None:
        self.file, self.content = file, content

    def wrong(self, key: str, allowed: str) -> UserError:
        """The error of a key whose value is of the wrong kind."""
        if key not in self.content:
            return UserError(f"{self.file}: the key `{key}` is missing; it must be {allowed}")
        return self._mistaken(key, self.content[key], allowed)

    def _mistaken(self, where: str, value: Any, allowed: str) -> UserError:
        return UserError(f"{self.file}: `{where}` is {value!r}, but must be {allowed}")

    def check_keys(self, task: Task) -> None:
        """Refuse unknown keys, and those of other tasks."""
        known = (*_KEYS, *task.grid_keys)
        for key in self.content:
            if key in known:
                continue
            for name, other in TASKS.items():
                if key in other.grid_keys:
                    raise UserError(
                        f"{self.file}: `{key}` belongs to task {name}, not to {task.name}"
                    )
            near = meant(str(key), known)
            hint = f"do you mean `{near}`?" if near else f"known are {', '.join(known)}"
            raise UserError(f"{self.file}: the key `{key}` is unknown: {hint}")

    def text(self, key: str) -> str:
        value = self.content.get(key)
        if not isinstance(value, str) or not value:
            raise self.wrong(key, "a text")
        return value

    def path(self, key: str) -> Path:
        found = Path(self.text(key))
        if not found.exists():
            raise UserError(f"{self.file}: `{key}` is {found}, but there is no such file or folder")
        return found

    def one_of(self, key: str, allowed: tuple[Any, ...], required: bool = False) -> Any:
        value = self.content.get(key)
        if value in allowed or not (required or key in self.content):
            return value
        raise self.wrong(key, " or ".join(str(a).lower() for a in allowed))

    def whole_number(self, key: str) -> int | None:
        if key not in self.content:
            return None
        value = self.content[key]
        if type(value) is not int or value < 1:
            raise self.wrong(key, "a whole number of 1 or more")
        return value

    def flags(self, key: str) -> tuple[str, ...]:
        return self._words(self.content.get(key, ""), key)

    def _words(self, value: Any, where: str) -> tuple[str, ...]:
        if value is None:  # `key:` with nothing after it
            return ()
        if not isinstance(value, str):
            raise self._mistaken(where, value, "flags as on a command line")
        try:
            words = tuple(shlex.split(value))
        except ValueError as error:
            raise UserError(f"{self.file}: `{where}`: {error} in {value!r}") from None
        flag.parse(words, f"{self.file}: `{where}`")
        return words

    def seeds(self) -> dict[str, tuple[int, ...]]:
        """System to its seeds: its own, or those of the key ``seeds``."""
        systems = self._systems()
        own = {
            name: self._seeds(entry["seeds"], f"systems: {name}: seeds")
            for name, entry in systems.items()
            if isinstance(entry, dict) and "seeds" in entry
        }
        if "seeds" not in self.content and len(own) < len(systems):
            raise self.wrong("seeds", _SEEDS)
        shared = self._seeds(self.content["seeds"], "seeds") if "seeds" in self.content else ()
        return {name: own.get(name, shared) for name in systems}

    def _seeds(self, value: Any, where: str) -> tuple[int, ...]:
        if not isinstance(value, list) or not value or len(set(map(str, value))) < len(value):
            raise self._mistaken(where, value, _SEEDS)
        if not all(type(seed) is int and 0 <= seed < 2**31 for seed in value):
            raise self._mistaken(where, value, _SEEDS + ", from 0 to 2147483647")
        return tuple(value)

    def systems(self, common: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
        """Name to all flags; no two systems may be the same."""
        found: dict[str, tuple[str, ...]] = {}
        same: dict[str, str] = {}
        for name, entry in self._systems().items():
            where = f"{self.file}: system {name}"
            text = entry.get("flags") if isinstance(entry, dict) else entry
            found[name] = (*common, *self._words(text, f"systems: {name}"))
            flags = flag.parse(found[name], where)
            flag.refuse_owned(flags, flag.TRAIN, where)
            twin = same.setdefault(repr(sorted(flags.items())), name)
            if twin != name:
                raise UserError(
                    f"{self.file}: the systems {twin} and {name} have the same flags, so every "
                    "seed would give the same run twice"
                )
        return found

    def _systems(self) -> dict[str, Any]:
        """Name to flags, or to the mapping of flags and seeds."""
        value = self.content.get("systems")
        if not isinstance(value, dict) or not value:
            raise self.wrong("systems", "names with the flags of each")
        for name, entry in value.items():
            if not isinstance(name, str) or not NAME.fullmatch(name):
                raise UserError(
                    f"{self.file}: the system {name!r} must have a name of letters, digits, dots, "
                    "dashes and underscores; quote it if YAML takes it for something else"
                )
            if isinstance(entry, dict) and not entry.keys() <= {"flags", "seeds"}:
                raise UserError(
                    f"{self.file}: `systems: {name}` has the keys {', '.join(map(str, entry))}, "
                    "but may have flags and seeds"
                )
        return value
