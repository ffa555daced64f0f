"""Text straight out of tar archives: nothing is unpacked, no path of an archive is ever used."""

import tarfile
import zlib
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import IO, cast

from selfattn.errors import UserError


def member_lines(archive: Path, name: str) -> Iterator[bytes]:
    """The lines of one file of an archive, without their newlines, read as they are asked for.

    A line ends at ``\\n`` and nowhere else: corpora hold bare carriage returns inside of sentences.

    Args:
        archive: a tar archive, compressed in any way that Python knows.
        name: of the file, in whatever folder of the archive.

    Raises:
        UserError: if there is no such archive, it is damaged, or it holds no such file.
    """
    try:
        # A stream: nothing is searched backwards, which would decompress from the start again.
        with tarfile.open(archive, "r|*") as tar:
            for info in tar:
                if info.isfile() and PurePosixPath(info.name).name == name:
                    for line in cast(IO[bytes], tar.extractfile(info)):
                        yield line.removesuffix(b"\n")
                    return
    except FileNotFoundError:
        raise UserError(f"there is no archive {archive}") from None
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(":") or type(error).__name__
        raise UserError(f"{archive} cannot be read as a whole archive ({reason})") from None
    raise UserError(f"the archive {archive} holds no file {name}")


def line_pairs(archive: Path, source: str, target: str) -> Iterator[tuple[bytes, bytes]]:
    """Lines of two files of an archive side by side; each is a stream of its own.

    Raises:
        UserError: as :func:`member_lines`, or if one file has more lines than the other.
    """
    sides = member_lines(archive, source), member_lines(archive, target)
    for count, (left, right) in enumerate(zip_longest(*sides)):
        if left is None or right is None:
            longer = count + 1 + sum(1 for side in sides for _ in side)
            counts = (count, longer) if left is None else (longer, count)
            raise UserError(
                f"{archive}: {source} has {counts[0]:,} lines but {target} has {counts[1]:,}; "
                "line i of one must be the translation of line i of the other"
            )
        yield left, right
