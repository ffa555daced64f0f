"""How C kernels are compiled and kept: damaged files, unsafe folders, missing compilers."""

import logging
import multiprocessing
import os
import shutil

import pytest
import torch

from selfattn.errors import UserError
from selfattn.masks import PositionalMask
from selfattn.ops import disa, mtsa
from selfattn.ops.common import native
from selfattn.ops.common.dispatch import OPERATORS
from selfattn.ops.common.native import build

COMPILER = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")


def forget():
    """As in a new process."""
    for remembered in (native._load, native._warn, build._cache, build._own_folder):
        remembered.cache_clear()


@pytest.fixture
def cache(tmp_path, monkeypatch, caplog):
    """An empty cache of this test's own; only warnings are looked at."""
    caplog.set_level(logging.WARNING)
    folder = tmp_path / "cache"
    monkeypatch.setenv("SELFATTN_CACHE", str(folder))
    monkeypatch.delenv("CC", raising=False)
    forget()
    yield folder
    forget()


@pytest.fixture
def kernel(tmp_path):
    """A kernel that takes no time to compile."""
    folder = tmp_path / "small" / "native"
    folder.mkdir(parents=True)
    (folder / "kernel.c").write_text("int answer(void) { return 42; }\n")
    return folder


def answer(folder):
    """What the kernel says in a new process, as far as one can play it."""
    forget()
    assert native.refusal(folder, torch.float32) is None
    return native.library(folder).answer()


def test_what_was_compiled_is_kept_and_found_again(cache, kernel, caplog):
    assert answer(kernel) == 42
    (library,) = cache.iterdir()
    before = library.stat()
    assert answer(kernel) == 42
    assert library.stat() == before
    assert not caplog.messages


def test_a_relative_folder_is_one_of_the_working_directory(cache, kernel, caplog, monkeypatch):
    cache.mkdir()
    monkeypatch.chdir(cache)
    monkeypatch.setenv("SELFATTN_CACHE", ".")
    assert answer(kernel) == answer(kernel) == 42
    assert len(list(cache.iterdir())) == 1 and not caplog.messages


