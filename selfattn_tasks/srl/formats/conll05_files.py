"""The CoNLL-2005 archives: their layout, their files, and how they spell words."""

import io
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from selfattn.errors import UserError

from ...text import decoded

BROWN = "brown"


@dataclass(frozen=True)
class Part:
    """One part of the data.

    Args:
        name: the name of the files written.
        folder: its folder in the archives.
        sections: sections of the Treebank, or ``brown``.
        published: sentences, tokens and propositions according to Table 1 of Carreras and
            Màrquez (2005).
    """

    name: str
    folder: str
    sections: tuple[str, ...]
    published: tuple[int, int, int]

    def key(self, section: str, kind: str) -> str:
        """The path in the archives, without ``.gz``, of a section's ``props`` or ``words``."""
        number = f".{section}" if self.folder in ("train", "devel") else ""
        return f"{self.folder}/{kind}/{self.folder}{number}.{kind}"


PARTS = (
    Part("train", "train", tuple(f"{i:02}" for i in range(2, 22)), (39_832, 950_028, 90_750)),
    Part("dev", "devel", ("24",), (1_346, 32_853, 3_248)),
    Part("test.wsj", "test.wsj", ("23",), (2_416, 56_684, 5_267)),
    Part("test.brown", "test.brown", (BROWN,), (426, 7_159, 804)),
)
_KEYS = {
    part.key(section, kind)
    for part in PARTS
    for section in part.sections
    for kind in ("props", "words")
}


@dataclass(frozen=True)
class Member:
    """One file of an archive: how messages name it, and its lines."""

    name: Path
    lines: list[str]


def read_archives(paths: Iterable[Path]) -> dict[str, Member]:
    """Read the props and words files of archives.

    Args:
        paths: archives, or the folders they unpack to.

    Returns:
        the files by :meth:`Part.key`.

    Raises:
        UserError: if an archive is missing or damaged, or two hold different versions of a file.
    """
    found: dict[str, Member] = {}
    for path in paths:
        for name, key, data in _members(path):
            content = io.BufferedReader(io.BytesIO(data))
            member = Member(path / name, list(decoded(path / name, content)))
            if found.setdefault(key, member).lines != member.lines:
                raise UserError(
                    f"--archive: {found[key].name} and {member.name} are both {key}, but differ"
                )
    return found


def _members(path: Path) -> Iterator[tuple[str, str, bytes]]:
    """Name, key and content of each file that is needed."""
    try:
        if path.is_dir():
            for file in sorted(path.rglob("*")):
                name = file.relative_to(path).as_posix()
                if file.is_file() and (key := _key(name)):
                    yield name, key, file.read_bytes()
            return
        with tarfile.open(path) as archive:
            for info in archive:
                key = _key(info.name)
                content = archive.extractfile(info) if key and info.isfile() else None
                if content is not None:
                    yield info.name, key, content.read()
            while archive.fileobj and archive.fileobj.read(1 << 20):
                pass  # a checksum stands at the end
    except FileNotFoundError:
        raise UserError(f"--archive: there is no file or folder {path}") from None
    except Exception as error:  # each kind of compression raises errors of its own
        reason = str(error).partition("\n")[0].rstrip(":")
        raise UserError(
            f"--archive: {path} cannot be read as a whole .tar.gz archive ({reason})"
        ) from None


def _key(name: str) -> str:
    """The key of a file that is needed, or an empty string."""
    key = "/".join(name.removesuffix(".gz").split("/")[-3:])
    return key if key in _KEYS else ""


_BRACKETS = {
    "-LRB-": "(", "-RRB-": ")", "-LCB-": "{", "-RCB-": "}", "-LSB-": "[", "-RSB-": "]",
}  # fmt: skip


def spelling_of(members: Mapping[str, Member]) -> Callable[[str], str]:
    """How to write words of the Treebank so that they agree with the archives' test sets.

    The Treebank writes ``-LRB-`` for an opening parenthesis and ``\\/`` for a slash. The shared
    task undid the former; whether it undid the latter shows in the words of its test sets.
    """
    words = {
        line.split()[0]
        for key, member in members.items()
        if "/words/" in key
        for line in member.lines
        if line.strip()
    }
    brackets = {} if "-LRB-" in words else _BRACKETS
    escapes = any("\\/" in word for word in words) or not any("/" in word for word in words)

    def spelled(word: str) -> str:
        word = brackets.get(word, word)
        return word if escapes else word.replace("\\/", "/").replace("\\*", "*")

    return spelled
