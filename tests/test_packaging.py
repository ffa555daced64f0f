"""The wheel holds all floors, and an installed copy finds its plugin from any folder."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pytest

import selfattn
from selfattn import _user_dir

# Folder -> the package that is installed.
FLOORS = {
    "selfattn": "selfattn",
    "selfattn_tasks": "selfattn_tasks",
    "plugin": "selfattn_fairseq",
    "selfattn_experiments": "selfattn_experiments",
}
SOURCES = ("pyproject.toml", "setup.py", "README.md", "LICENSE", *FLOORS)


@pytest.fixture(scope="module")
def wheel(run_cli, repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy so that the clone stays clean."""
    copy = tmp_path_factory.mktemp("source")
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in SOURCES:
        if (repo_root / name).is_dir():
            shutil.copytree(repo_root / name, copy / name, ignore=ignore)
        elif (repo_root / name).exists():
            shutil.copy(repo_root / name, copy)
    out = tmp_path_factory.mktemp("wheel")
    flags = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    done = run_cli(["-m", "pip", "wheel", *flags, "--wheel-dir", out, "."], cwd=copy)
    assert done.returncode == 0, done.stderr
    (path,) = out.iterdir()
    return path


@pytest.fixture(scope="module")
def target(run_cli, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel installed into an empty folder."""
    folder = tmp_path_factory.mktemp("target")
    flags = ["--no-deps", "--no-index", "--quiet", "--target", folder]
    done = run_cli(["-m", "pip", "install", *flags, wheel])
    assert done.returncode == 0, done.stderr
    return folder


def test_the_wheel_holds_each_module_of_each_floor(wheel, repo_root):
    assert wheel.name == f"selfattn-{selfattn.__version__}-py3-none-any.whl"
    held = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = {"selfattn/py.typed"}
    for folder, package in FLOORS.items():
        for path in (repo_root / folder).rglob("*.*"):
            if path.suffix not in (".py", ".c", ".h"):
                continue
            inside = path.relative_to(repo_root / folder).as_posix()
            expected.add(f"{package}/{inside}")
    assert held == expected


def test_the_wheel_asks_for_torch_and_never_for_stock_fairseq(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = archive.read(name).decode().splitlines()
    needs = [line.removeprefix("Requires-Dist: ") for line in metadata if "Requires-Dist" in line]
    assert {"torch>=2.6", "numpy"} == {need for need in needs if "extra" not in need}
    assert any(need.startswith("fairseq-fixed==0.12.3.1") for need in needs)
    assert not any(need.startswith(("fairseq ", "fairseq=", "fairseq;")) for need in needs)


def test_the_installed_command_prints_the_plugins_folder(run_cli, target, tmp_path):
    done = run_cli([target / "bin" / "selfattn-user-dir"], cwd=tmp_path, PYTHONPATH=str(target))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{target / 'selfattn_fairseq'}\n"


def test_the_command_imports_neither_the_plugin_nor_torch(run_cli, target, tmp_path):
    code = "from selfattn import _user_dir; _user_dir.main(); import sys; print(*sys.modules)"
    done = run_cli(["-c", code], cwd=tmp_path, PYTHONPATH=str(target))
    folder, modules = done.stdout.splitlines()
    assert folder == str(target / "selfattn_fairseq")
    assert not {"torch", "fairseq", "selfattn_fairseq"} & set(modules.split())


def test_a_clone_that_is_not_installed_gives_its_own_plugin(monkeypatch, repo_root):
    monkeypatch.setattr(_user_dir.importlib.util, "find_spec", lambda name: None)
    assert _user_dir.find_user_dir() == repo_root / "plugin"


def test_a_clone_gives_its_own_plugin_beside_another_installation(run_cli, target, repo_root):
    done = run_cli(["-m", "selfattn._user_dir"], PYTHONPATH=str(target))
    assert done.stdout == f"{repo_root / 'plugin'}\n", done.stderr


def test_without_a_plugin_it_says_what_to_do(run_cli, target, tmp_path):
    shutil.copytree(target / "selfattn", tmp_path / "selfattn")
    done = run_cli(["-S", "-m", "selfattn._user_dir"], cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "pip install 'selfattn[fairseq]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.fairseq
def test_fairseq_takes_the_installed_plugin_from_any_folder(run_cli, target, tmp_path):
    pytest.importorskip("fairseq")
    code = """
import argparse, sys
from fairseq import models, utils
utils.import_user_module(argparse.Namespace(user_dir=sys.argv[1]))
print(sys.modules["selfattn_fairseq"].__file__)
print(*models.ARCH_MODEL_REGISTRY)
"""
    folder = target / "selfattn_fairseq"
    done = run_cli(["-c", code, folder], cwd=tmp_path, PYTHONPATH=str(target))
    assert done.returncode == 0, done.stderr
    loaded, archs = done.stdout.splitlines()
    assert loaded == str(folder / "__init__.py")
    assert "transformer_mtsa" in archs.split()


def test_the_citation_names_this_version(repo_root):
    lines = (repo_root / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {selfattn.__version__}" in lines
