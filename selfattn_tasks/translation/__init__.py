"""Translation: from pairs of text files to fairseq's data, and from its output to scores.

``suspicions`` warns about text that looks wrong, ``split`` divides a corpus into train, valid and
test, ``vocabulary`` learns and applies SentencePiece, ``binarise`` runs fairseq-preprocess, and
``prepare`` does all of it. ``outputs`` reads translations, ``metrics`` scores them, and
``output_warnings`` warns about what spoils the scores.
"""

from ..text import Cleaning, clean_pairs, read_pairs
from .prepare import Options, prepare
from .split import split_pairs

__all__ = [
    "Cleaning",
    "Options",
    "clean_pairs",
    "prepare",
    "read_pairs",
    "split_pairs",
]
