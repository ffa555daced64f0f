"""Semantic role labelling: from files to the official score.

``formats.conll`` reads every format; ``formats.bio`` and ``formats.brackets`` are two notations for
spans; ``formats.lines``, one proposition per line, is what training reads. ``tagger`` applies a
checkpoint without fairseq, and ``SRL`` labels raw text with it. ``scorer`` equals the official
CoNLL-2005 script.
"""

from .formats.bio import from_bio, to_bio
from .formats.conll import read, write_columns, write_props
from .propositions import Proposition, Sentence, Span
from .text.documents import Document, Text, TextProposition, TextSentence, TextSpan
from .text.model import SRL

__all__ = [
    "SRL",
    "Document",
    "Proposition",
    "Sentence",
    "Span",
    "Text",
    "TextProposition",
    "TextSentence",
    "TextSpan",
    "from_bio",
    "read",
    "to_bio",
    "write_columns",
    "write_props",
]
