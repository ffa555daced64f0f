"""Examples of different lengths as one tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ...words.vocabulary import PADDING

Encoded = Sequence[Sequence[int] | np.ndarray]


def pad(examples: Sequence[Encoded]) -> tuple[Tensor, Tensor]:
    """Put the sentences of examples into one tensor, padded on the right.

    Args:
        examples: row numbers of the words of each sentence of each example.

    Returns:
        The row numbers ``(B, S, T)`` of S sentences at most, of at most T words (1 at least), and
        bool ``(B, S)``, True where an example has no sentence, as with fewer candidates than
        others. A sentence without a word is there, too, as padding alone.
    """
    most = max(map(len, examples))
    longest = max([1, *(len(sentence) for example in examples for sentence in example)])
    words = np.full((len(examples), most, longest), PADDING)
    missing = np.ones((len(examples), most), dtype=bool)
    for row, gap, example in zip(words, missing, examples, strict=True):
        gap[: len(example)] = False
        for place, sentence in zip(row, example, strict=False):
            place[: len(sentence)] = sentence
    return torch.from_numpy(words), torch.from_numpy(missing)
