"""The plugin has one identity a process, from wherever and in whatever order it is imported."""

import inspect
import os
import shutil
import sys
from pathlib import Path

import pytest

import selfattn

ROOT = Path(__file__).resolve().parents[2]
IGNORED = shutil.ignore_patterns("__pycache__")


@pytest.fixture
def clone(tmp_path):
    """A bare clone: the two folders side by side, nothing installed."""
    for name in ("selfattn", "plugin"):
        shutil.copytree(ROOT / name, tmp_path / "clone" / name, ignore=IGNORED)
    return tmp_path / "clone"


@pytest.fixture
def site(tmp_path):
    """A site-packages with the project installed: ``selfattn`` and ``selfattn_fairseq``."""
    shutil.copytree(ROOT / "selfattn", tmp_path / "site" / "selfattn", ignore=IGNORED)
    shutil.copytree(ROOT / "plugin", tmp_path / "site" / "selfattn_fairseq", ignore=IGNORED)
    return tmp_path / "site"


@pytest.fixture
def python(run_cli):
    """Runs code with some folders in the path; unless `fresh`, fairseq was imported before."""

    def run(code, cwd, *path, fresh=False):
        folders = os.pathsep.join(map(str, path))
        return run_cli(["-c", code], cwd=cwd, fresh=fresh, PYTHONPATH=folders)

    return run


USE = """
from argparse import Namespace
from fairseq import utils
from fairseq.models import ARCH_MODEL_REGISTRY
utils.import_user_module(Namespace(user_dir={user_dir!r}))
print(ARCH_MODEL_REGISTRY["transformer_mtsa"].__module__)
"""


def test_from_another_folder(clone, python, tmp_path):
    done = python(USE.format(user_dir=str(clone / "plugin")), tmp_path)
    assert done.stdout == "plugin.models.transformer\n", done.stderr


def test_notebook_imports_first(clone, python):
    done = python("import plugin\n" + USE.format(user_dir="plugin"), clone, fresh=True)
    assert done.stdout == "plugin.models.transformer\n", done.stderr


def test_installed(site, python, tmp_path):
    folder = str(site / "selfattn_fairseq")
    done = python("import selfattn_fairseq\n" + USE.format(user_dir=folder), tmp_path, site)
    assert done.stdout == "selfattn_fairseq.models.transformer\n", done.stderr


def test_two_names_of_one_folder(clone, python):
    """An editable installation maps selfattn_fairseq to the clone's plugin folder."""
    (clone / "selfattn_fairseq").symlink_to("plugin")
    code = "import selfattn_fairseq\n" + USE.format(user_dir="plugin")
    code += "import plugin.models.transformer as a, selfattn_fairseq as b\n"
    code += "print(a is b.models.transformer)"
    done = python(code, clone)
    assert done.stdout == "selfattn_fairseq.models.transformer\nTrue\n", done.stderr


def test_two_copies_are_refused(clone, site, python, tmp_path):
    code = f"import sys, selfattn_fairseq; sys.path.insert(0, {str(clone)!r}); import plugin"
    done = python(code, tmp_path, site)
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith("ImportError: this process has loaded the plugin as 'selfattn_fairseq'")
    assert str(site / "selfattn_fairseq") in line and str(clone / "plugin") in line


def test_core_of_another_version_is_refused(clone, site, python, tmp_path):
    init = site / "selfattn" / "__init__.py"
    init.write_text(init.read_text().replace('__version__ = "', '__version__ = "9.'))
    done = python(
        f"import selfattn, sys; sys.path.insert(0, {str(clone)!r}); import plugin", tmp_path, site
    )
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert f"{selfattn.__version__} in {clone / 'selfattn'}" in line
    assert f"9.{selfattn.__version__} in {site / 'selfattn'}" in line


def test_core_is_missing(clone, python):
    shutil.rmtree(clone / "selfattn")
    # the tests may run where the project is installed
    done = python("import sys; sys.modules['selfattn'] = None; import plugin", clone)
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and "needs the package selfattn" in line


def test_a_new_criterion_is_found(clone, python):
    """fairseq imports models/ and tasks/ of a user dir, never criterions/."""
    (clone / "plugin/criterions/mine.py").write_text(
        "from fairseq.criterions import FairseqCriterion, register_criterion\n"
        "@register_criterion('mine')\n"
        "class Mine(FairseqCriterion):\n    pass\n"
    )
    code = USE.format(user_dir="plugin") + (
        "from fairseq.criterions import CRITERION_REGISTRY\nprint(CRITERION_REGISTRY['mine'])"
    )
    done = python(code, clone)
    assert "plugin.criterions.mine.Mine" in done.stdout, done.stderr


def replacements():
    """Each attribute that the plugin replaces: its name, what was there, and what is there now."""
    from fairseq.trainer import Trainer

    import plugin  # noqa: F401 - replaces them

    wrapper = Trainer.train_step.__code__
    tops = ("fairseq", "sys", "threading", "logging")
    modules = [m for name, m in sys.modules.items() if name.split(".")[0] in tops]
    classes = {c for m in modules for c in vars(m).values() if isinstance(c, type)}
    for owner in (*modules, *classes):
        for name, value in vars(owner).items():
            found = getattr(value, "__func__", value)  # of a static method
            while getattr(found, "__code__", None) is wrapper:
                inside = inspect.getclosurevars(found).nonlocals
                yield f"{owner.__name__}.{name}", inside["original"], inside["replacement"]
                found = inside["original"]


def test_replacements_have_the_parameters_of_what_they_replace():
    """So that a call by keyword, by a user or by fairseq, keeps working."""
    seen = 0
    for name, original, replacement in replacements():
        seen += 1
        if name == "threading.excepthook":  # C without a signature
            continue
        theirs = inspect.signature(original).parameters.values()  # of what wrappers wrap
        ours = [*inspect.signature(replacement).parameters.values()][1:]
        for mine, their in zip(ours, theirs, strict=False):
            if mine.kind in (mine.VAR_POSITIONAL, mine.VAR_KEYWORD):
                break
            assert mine.name == their.name, (name, mine.name, their.name)
    assert seen > 30
