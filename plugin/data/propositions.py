"""Propositions in memory, as padded batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.data import FairseqDataset

from selfattn_tasks.srl import Sentence
from selfattn_tasks.srl.tagger.features import Pieces
from selfattn_tasks.srl.tagger.network import network_input
from selfattn_tasks.words.vocabulary import spread

from ..criterions.bio_tagging import IGNORED


@dataclass(frozen=True)
class Example:
    """One proposition, or a sentence whose predicates are to be found.

    Args:
        words: row numbers.
        predicate: position of the predicate; ``UNMARKED`` of a sentence.
        target: label numbers; ``IGNORED`` for a label that does not occur in training.
        gold: words and complete proposition, or propositions, for scores; None in training.
        pieces: of the words, for a network with features.
        spellings: of the words, for a network that reads characters.
    """

    words: Sequence[int]
    predicate: int
    target: Sequence[int]
    gold: Sentence | None = None
    pieces: Pieces | None = None
    spellings: Sequence[tuple[int, ...]] = ()


class PropositionDataset(FairseqDataset):
    """Propositions that are batched by length.

    Args:
        examples: the propositions.
        shuffle: order those of equal length randomly.
        together: keep those of a sentence side by side, for a network that marks predicates late.
    """

    def __init__(self, examples: Sequence[Example], shuffle: bool, together: bool = False) -> None:
        self.examples = list(examples)
        self.sizes = np.array([len(example.words) for example in self.examples])
        self.shuffle = shuffle
        numbers: dict[tuple[int, ...], int] = {}
        units = (tuple(e.words) if together else (i,) for i, e in enumerate(self.examples))
        self.sentences = np.array([numbers.setdefault(u, len(numbers)) for u in units], dtype=int)

    def __getitem__(self, index: int) -> tuple[int, Example]:
        return index, self.examples[index]

    def __len__(self) -> int:
        return len(self.examples)

    def num_tokens(self, index: int) -> int:
        """Number of words of the proposition at ``index``."""
        return int(self.sizes[index])

    def num_tokens_vec(self, indices: Any) -> Any:
        """Number of words of each proposition in ``indices``."""
        return self.sizes[indices]

    size = num_tokens

    def ordered_indices(self) -> Any:
        """Indices of all propositions, shortest first."""
        place = np.random.permutation(len(self)) if self.shuffle else np.arange(len(self))
        return np.lexsort((place[self.sentences], self.sizes))

    def collater(self, samples: list[tuple[int, Example]]) -> dict[str, Any]:
        """Make a batch, padded on the right, of ``samples`` from this dataset."""
        if not samples:
            return {}
        examples = [example for _, example in samples]
        return {
            "id": torch.tensor([number for number, _ in samples]),
            "nsentences": len(samples),
            "ntokens": sum(len(example.words) for example in examples),
            "net_input": network_input(
                [example.words for example in examples],
                [example.predicate for example in examples],
                pieces=[example.pieces for example in examples if example.pieces is not None],
                spellings=[example.spellings for example in examples],
            ),
            "target": torch.tensor(spread([example.target for example in examples], IGNORED)),
            # Empty in training, where batches are sent to other processes.
            "gold": [example.gold for example in examples if example.gold is not None],
        }
