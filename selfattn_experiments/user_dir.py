"""`selfattn-user-dir`: print the folder to hand to fairseq's --user-dir, without importing it."""

import importlib.util
import sys
from pathlib import Path

from selfattn_tasks.cli import run

PLUGIN = "selfattn_fairseq"


def find_user_dir() -> Path | None:
    """Find the fairseq plugin's folder.

    Returns:
        In a clone its `plugin/`, else the folder of the installed package `selfattn_fairseq`; None
        where neither is there.
    """
    root = Path(__file__).resolve().parent.parent
    # Another clone may be what is installed: its plugin does not belong to this code.
    folders = [root / "plugin"] if (root / "pyproject.toml").is_file() else []
    spec = importlib.util.find_spec(PLUGIN)
    folders += [Path(place) for place in (spec.submodule_search_locations or [])] if spec else []
    return next((folder for folder in folders if (folder / "__init__.py").is_file()), None)


def main() -> int:
    """Print the folder; say what to install where there is none."""
    folder = find_user_dir()
    if folder is None:
        print(
            f"selfattn-user-dir: error: neither the package {PLUGIN} nor a clone's plugin/ folder "
            "was found; install the project again, with pip install 'selfattn[fairseq]'",
            file=sys.stderr,
        )
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    run(main, "selfattn-user-dir")
