"""Predicted roles in every form that people and programs read, one sentence after the other."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from ..formats import conll, lines
from ..propositions import Sentence
from ..text.documents import TextSentence
from . import html
from .show import as_json, as_text, located_json


@dataclass(frozen=True)
class Located:
    """A sentence of a text.

    Args:
        sentence: the sentence.
        document: the number of its text, counted from 0.
        start: where the text starts in its file.
    """

    sentence: TextSentence
    document: int
    start: int


_RENDERERS: dict[str, Callable[[Sentence], str]] = {
    "props": partial(conll.formatted, words=False),
    "columns": partial(conll.formatted, words=True),
    "conll": partial(conll.formatted, words=True),
    "lines": lambda sentence: "".join(f"{line}\n" for line in lines.lines_of([sentence])),
    "html": html.as_html,
}
FORMATS = ("text", "json", "jsonl", *_RENDERERS)
# What comes before all sentences, between two, and after all.
_FRAMES = {"json": ("[\n", ",\n", "\n]\n"), "html": (html.HEAD, "", html.TAIL)}


def pieces(sentences: Iterable[Sentence | Located], form: str, width: int = 100) -> Iterator[str]:
    """What to write, piece by piece.

    Args:
        sentences: of a file or of texts; they are taken as they are needed.
        form: one of ``FORMATS``.
        width: of a line of text.

    Raises:
        UserError: for spans that the form cannot express.
    """
    head, between, tail = _FRAMES.get(form, ("", "", ""))
    before = head  # not at once: there may be an error instead of the first sentence
    for sentence in sentences:
        yield before + _rendered(sentence, form, width)
        before = between
    yield tail if before == between else head + tail


def _rendered(sentence: Sentence | Located, form: str, width: int) -> str:
    plain = sentence if isinstance(sentence, Sentence) else sentence.sentence.labelled
    if form == "text":
        return f"{as_text(plain, width)}\n\n"
    if form in _RENDERERS:
        return _RENDERERS[form](plain)
    end = "\n" if form == "jsonl" else ""
    if isinstance(sentence, Sentence):
        return as_json(sentence) + end
    return located_json(sentence.sentence, sentence.document, sentence.start) + end
