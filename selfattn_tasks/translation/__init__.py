"""From pairs of text files to data that fairseq trains on.

``text`` reads and cleans, ``suspicions`` warns about what looks wrong, ``split`` cuts one corpus
into train, valid and test, ``vocabulary`` learns and applies SentencePiece, ``prepare`` does all of
it and ends in a fairseq data-bin. ``outputs`` reads translations, ``metrics`` scores them, and
``output_warnings`` says what in their look spoils the scores.
"""

from ..text import Cleaning, clean_pairs, read_pairs
from .prepare import Options, Prepared, prepare
from .split import split_pairs

__all__ = [
    "Cleaning",
    "Options",
    "Prepared",
    "clean_pairs",
    "prepare",
    "read_pairs",
    "split_pairs",
]
