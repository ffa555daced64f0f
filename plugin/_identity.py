"""One identity per process: the plugin is importable as ``plugin`` and as ``selfattn_fairseq``.

fairseq names a user dir by its folder, so a clone gives ``plugin`` and an installation gives
``selfattn_fairseq``. Registering the same architectures twice fails, so the second name has to be
the first one's modules, or nothing.
"""

import re
import sys
from pathlib import Path

_TWINS = {"plugin": "selfattn_fairseq", "selfattn_fairseq": "plugin"}


def join_twin(name: str, folder: Path) -> bool:
    """Make *name* an alias of the other name's package if that is already loaded.

    Returns:
        whether ``sys.modules`` now holds the other package and its modules under *name*.

    Raises:
        ImportError: the other name is loaded from another folder, so the code may differ.
    """
    twin = _TWINS.get(name, "")
    loaded = sys.modules.get(twin)
    if loaded is None:
        return False
    other = Path(loaded.__file__ or "").parent.resolve()
    if other != folder.resolve():
        raise ImportError(
            f"this process has loaded the plugin as {twin!r} from {other} and cannot load it as "
            f"{name!r} from {folder} as well: use --user-dir {other}, or uninstall one of the two"
        )
    for module_name, module in list(sys.modules.items()):
        if module_name == twin or module_name.startswith(twin + "."):
            sys.modules[name + module_name[len(twin) :]] = module
    return True


def check_core(folder: Path) -> None:
    """Check that ``import selfattn`` finds the core next to the plugin.

    Raises:
        ImportError: another copy of selfattn comes first, or none is found.
    """
    expected = folder.resolve().parent / "selfattn"
    try:
        import selfattn
    except ImportError as error:
        raise ImportError(
            f"the plugin in {folder} needs the package selfattn, expected in {expected}: "
            "keep both folders side by side, or install the project with pip"
        ) from error
    found = Path(selfattn.__file__ or "").parent.resolve()
    if expected.is_dir() and found != expected:
        raise ImportError(
            f"the plugin in {folder} belongs to selfattn {_version(expected)} in {expected}, but "
            f"Python found selfattn {_version(found)} in {found}: uninstall one of the two "
            "(pip uninstall selfattn), or use the --user-dir that belongs to it"
        )


def _version(package: Path) -> str:
    """Read the version from the source, since one of the two copies is not loaded."""
    try:
        text = (package / "__init__.py").read_text(encoding="utf-8")
    except OSError:
        return "(unknown version)"
    match = re.search(r'^__version__ = "([^"]+)"', text, flags=re.MULTILINE)
    return match.group(1) if match else "(unknown version)"
