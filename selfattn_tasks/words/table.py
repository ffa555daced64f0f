"""Vectors of words: learnt, fixed, or 0."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .embeddings import WordVectors
from .vocabulary import FIRST_WORD, Vocabulary

# Bi-BloSAN's code and its successors' start words without a vector from U(-0.05, 0.05).
_BOUND = 0.05


class WordTable(nn.Module):
    """The embedding of the sentence experiments (Bi-BloSAN section 4 and its code).

    Words of the training have vectors that are trained, words that only the vectors' file knows
    have its vectors as they are, and any other word has 0, as padding has.

    Args:
        words: number of trained words.
        width: of a vector.
        frozen: number of words with fixed vectors, which are 0 until they are set or loaded.
    """

    def __init__(self, words: int, width: int, frozen: int = 0) -> None:
        super().__init__()
        self.trained = nn.Embedding(words, width)
        nn.init.uniform_(self.trained.weight, -_BOUND, _BOUND)
        self.frozen: Tensor
        self.register_buffer("frozen", torch.zeros(frozen, width))

    @torch.no_grad()
    def start_from(self, vectors: WordVectors, vocabulary: Vocabulary) -> None:
        """Take the vectors of a file, whose words ``vocabulary.frozen`` all are."""
        for row, word in enumerate(vocabulary.words):
            found = vectors.row(word)
            if found is not None:
                self.trained.weight[row] = vectors.values[found]
        rows = [vectors.words[word] for word in vocabulary.frozen]
        self.frozen.copy_(vectors.values[torch.tensor(rows, dtype=torch.long)])

    def forward(self, rows: Tensor) -> Tensor:
        """Row numbers of a ``Vocabulary``, of any shape ``(...)`` -> vectors ``(..., width)``."""
        numbers = rows - FIRST_WORD
        known = self.trained.num_embeddings
        vectors: Tensor = self.trained(numbers.clamp(0, known - 1))
        vectors = vectors.masked_fill((numbers < 0)[..., None], 0.0)
        if not len(self.frozen):
            return vectors
        frozen = self.frozen[(numbers - known).clamp_min(0)].to(vectors)
        return torch.where((numbers >= known)[..., None], frozen, vectors)
