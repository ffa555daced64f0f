"""Semantic role labelling: from files to the official score.

``formats.conll`` reads every format; ``formats.bio`` and ``formats.brackets`` are two notations for
spans; ``formats.lines``, one proposition per line, is what training reads. ``tagger`` applies a
checkpoint without fairseq. ``scorer`` equals the official CoNLL-2005 script.
"""

from .formats.bio import from_bio, to_bio
from .formats.conll import read, write_columns, write_props
from .propositions import Proposition, Sentence, Span

__all__ = [
    "Proposition",
    "Sentence",
    "Span",
    "from_bio",
    "read",
    "to_bio",
    "write_columns",
    "write_props",
]
