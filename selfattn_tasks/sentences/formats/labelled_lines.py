"""A label and a text on each line: TREC's questions, and the files of CR, MPQA, MR and SUBJ."""

import re
from collections.abc import Iterator

from .source import Item, Source

# ``DESC:manner How ...``: one of 6 coarse labels, what makes it fine, and a question.
TREC = re.compile(r"([A-Z]+)(:\w+)(?:\s+(.*))?")
# A digit and a text.
NUMBERED = re.compile(r"(\d)()(?:\s(.*))?")
_WANTED = {
    TREC: "label such as DESC:manner before the question",
    NUMBERED: "digit and a blank before the text",
}


def read_labelled(source: Source, form: re.Pattern[str], *, fine: bool = False) -> Iterator[Item]:
    """Texts behind their labels; an empty text is an example as any other.

    Args:
        source: the file.
        form: ``TREC`` or ``NUMBERED``.
        fine: take TREC's fine labels (``DESC:manner``).

    Raises:
        UserError: with file and line, for a line of another form.
    """
    for number, line in source.lines():
        found = form.fullmatch(line)
        if found is None:
            source.fail(number, f"no {_WANTED[form]}: {line!r}")
        label, more, text = found.groups()
        yield Item(number, (text or "",), label + more if fine else label)
