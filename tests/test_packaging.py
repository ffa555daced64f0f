"""Two distributions from one tree: what they hold, what they ask for, and that they work."""

from __future__ import annotations

import re
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

import selfattn
from selfattn_experiments import user_dir

# Distribution -> its folder, and which folders of the clone are which packages in it.
CORE, SECOND = "selfattn", "selfattn_fairseq"
FOLDERS = {CORE: ".", SECOND: "distributions/selfattn-fairseq"}
FLOORS = {
    CORE: {"selfattn": "selfattn"},
    SECOND: {
        "selfattn_tasks": "selfattn_tasks",
        "plugin": "selfattn_fairseq",
        "selfattn_experiments": "selfattn_experiments",
    },
}
SOURCES = (
    "pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "distributions", "tests",
    *FLOORS[CORE], *FLOORS[SECOND],
)  # fmt: skip
OFFLINE = ("--no-deps", "--no-index", "--quiet", "--disable-pip-version-check")
BUILD = "import sys; import setuptools.build_meta as b; b.build_{}(sys.argv[1])"


@pytest.fixture(scope="module")
def tree(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all that is built, so that the clone stays clean."""
    copy = tmp_path_factory.mktemp("source")
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info", "build")
    for name in SOURCES:
        if (repo_root / name).is_dir():
            shutil.copytree(repo_root / name, copy / name, ignore=ignore, symlinks=True)
        elif (repo_root / name).exists():
            shutil.copy(repo_root / name, copy)
    for name, folder in FOLDERS.items():  # of an earlier build, and gone since then
        package = copy / folder / "build" / "lib" / next(iter(FLOORS[name].values()))
        package.mkdir(parents=True)
        (package / "gone.py").touch()
    return copy


def build(run_cli, tree: Path, kind: str, out: Path) -> dict[str, Path]:
    """A wheel or an sdist of each distribution, by the name of the distribution."""
    for folder in FOLDERS.values():
        run_cli(["-c", BUILD.format(kind), out], cwd=tree / folder).ok()
    return {name: next(out.glob(f"{name}-[0-9]*")) for name in FOLDERS}


@pytest.fixture(scope="module")
def wheels(run_cli, tree, tmp_path_factory) -> dict[str, Path]:
    return build(run_cli, tree, "wheel", tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def sdists(run_cli, tree, tmp_path_factory) -> dict[str, Path]:
    return build(run_cli, tree, "sdist", tmp_path_factory.mktemp("sdists"))


def install(run_cli, folder: Path, *files: Path) -> Path:
    flags = [*OFFLINE, "--no-build-isolation", "--target", folder]
    run_cli(["-m", "pip", "install", *flags, *files]).ok()
    return folder


@pytest.fixture(scope="module")
def target(run_cli, wheels, tmp_path_factory) -> Path:
    """Both wheels installed into an empty folder."""
    return install(run_cli, tmp_path_factory.mktemp("target"), *wheels.values())


@pytest.fixture(scope="module")
def layers_alone(run_cli, wheels, tmp_path_factory) -> Path:
    """The first wheel installed into an empty folder."""
    return install(run_cli, tmp_path_factory.mktemp("layers"), wheels[CORE])


def held(wheel: Path) -> set[str]:
    return {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}


def metadata(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        return archive.read(name).decode()


def needs(wheel: Path) -> set[str]:
    lines = metadata(wheel).splitlines()
    return {line.removeprefix("Requires-Dist: ") for line in lines if "Requires-Dist" in line}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_wheel_holds_each_module_of_its_floors(wheels, repo_root, name):
    assert wheels[name].name == f"{name}-{selfattn.__version__}-py3-none-any.whl"
    expected = {f"{package}/py.typed" for package in FLOORS[name].values()}
    for folder, package in FLOORS[name].items():
        for path in (repo_root / folder).rglob("*"):
            if path.suffix not in (".py", ".c", ".h") and path.parts[-3] != "pretrained":
                continue
            inside = path.relative_to(repo_root / folder).as_posix()
            expected.add(f"{package}/{inside}")
    assert held(wheels[name]) == expected


def test_what_an_sdist_installs_is_what_the_wheel_installs(
    run_cli, sdists, wheels, target, tmp_path
):
    """The sdists stand alone: no link leads out of them, and the second knows its version."""
    for path in sdists.values():
        assert path.name.endswith(f"-{selfattn.__version__}.tar.gz")
        with tarfile.open(path) as archive:
            assert not [name for name in archive.getnames() if "/tests/" in name]
    folder = install(run_cli, tmp_path / "target", *sdists.values())

    def content(root: Path) -> dict[Path, bytes]:
        paths = (path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
        code = (".py", ".c", ".h", ".typed")
        kept = (p for p in paths if p.suffix in code or p.parts[-3] == "pretrained")
        return {path.relative_to(root): path.read_bytes() for path in kept}

    assert content(folder) == content(target)
    assert sorted(path.name for path in (folder / "bin").iterdir()) == [
        "selfattn", "selfattn-user-dir",
    ]  # fmt: skip
    for name in FOLDERS:
        info = folder / f"{name}-{selfattn.__version__}.dist-info" / "METADATA"
        assert info.read_text("utf-8") == metadata(wheels[name])


def test_the_layers_ask_for_torch_and_the_rest_for_exactly_these_layers(wheels):
    core, second = (needs(wheels[name]) for name in FOLDERS)
    assert {"torch>=2.6", "numpy"} == {need for need in core if "extra" not in need}
    assert 'selfattn-fairseq[fairseq]; extra == "fairseq"' in core
    assert f"selfattn=={selfattn.__version__}" in second
    assert 'fairseq-fixed==0.12.3.1; extra == "fairseq"' in second
    stock = ("fairseq ", "fairseq=", "fairseq;", "fairseq>")
    assert not any(need.startswith(stock) for need in core | second)


def test_the_descriptions_can_stand_on_another_page(wheels, sdists, run_cli):
    for wheel in wheels.values():
        text = metadata(wheel).partition("\n\n")[2]
        assert "pip install" in text
        assert not re.search(r"\]\((?!https?://)", text), "a link into the tree"
    pytest.importorskip("twine")
    done = run_cli(["-m", "twine", "check", "--strict", *wheels.values(), *sdists.values()]).ok()
    assert done.stdout.count("PASSED") == 4


def test_an_editable_installation_of_the_root_gives_all_of_it(run_cli, tree, tmp_path):
    run_cli(["-c", BUILD.format("editable"), tmp_path], cwd=tree).ok()
    with zipfile.ZipFile(next(tmp_path.iterdir())) as archive:
        names = archive.namelist()
        commands = archive.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
        (finder,) = (archive.read(name).decode() for name in names if name.endswith("_finder.py"))
    assert re.findall(r"^(\S+) =", commands, re.MULTILINE) == ["selfattn", "selfattn-user-dir"]
    for name, folder in {"selfattn": "selfattn", **FLOORS[SECOND]}.items():
        package = {"plugin": "selfattn_fairseq"}.get(name, folder)
        assert f"'{package}': '{tree / name}'" in finder


def test_mypy_reads_the_types_of_each_installed_package(run_cli, target, tmp_path):
    """Without py.typed, all in a package is Any."""
    pytest.importorskip("mypy")
    packages = [package for floor in FLOORS.values() for package in floor.values()]
    (tmp_path / "theirs.py").write_text(f"import {', '.join(packages)}\n")
    command = ["-m", "mypy", "--follow-imports=skip", "theirs.py"]
    run_cli(command, cwd=tmp_path, PYTHONPATH=str(target), fresh=True).ok()


def test_the_installed_command_prints_the_plugins_folder(run_cli, target, tmp_path):
    done = run_cli(
        [target / "bin" / "selfattn-user-dir"], cwd=tmp_path, PYTHONPATH=str(target)
    ).ok()
    assert done.stdout == f"{target / 'selfattn_fairseq'}\n"


def test_the_installed_command_works_without_a_clone(run_cli, target, tmp_path):
    def typed(*words):
        return run_cli([target / "bin" / "selfattn", *words], cwd=tmp_path, PYTHONPATH=str(target))

    assert "\n  score srl " in typed("--help").stdout
    done = typed("train", "data", "--dry-run")
    assert done.stdout == f"fairseq-train data --user-dir {target / 'selfattn_fairseq'}\n"
    done = typed("bench", "attention", "--quick")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "selfattn bench attention: error: selfattn bench attention works in a clone only, "
        "because the benchmarks are not installed\n"
    )


def test_the_command_imports_neither_the_plugin_nor_torch(run_cli, target, tmp_path):
    code = "import sys; from selfattn_experiments.user_dir import main; main(); print(*sys.modules)"
    done = run_cli(["-c", code], cwd=tmp_path, PYTHONPATH=str(target))
    folder, modules = done.stdout.splitlines()
    assert folder == str(target / "selfattn_fairseq")
    assert not {"torch", "fairseq", "selfattn_fairseq"} & set(modules.split())


def test_a_clone_that_is_not_installed_gives_its_own_plugin(monkeypatch, repo_root):
    monkeypatch.setattr(user_dir.importlib.util, "find_spec", lambda name: None)
    assert user_dir.find_user_dir() == repo_root / "plugin"


def test_a_clone_gives_its_own_plugin_beside_another_installation(run_cli, target, repo_root):
    done = run_cli(["-m", "selfattn_experiments.user_dir"], PYTHONPATH=str(target))
    assert done.stdout == f"{repo_root / 'plugin'}\n", done.stderr


def test_without_a_plugin_it_says_what_to_do(run_cli, target, tmp_path):
    for package in ("selfattn", "selfattn_tasks", "selfattn_experiments"):
        shutil.copytree(target / package, tmp_path / package)
    done = run_cli(["-S", "-m", "selfattn_experiments.user_dir"], cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "pip install 'selfattn[fairseq]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_layers_alone_say_what_they_find(run_cli, layers_alone, tmp_path):
    done = run_cli(["-m", "selfattn.info"], cwd=tmp_path, PYTHONPATH=str(layers_alone)).ok()
    assert done.stdout.startswith("Versions\n") and "fairseq" not in done.stdout
    assert [path.parent.name for path in layers_alone.glob("*/__init__.py")] == ["selfattn"]


@pytest.mark.fairseq
def test_fairseq_takes_the_installed_plugin_from_any_folder(run_cli, target, tmp_path):
    code = """
import argparse, sys
from fairseq import models, utils
utils.import_user_module(argparse.Namespace(user_dir=sys.argv[1]))
print(sys.modules["selfattn_fairseq"].__file__)
print(*models.ARCH_MODEL_REGISTRY)
"""
    folder = target / "selfattn_fairseq"
    done = run_cli(["-c", code, folder], cwd=tmp_path, fresh=False, PYTHONPATH=str(target)).ok()
    loaded, archs = done.stdout.splitlines()
    assert loaded == str(folder / "__init__.py")
    assert "transformer_mtsa" in archs.split()


def test_the_citation_names_this_version(repo_root):
    lines = (repo_root / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {selfattn.__version__}" in lines
