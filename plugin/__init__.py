"""The fairseq side of selfattn: ``fairseq-train DATA --user-dir plugin --arch transformer_mtsa``.

Importing this package registers everything with fairseq. fairseq itself imports ``models/`` and
``tasks/`` of a user dir, never ``criterions/``, and nothing at all if the package was imported
before, as in a notebook. So all of them are imported here; a new folder needs only its name in
``_REGISTERING``.
"""

import importlib
import pkgutil
from pathlib import Path

from . import _identity

_REGISTERING = ("criterions", "lr_schedulers", "tasks", "models")
_folder = Path(__file__).parent


def _import_all(subpackage: str) -> None:
    """Import every public module of one subpackage, as fairseq does for models/ and tasks/."""
    package = importlib.import_module(f"{__name__}.{subpackage}")
    for module in pkgutil.iter_modules(package.__path__):
        if not module.name.startswith("_"):
            importlib.import_module(f"{package.__name__}.{module.name}")


if not _identity.join_twin(__name__, _folder):
    _identity.check_core(_folder)

    from selfattn_tasks.precision import set_matmul_precision

    _import_all("compat")  # mends fairseq
    set_matmul_precision()
    for _name in _REGISTERING:
        _import_all(_name)

    from .compat.literals import evaluate_nothing

    evaluate_nothing()
