"""The test sets of WMT as they were published: segments in documents, marked up as SGML."""

import html
import re
from collections.abc import Iterable

from selfattn.errors import UserError

_TAG = re.compile(
    r"<doc\b[^>]*?\bdocid\s*=\s*\"?([^\s\">]+)[^>]*>"
    r"|<seg\b[^>]*?\bid\s*=\s*\"?([^\s\">]+)[^>]*>(.*?)</seg\s*>",
    re.IGNORECASE | re.DOTALL,
)
_OPEN = re.compile(r"<seg\b", re.IGNORECASE)


def segments(name: str, lines: Iterable[bytes]) -> dict[tuple[str, str], str]:
    """The text of each segment by document and number, in the order of the file.

    Entities (``&amp;``) become characters and white space single spaces; nothing else is changed.

    Raises:
        UserError: if it is not UTF-8, a segment is not closed or appears twice, or there is none.
    """
    try:
        text = b"\n".join(lines).decode("utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{name} is not UTF-8 text") from None
    found: dict[tuple[str, str], str] = {}
    document = ""
    for match in _TAG.finditer(text):
        if match[1] is not None:
            document = match[1]
            continue
        key = document, match[2]
        if key in found:
            raise UserError(f"{name}: segment {key[1]} of document {key[0]!r} appears twice")
        found[key] = " ".join(html.unescape(match[3]).split())
    opened = len(_OPEN.findall(text))
    if opened != len(found) or not found:
        raise UserError(
            f"{name} has {opened:,} <seg> but {len(found):,} complete segments with a number, "
            "and must have one or more, all complete"
        )
    return found


def segment_pairs(
    source: tuple[str, Iterable[bytes]], target: tuple[str, Iterable[bytes]]
) -> list[tuple[str, str]]:
    """Source and reference of each segment, of files that are a name and lines each.

    Raises:
        UserError: as :func:`segments`, or if the two files hold different segments.
    """
    left, right = segments(*source), segments(*target)
    for ours, theirs in zip([*left, None], [*right, None], strict=False):
        if ours != theirs:
            only = ours or theirs
            assert only is not None
            raise UserError(
                f"{source[0]} has {len(left):,} segments and {target[0]} {len(right):,}, and they "
                f"first differ at document {only[0]!r}, segment {only[1]}; they must be the same"
            )
    return list(zip(left.values(), right.values(), strict=True))
