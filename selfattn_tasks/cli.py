"""How every command ends: one sentence for a user's mistake, never a traceback."""

import argparse
import errno
import io
import os
import re
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeGuard

from selfattn.errors import UserError

from .precision import set_matmul_precision

_DISK_FULL = {errno.ENOSPC, errno.EFBIG, errno.EDQUOT}


def _terminated(signum: int, frame: object) -> NoReturn:
    raise SystemExit(128 + signum)


def is_disk_full(error: object) -> TypeGuard[OSError]:
    """True if ``error`` says that the disk, the quota or the allowed file size is used up."""
    return isinstance(error, OSError) and error.errno in _DISK_FULL


def disk_full_sentence(error: OSError) -> str:
    """One sentence for an error that :func:`is_disk_full` accepts."""
    where = f" while writing {error.filename}" if error.filename else ""
    return (
        f"no space left{where} ({error.strerror}): free some disk space and run the command again"
    )


def option(name: str) -> str:
    """The flag that gives an argument, as it is typed: ``max_tokens`` is ``--max-tokens``."""
    return "--" + name.replace("_", "-")


def fairseq_command(name: str, *words: str) -> list[str]:
    """``fairseq-NAME WORDS`` as a command line for another process of this Python.

    Like fairseq's installed commands, it imports nothing from the working folder: -m alone would
    take a user's own tokenize.py or random.py for Python's. Python 3.10 has no -P.
    """
    flag = "-Pm" if sys.version_info >= (3, 11) else "-m"
    return [sys.executable, flag, f"fairseq_cli.{name}", *words]


def raise_if_disk_full(output: str, place: Path) -> None:
    """Raise the OSError that the output of a process, or an error, names, if a disk is full."""
    for number in _DISK_FULL:
        if os.strerror(number) in output:
            raise OSError(number, os.strerror(number), str(place))


def moving_line(text: str) -> None:
    """Progress: a line that overwrites itself on a terminal; nothing in a file."""
    if sys.stderr.isatty():
        width = shutil.get_terminal_size().columns - 1
        print(f"\r{text[:width]:<{width}}\r", end="", file=sys.stderr, flush=True)


def script_parser(text: str | None, **options: Any) -> argparse.ArgumentParser:
    """A parser whose help begins with ``text``, a docstring, in the lines that it has."""
    shown = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=text, formatter_class=shown, **options)


def typed_command() -> str:
    """The command line of this process, ready to be typed again, for reports and records."""
    script, root = Path(sys.argv[0]).resolve(), Path(__file__).resolve().parents[1]
    program = ["selfattn"]
    if script.suffix == ".py" and script.name != "__main__.py":
        inside = root in script.parents
        program = ["python", script.relative_to(root).as_posix() if inside else script.name]
        if inside and (script.parent / "__init__.py").exists():  # it does not run as a file
            program[1:] = ["-m", ".".join(script.relative_to(root).with_suffix("").parts)]
    return relative_command([*program, *sys.argv[1:]])


def relative_command(words: Sequence[str]) -> str:
    """A command line whose paths begin at the working folder: records are read elsewhere."""
    inside = re.compile(rf"(?<![\w./-]){re.escape(str(Path.cwd()))}/")
    return shlex.join(inside.sub("", word) for word in words)


def run(main: Callable[[], int | None], prog: str | None = None) -> NoReturn:
    """Run ``main`` as a command and leave the process with a fitting exit code.

    A script ends with ``if __name__ == "__main__": run(main)``.

    * ``main`` returns: its value, or 0 for None.
    * :class:`UserError`: ``PROG: error: MESSAGE`` on stderr, exit code 2.
    * a full disk (ENOSPC, EFBIG, EDQUOT): one sentence on stderr, exit code 1.
    * a file that cannot be opened (missing, a folder, forbidden): one sentence that names it, 1.
    * Ctrl-C: exit code 130. SIGTERM: exit code 143, after ``finally`` blocks have run.
    * a closed pipe (``command | head``): exit code 141, silently.

    Any other exception is a bug and keeps its traceback.

    Args:
        main: the command, without arguments.
        prog: the name shown before the message. Default: the script's file name.
    """
    name = prog or Path(sys.argv[0]).name
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115 - closed by the caller: 2>&-
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # in an ASCII locale; as stderr does
    # The default action of SIGTERM ends Python at once and leaves temporary folders behind.
    signal.signal(signal.SIGTERM, _terminated)
    try:
        _check_arguments()
        set_matmul_precision()
        code = _called(main)
        # Here, so that a full disk or a closed pipe behind the command is met inside the try.
        print(end="", flush=True)
    except UserError as error:
        code = _fail(name, str(error), 2)
    except KeyboardInterrupt:
        code = _fail(name, "interrupted", 130)
    except BrokenPipeError:
        # Python would complain once more when it flushes stdout at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141
    except OSError as error:
        if is_disk_full(error):
            code = _fail(name, disk_full_sentence(error), 1)
        elif error.filename is not None:
            code = _fail(name, f"{error.filename}: {error.strerror}", 1)
        else:
            raise
    sys.exit(code)


def _check_arguments() -> None:
    """Refuse bytes that are no text: neither a model nor a report could hold them."""
    for word in sys.argv[1:]:
        try:
            word.encode("utf-8")
        except UnicodeEncodeError:
            raw = os.fsencode(word)
            shown = raw.decode("utf-8", "backslashreplace")
            if shown.encode("utf-8") == raw:  # Python took it for ASCII
                raise UserError(
                    f"the argument {shown} cannot be read in this locale; set LC_ALL=C.UTF-8, or "
                    "unset PYTHONUTF8"
                ) from None
            raise UserError(f"the argument {shown} is not UTF-8 text") from None


def _called(main: Callable[[], int | None]) -> int:
    """The exit code of ``main``, also where argparse has ended it behind ``--help``."""
    try:
        return main() or 0
    except SystemExit as end:
        if end.code:
            raise
        return 0


def _fail(prog: str, message: str, code: int) -> int:
    print(f"{prog}: error: {message}", file=sys.stderr)
    return code
