"""Semantic role labelling: files in, an official score out.

``conll`` reads every format; ``bio`` and ``brackets`` are two ways to write spans down; ``lines``
is the one-proposition-a-line form that training reads; ``scorer`` equals the official CoNLL-2005
script.
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
