"""Folders that appear complete or not at all."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selfattn.errors import UserError

from .cli import raise_if_disk_full
from .files import check_no_pipes, check_output_folder, left_behind


@contextmanager
def new_folder(destination: Path, *, overwrite: bool = False, mark: str) -> Iterator[Path]:
    """Make a folder that takes its name only when the block succeeds.

    If the block raises, the temporary folder is removed and ``destination`` is as it was before.

    Args:
        destination: the folder to make, along with missing parents.
        overwrite: replace an existing folder, if it is empty or holds such a file.
        mark: name, or pattern of names, of a file that shows what wrote a folder.

    Yields:
        a temporary folder next to ``destination``, to be filled.

    Raises:
        UserError: if ``destination`` exists and must not be replaced, or cannot be made.
    """
    destination = Path(os.path.abspath(destination))
    check_destination(destination, overwrite=overwrite, mark=mark)
    destination.parent.mkdir(parents=True, exist_ok=True)
    partial = destination.with_name(f".{destination.name}.partial-{os.getpid()}")
    _remove_remains(destination)
    partial.mkdir()
    try:
        yield partial
        check_destination(destination, overwrite=overwrite, mark=mark)  # others work meanwhile
        old = destination.with_name(f".{destination.name}.old-{os.getpid()}")
        if destination.exists():
            destination.rename(old)
        try:
            partial.rename(destination)
        except BaseException:
            if old.exists():
                old.rename(destination)
            raise
        shutil.rmtree(old, ignore_errors=True)
    except Exception as error:
        if getattr(error, "filename", None) is None:  # safetensors' own, for one
            raise_if_disk_full(str(error), destination)
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _remove_remains(destination: Path) -> None:
    """Remove the temporary folders that killed processes left behind."""
    # Without a destination, an old one may be all that is left of it.
    for kind in ("partial", "old") if destination.exists() else ("partial",):
        for remains in left_behind(destination.parent, f".{destination.name}.{kind}-"):
            shutil.rmtree(remains, ignore_errors=True)


def check_destination(
    destination: Path, *, overwrite: bool, mark: str, inputs: Iterable[Path | None] = ()
) -> None:
    """Refuse a destination that exists and must not be replaced.

    Args:
        destination: as for :func:`new_folder`.
        overwrite: as for :func:`new_folder`.
        mark: as for :func:`new_folder`.
        inputs: what the command reads; None stands for nothing.

    Raises:
        UserError: if it must not be replaced, holds one of the inputs, or cannot be made; or if an
            input is a pipe.
    """
    given = [path for path in inputs if path is not None]
    check_no_pipes(*given)
    if destination.is_symlink() or destination.exists():
        if not overwrite:
            raise UserError(
                f"the destination {destination} already exists: choose another or add --overwrite"
            )
        if destination.is_symlink() or not destination.is_dir():
            raise UserError(f"the destination {destination} is not a folder, so it is not replaced")
        if any(destination.iterdir()) and not any(destination.glob(mark)):
            raise UserError(
                f"the destination {destination} holds something else (no {mark}), so it is not "
                "replaced"
            )
        root = Path(os.path.realpath(destination))
        for path in given:
            if Path(os.path.realpath(path)).is_relative_to(root):
                raise UserError(
                    f"{path}, one of the inputs, lies in the destination {destination} and would "
                    "be lost: move it, or choose another destination"
                )
    # An existing one is renamed, which needs the folder above to be writable.
    place = destination.absolute().parent if destination.exists() else destination
    check_output_folder("the destination", place)


def hashes(paths: Iterable[Path]) -> dict[str, str]:
    """The SHA-256 of each file by its path, as records hold it."""
    return {str(path): sha256_of(path) for path in paths}


def sha256_of(path: Path, seen: Callable[[int], object] = lambda count: None) -> str:
    """The SHA-256 of the file ``path`` in hexadecimal digits; ``seen`` takes each block's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
            seen(len(block))
    return digest.hexdigest()


def digest_of(sentences: Sequence[Any]) -> str:
    """The SHA-256 of sentences; blanks at the end of a translation, which no score sees, aside."""
    digest = hashlib.sha256()
    for sentence in sentences:
        text = sentence.rstrip() if isinstance(sentence, str) else repr(sentence)
        digest.update(text.encode() + b"\n")
    return digest.hexdigest()
