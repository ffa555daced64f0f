"""selfattn <- selfattn_tasks <- plugin <- selfattn_experiments: imports go down only."""

from __future__ import annotations

import ast
import importlib.util
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PLUGIN = {"plugin", "selfattn_fairseq"}
FAIRSEQ = {"fairseq", "fairseq_cli"}
EXAMPLES = {"examples", "tour", "wmt14"}
TOPS = {"selfattn_experiments", "user_dir", "benchmarks", "scripts", "tests"} | EXAMPLES

# Floor -> what its modules must not import by an absolute name. Inside the plugin even its own name
# is wrong: a clone calls it plugin, an installation selfattn_fairseq.
FORBIDDEN = {
    "selfattn": FAIRSEQ | PLUGIN | TOPS | {"selfattn_tasks"},
    "selfattn_tasks": FAIRSEQ | PLUGIN | TOPS,
    "plugin": PLUGIN | TOPS,
    "selfattn_experiments": FAIRSEQ | PLUGIN | TOPS - {"selfattn_experiments"},
    "user_dir": {"selfattn_experiments", "benchmarks", "scripts", "tests"} | EXAMPLES,
    "benchmarks": {"scripts", "tests", "user_dir"} | EXAMPLES,
    "examples": {"scripts", "tests", "benchmarks", "user_dir"},
    "scripts": PLUGIN | {"user_dir", "tests"},
}


def imports(source: str) -> Iterator[tuple[int, str]]:
    """Line and top-level name of each absolute import, wherever in the file it stands."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.split(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module.split(".")[0]
        elif isinstance(node, ast.Call) and node.args:
            function = ast.unparse(node.func).split(".")[-1]
            first = node.args[0]
            named = isinstance(first, ast.Constant) and isinstance(first.value, str)
            if named and function in ("import_module", "__import__", "needed"):
                yield node.lineno, first.value.split(".")[0]


def python_files(floor: str) -> list[Path]:
    return sorted((ROOT / floor).rglob("*.py"))


def test_the_reader_of_imports_sees_each_form():
    source = """
import fairseq.models as models
def late():
    from plugin.args import flags
    import importlib
    importlib.import_module("user_dir.models")
    from . import sibling
"""
    assert {name for _, name in imports(source)} == {"fairseq", "plugin", "importlib", "user_dir"}


@pytest.mark.parametrize("floor", FORBIDDEN)
def test_a_floor_imports_only_what_is_below(floor):
    assert python_files(floor)
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in python_files(floor)
        for line, name in imports(path.read_text(encoding="utf-8"))
        if name in FORBIDDEN[floor]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_floor_writes_relative_imports_out_of_itself():
    for floor in FORBIDDEN:
        for path in python_files(floor):
            depth = len(path.relative_to(ROOT).parts) - 1
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom):
                    assert node.level <= depth, f"{path}:{node.lineno} leaves {floor}"


def test_floors_import_without_fairseq_and_extras(run_cli):
    """All of them load where only torch is installed, and load nothing else."""
    names = []
    for floor in ("selfattn", "selfattn_tasks", "selfattn_experiments"):
        found = pkgutil.walk_packages([str(ROOT / floor)], f"{floor}.")
        inside = [m.name for m in found if m.name.split(".")[1] != "hf"]  # hf is for its extra
        assert len(inside) > 20
        names += inside
    code = f"""
from tests.hidden import hide
hide("fairseq", "fairseq_cli", "plugin", "selfattn_fairseq", "sentencepiece", "sacrebleu",
     "scipy", "matplotlib", "seqeval", "tensorboard", "tensorboardX", "omegaconf",
     "hydra", "triton", "transformers", "accelerate")
import importlib, sys
sys.modules.update(dict.fromkeys(  # torch looks for some of them itself, and may
    "tqdm tabulate yaml nltk sacremoses safetensors tokenizers onnx onnxruntime gradio".split()
))
for name in {names!r}:
    importlib.import_module(name)
