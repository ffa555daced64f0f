"""Packages that the rest of a process does not find, as if they were not installed."""

import importlib.metadata
import sys
from typing import Any


def hide(*packages: str) -> None:
    """Hide them from the import system and from importlib.metadata."""

    class Blocker:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            if name.split(".")[0] in packages:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Blocker())
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name.removesuffix("-fixed") in packages:
            raise importlib.metadata.PackageNotFoundError(name)
        return real(name)

    importlib.metadata.version = version