DAMAGE = {
    "empty": lambda whole: b"",
    "text": lambda whole: b"not a library\n",
    "truncated": lambda whole: whole[: len(whole) // 2],  # it was a bus error
    "end missing": lambda whole: whole[:-1],
    "half written": lambda whole: whole[:4096] + bytes(len(whole) - 4096),
    "a bit": lambda whole: whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:],
    "without its checksum": lambda whole: whole[:-40],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_found_said_and_compiled_anew(cache, kernel, caplog, damage):
    assert answer(kernel) == 42
    (library,) = cache.iterdir()
    whole = library.read_bytes()
    library.unlink()  # this process has it loaded
    library.write_bytes(damage(whole))
    library.chmod(0o755)
    assert answer(kernel) == 42
    (message,) = caplog.messages
    assert str(library) in message and "compiled again" in message
    assert len(library.read_bytes()) == len(whole)
    caplog.clear()
    assert answer(kernel) == 42
    assert not caplog.messages and list(cache.iterdir()) == [library]


def test_a_compiler_that_does_not_know_the_processor_compiles_for_any(
    cache, kernel, caplog, monkeypatch
):
    """Older ones of Apple refuse -mcpu=native."""
    script = cache.parent / "compiler"
    noted = 'echo "$*" >> "$0.calls"\ncase "$*" in *=native*) exit 1;; esac'
    script.write_text(f'#!/bin/sh\n{noted}\nexec {COMPILER} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    assert answer(kernel) == 42
    assert not caplog.messages
    calls = (cache.parent / "compiler.calls").read_text().splitlines()
    assert ["=native" in call for call in calls] == [True, False]


def test_each_processor_has_files_of_its_own(monkeypatch):
    """By what -mcpu=native looks at on ARM."""
    info = "Features\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"
    names = set()
    for this, other in (("", ""), ("asimd", "asimd sve"), ("0x41", "0x46"), ("0xd0c", "0xd40")):
        text = info.replace(this, other)
        monkeypatch.setattr(build.Path, "read_text", lambda _, text=text: text)
        names.add(build._machine())
    assert len(names) == 4


def give_away(path, monkeypatch):
    """Let a file or folder belong to another user."""
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)


def test_a_file_that_others_may_write_is_not_loaded(cache, kernel, caplog):
    assert answer(kernel) == 42
    (library,) = cache.iterdir()
    library.chmod(0o775)
    assert answer(kernel) == 42
    assert "is writable by others" in caplog.text
    (library,) = cache.iterdir()
    assert library.stat().st_mode & 0o022 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_user_is_not_loaded(cache, kernel, caplog, monkeypatch):
    assert answer(kernel) == 42
    (library,) = cache.iterdir()
    give_away(library, monkeypatch)
    assert answer(kernel) == 42
    assert "belongs to another user" in caplog.text
    (library,) = cache.iterdir()
    assert library.stat().st_uid == 0


@pytest.mark.parametrize("mode", [0o777, 0o775, 0o757, None], ids=str)
def test_a_folder_that_others_may_write_is_refused(cache, kernel, caplog, monkeypatch, mode):
    cache.mkdir()
    if mode is None:
        give_away(cache, monkeypatch)
    else:
        cache.chmod(mode)
    assert answer(kernel) == 42
    (message,) = caplog.messages
    assert str(cache) in message and "SELFATTN_CACHE" in message
    assert not list(cache.iterdir())


def test_in_a_folder_that_all_share_each_user_has_one_of_their_own(cache, kernel, caplog):
    cache.mkdir()
    cache.chmod(0o1777)  # as /tmp
    assert answer(kernel) == 42
    (own,) = cache.iterdir()
    assert own.name == f"selfattn-{os.geteuid()}" and own.stat().st_mode & 0o777 == 0o700
    assert [path.suffix for path in own.iterdir()] == [".so"] and not caplog.messages


def test_a_link_in_the_place_of_that_folder_is_refused(cache, kernel, caplog, tmp_path):
    cache.mkdir()
    cache.chmod(0o1777)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (cache / f"selfattn-{os.geteuid()}").symlink_to(tmp_path / "elsewhere")
    assert answer(kernel) == 42
    assert "is writable by others" in caplog.text and not list((tmp_path / "elsewhere").iterdir())


def test_a_shared_folder_of_another_user_is_refused(cache, kernel, caplog, monkeypatch):
    cache.mkdir()
    cache.chmod(0o1777)
    give_away(cache, monkeypatch)
    assert answer(kernel) == 42
    assert "belongs to another user" in caplog.text and not list(cache.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_folder_made_for_this_user_by_another_is_refused(cache, kernel, caplog, monkeypatch):
    (cache / f"selfattn-{os.geteuid()}").mkdir(parents=True)
    cache.chmod(0o1777)
    give_away(cache / f"selfattn-{os.geteuid()}", monkeypatch)
    assert answer(kernel) == 42
    assert "belongs to another user" in caplog.text
    assert not list((cache / f"selfattn-{os.geteuid()}").iterdir())


@pytest.mark.parametrize("folder", ["a file", "nobody's home"])
def test_a_cache_that_cannot_be_used_is_no_obstacle(cache, kernel, caplog, monkeypatch, folder):
    if folder == "a file":
        cache.write_text("")
    else:
        monkeypatch.setenv("SELFATTN_CACHE", "~no-such-user/cache")
    assert answer(kernel) == 42
    (message,) = caplog.messages
    assert "this process compiles its own" in message


def test_leftovers_of_killed_compilers_are_not_loaded(cache, kernel, caplog):
    cache.mkdir(mode=0o700)
    (cache / "selfattn-new-a.so").write_text("")
    assert answer(kernel) == 42
    assert not caplog.messages


def test_eight_processes_at_once_end_with_one_file(cache, kernel):
    context = multiprocessing.get_context("fork")
    with context.Pool(8) as pool:
        assert pool.map(answer, [kernel] * 8, chunksize=1) == [42] * 8
    assert len(list(cache.iterdir())) == 1


MISSING = {
    "no-such-compiler": "CC names 'no-such-compiler', which is not found",
    "gcc 'a": 'CC is "gcc \'a", which cannot be read',
    "false": "false cannot compile the kernel",
    "true": "true cannot compile the kernel: what it wrote cannot be loaded",
    "writes text": "/compiler cannot compile the kernel: what it wrote cannot be loaded",
}


def calls(backend):
    """One call of each operator with a kernel in C."""
    x, mask = torch.randn(1, 2, 5, 8), PositionalMask("forward")
    yield lambda: mtsa(x, x, x, x, masks=mask, backend=backend)
    yield lambda: disa(x[0], x[0], x[0], masks=mask, backend=backend)


@pytest.mark.parametrize(("compiler", "said"), MISSING.items(), ids=MISSING)
def test_without_a_compiler_auto_warns_once_and_computes(
    cache, caplog, monkeypatch, compiler, said
):
    if compiler == "writes text":
        script = cache.parent / "compiler"
        script.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\necho text > "$2"\n')
        script.chmod(0o755)
        compiler = str(script)
    monkeypatch.setenv("CC", compiler)
    for run, slow in zip(calls("auto"), calls("eager"), strict=True):
        torch.manual_seed(1)
        y = run()
        assert y.shape == slow().shape
        run()
    (message,) = caplog.messages
    assert said in message
    assert "attention runs on the slower backend 'eager'" in message
    for run in calls("fused"):
        with pytest.raises(UserError, match="backend 'fused' cannot be used"):
            run()
    assert not cache.exists() or not list(cache.iterdir())


@pytest.mark.parametrize("name", OPERATORS)
def test_other_devices_have_no_kernel(name):
    """Apple's, for example: 'auto' is 'eager' there."""
    assert OPERATORS[name].refusal("mps", torch.float32)


def test_no_compiler_at_all_is_said(cache, caplog, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for run in calls("auto"):
        run()
    (message,) = caplog.messages
    assert "no C compiler was found: install gcc, or name one in the variable CC" in message
