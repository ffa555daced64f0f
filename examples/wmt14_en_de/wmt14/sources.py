"""Which archives hold which part of the data, and how to know that they are the right ones."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from selfattn.errors import UserError
from selfattn_tasks.progress import Show

from .download import fetch, verify

PARTS = ("train", "valid", "test")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Archive:
    """A file to download."""

    name: str
    url: str
    bytes: int
    digest: str  # sha256:HEX


@dataclass(frozen=True)
class Corpus:
    """Two files of one archive whose lines, or segments (in ``.sgm``), belong together."""

    name: str  # how messages and counts call it
    part: str  # of PARTS
    archive: str
    source: str  # the English file
    target: str  # the German one
    pairs: int | None  # how many there must be, if that is known


@dataclass(frozen=True)
class Sources:
    """All archives by name, and the corpora in the order in which they are read."""

    archives: Mapping[str, Archive]
    corpora: tuple[Corpus, ...]


def read_sources(path: Path) -> Sources:
    """Read a ``sources.json``.

    Raises:
        UserError: if the file cannot be read or does not say what it must.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"--sources {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"--sources {path} is not JSON: {error}") from None
    try:
        sources = Sources(
            {name: Archive(name=name, **entry) for name, entry in content["archives"].items()},
            tuple(Corpus(**entry) for entry in content["corpora"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UserError(f"--sources {path}: an entry is missing or unknown ({error})") from None
    _check(path, sources)
    return sources


def _check(path: Path, sources: Sources) -> None:
    entries: list[Archive | Corpus] = [*sources.archives.values(), *sources.corpora]
    for entry in entries:
        for name, kind in get_type_hints(type(entry)).items():
            value = getattr(entry, name)
            if not isinstance(value, kind) or isinstance(value, bool):
                raise UserError(
                    f"--sources {path}: the {name} of {entry.name} is {value!r}, but must be "
                    f"{getattr(kind, '__name__', kind)}"
                )
    for archive in sources.archives.values():
        if not _DIGEST.fullmatch(archive.digest):
            raise UserError(
                f"--sources {path}: the digest of {archive.name} is {archive.digest!r}, but must "
                f"be sha256: and the 64 digits that `sha256sum {archive.name}` prints for a file "
                "that you trust"
            )
    for corpus in sources.corpora:
        if corpus.archive not in sources.archives:
            raise UserError(f"--sources {path}: {corpus.name} is in no listed archive")
        if corpus.part not in PARTS:
            raise UserError(
                f"--sources {path}: the part of {corpus.name} is {corpus.part!r}, but must be one "
                f"of {', '.join(PARTS)}"
            )
    for part in PARTS:
        if all(corpus.part != part for corpus in sources.corpora):
            raise UserError(f"--sources {path} has no corpus for {part}")


def find_archives(
    sources: Sources,
    *,
    archives: Path | None,
    downloads: Path,
    mirror: str | None,
    show: Show,
    any_data: bool = False,
) -> dict[str, Path]:
    """Every archive as a checked local file: from a folder that has them, or downloaded.

    Args:
        sources: what is needed.
        archives: a folder that holds them all; then nothing is downloaded.
        downloads: otherwise, where they are kept.
        mirror: a URL; the archives' names are appended to it.
        show: takes a line.
        any_data: with ``archives``, do not compare checksums.

    Raises:
        UserError: if one is missing, cannot be downloaded or is not the right one.
    """
    folder = archives or downloads
    needed = [sources.archives[name] for name in dict.fromkeys(c.archive for c in sources.corpora)]
    if archives is not None:
        missing = [archive.name for archive in needed if not (folder / archive.name).is_file()]
        if missing:
            raise UserError(f"--archives {folder} lacks {', '.join(missing)}")
    for archive in needed:
        path = folder / archive.name
        if not path.is_file():
            url = f"{mirror.rstrip('/')}/{archive.name}" if mirror else archive.url
            fetch(url, path, size=archive.bytes, digest=archive.digest, show=show)
        elif not any_data:
            try:
                verify(path, archive.digest, show)
            except UserError as error:
                again = "" if archives else "; remove it, and the same command downloads it again"
                raise UserError(f"{error}{again}") from None
        show(f"archive {archive.name}: {path.stat().st_size:,} bytes")
    return {archive.name: folder / archive.name for archive in needed}


def as_inputs(sources: Sources) -> dict[str, Any]:
    """All that says which data are read, for a step's record."""
    return {
        "archives": {name: archive.digest for name, archive in sorted(sources.archives.items())},
        "corpora": [list(vars(corpus).values()) for corpus in sources.corpora],
    }