print("all loaded")
"""
    done = run_cli(["-c", code]).ok()
    assert done.stdout == "all loaded\n", "an import printed something"


@pytest.mark.fairseq
def test_importing_the_plugin_prints_nothing(run_cli):
    """fairseq-generate's stdout is a result; a print at import would spoil it."""
    done = run_cli(["-c", "import fairseq.tasks.translation; import plugin"], fresh=False).ok()
    assert done.stdout == ""


OPERATORS = {"disa", "mtsa"}


def names_below(above: str, source: str, package: str) -> set[str]:
    """Packages and modules right below one that a source in a package imports by name."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            name = "." * node.level + (node.module or "")
            module = importlib.util.resolve_name(name, package)
            names = [f"{module}.{alias.name}" for alias in node.names]
        else:
            continue
        below = [name.removeprefix(f"{above}.") for name in names if name.startswith(f"{above}.")]
        found |= {name.split(".")[0] for name in below}
    return found


def test_the_reader_of_operators_sees_each_form():
    source = """
import selfattn.ops.mtsa.tiling
from selfattn.ops.disa import fused
def late():
    from selfattn.ops import common
from .. import dot_product
from ...masks import PositionalMask
from ..other.tiling import runs
"""
    expected = {"mtsa", "disa", "common", "dot_product", "other"}
    assert names_below("selfattn.ops", source, "selfattn.ops.mtsa") == expected
    assert names_below("selfattn", source, "selfattn.ops.mtsa") == {"ops", "masks"}


@pytest.mark.parametrize("package", ["common", *sorted(OPERATORS)])
def test_operators_do_not_know_each_other(package):
    """What two of them share is in ``common``, which knows none of them."""
    files = python_files(f"selfattn/ops/{package}")
    assert len(files) > 5
    others = OPERATORS - {package}
    wrong = []
    for path in files:
        inside = ".".join(path.parent.relative_to(ROOT).parts)
        found = others & names_below("selfattn.ops", path.read_text(encoding="utf-8"), inside)
        wrong += [f"{path.relative_to(ROOT)} imports {name}" for name in found]
    assert not wrong, "\n".join(wrong)


def arrows() -> dict[str, dict[str, set[str]]]:
    """Floor -> folder -> what it may import, as docs/extending.md draws it."""
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    found: dict[str, dict[str, set[str]]] = {}
    for line in page.split("```text\n")[1].split("\n```")[0].split("\n"):
        floor, chains = line.split(maxsplit=1)
        found[floor] = {}
        for chain in chains.split(";"):
            below: set[str] = set()
            for folders in (part.strip().split(", ") for part in chain.split("<-")):
                for folder in folders:
                    found[floor].setdefault(folder, set()).update(below)
                below.update(folders)
    return found


@pytest.mark.parametrize("floor", ["selfattn", "plugin", "selfattn_experiments"])
def test_folders_of_a_floor_import_in_one_direction(floor):
    allowed = arrows()[floor]
    assert all(python_files(f"{floor}/{folder}") for folder in allowed)
    folders = {path.parent.name for path in (ROOT / floor).glob("*/__init__.py")}
    wrong = []
    for folder in sorted(folders):
        for path in python_files(f"{floor}/{folder}"):
            inside = ".".join(path.parent.relative_to(ROOT).parts)
            found = folders & names_below(floor, path.read_text(encoding="utf-8"), inside)
            more = found - allowed.get(folder, set()) - {folder}
            wrong += [f"{path.relative_to(ROOT)} imports {name}" for name in sorted(more)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", ["selfattn", "benchmarks"])
def test_imports_within_a_package_are_relative(package):
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in python_files(package)
        if path.name not in ("fairseq_update.py", "dropout.py")  # loaded by path, without a package
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and not node.level
        and (node.module or "").split(".")[0] == package
    ]
    assert not wrong, "\n".join(wrong)
