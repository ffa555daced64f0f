"""Predicted roles as a web page: brackets above the words of each sentence."""

import hashlib
from collections.abc import Sequence
from html import escape

from ..propositions import VERB, Sentence, Span

# For the pieces of a page, whatever else is on it.
STYLE = """
.roles { overflow-x: auto; margin-bottom: 1.5em }
.roles table { border-collapse: separate; border-spacing: 3px 2px }
.roles td { text-align: center; white-space: nowrap; padding: 1px 4px }
.roles .role { border: 2px solid; border-bottom: 0; border-radius: 4px 4px 0 0; font-size: 12px }
"""
# Nothing is loaded from elsewhere, and no script runs.
HEAD = f"""<!DOCTYPE html>
<html><head><meta charset="utf-8"><title>Semantic roles</title><style>
body {{ font: 16px sans-serif; margin: 2em }}{STYLE}</style></head><body>
"""
TAIL = "</body></html>\n"


def as_html(sentence: Sentence) -> str:
    """A table: one row of labelled brackets for each predicate, and the words below them.

    Args:
        sentence: words and propositions, whose spans must not overlap within a proposition.

    Returns:
        a piece of a page that has ``STYLE``, as the one between ``HEAD`` and ``TAIL``.
    """
    length = len(sentence.words)
    rows = [_brackets(p.spans, length) for p in sentence.propositions]
    words = "".join(f'<td dir="auto">{escape(word)}</td>' for word in sentence.words)
    rows.append(f"<tr>{words}</tr>")
    return '<div class="roles"><table class="spans">\n' + "\n".join(rows) + "\n</table></div>\n"


def _brackets(spans: Sequence[Span], length: int) -> str:
    cells = []
    at = 0
    for span in sorted(spans, key=lambda span: span.start):
        cells.append("<td></td>" * (span.start - at))
        at = span.end + 1
        cells.append(
            f'<td class="role" colspan="{at - span.start}" style="color: {_colour(span.label)}">'
            f"{escape(span.label)}</td>"
        )
    return f"<tr>{''.join(cells)}{'<td></td>' * (length - at)}</tr>"


def _colour(label: str) -> str:
    """The same for all pieces of a role, on every page."""
    role = label.removeprefix("C-").removeprefix("R-")
    if role == VERB:
        return "#000"
    return f"hsl({int(hashlib.sha256(role.encode()).hexdigest(), 16) % 360} 70% 35%)"
