"""Your experiment: ``fairseq-train DATA --user-dir my_exp --arch my_transformer``.

Importing this folder loads the plugin under the name it has here (``plugin`` in a clone,
``selfattn_fairseq`` where the project is installed) and registers the models of ``models/``.
"""

import importlib
import importlib.util
import pkgutil
from pathlib import Path

_FOLDER = Path(__file__).resolve().parent


def _plugin_name() -> str:
    """The plugin beside this folder if there is one, else the installed one, else sys.path's."""
    beside = (_FOLDER.parent / "plugin" / "modules" / "encoder.py").is_file()
    names = ("plugin", "selfattn_fairseq") if beside else ("selfattn_fairseq", "plugin")
    for name in names:
        if importlib.util.find_spec(name):
            return name
    raise ImportError(
        f"{_FOLDER} needs the selfattn project: install it (pip install -e CLONE), or set "
        "PYTHONPATH to the folder of its clone"
    )


_plugin = importlib.import_module(_plugin_name())
AttentionEncoder = importlib.import_module(f"{_plugin.__name__}.modules.encoder").AttentionEncoder

for _module in pkgutil.iter_modules([str(_FOLDER / "models")]):
    importlib.import_module(f"{__name__}.models.{_module.name}")
