"""Propositions in memory, as padded batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.data import FairseqDataset

from selfattn_tasks.srl import Proposition
from selfattn_tasks.words.vocabulary import PADDING, spread

from ..criterions.bio_tagging import IGNORED


@dataclass(frozen=True)
class Example:
    """One proposition.

    Args:
        words: row numbers.
        predicate: position of the predicate.
        target: label numbers; ``IGNORED`` for a label that training never saw.
        gold: the words and the whole proposition, for the official score; None in training.
    """

    words: Sequence[int]
    predicate: int
    target: Sequence[int]
    gold: tuple[tuple[str, ...], Proposition] | None = None


class PropositionDataset(FairseqDataset):
    """Propositions, batched by length.

    Args:
        examples: the propositions.
        shuffle: put those of equal length in random order.
    """

    def __init__(self, examples: Sequence[Example], shuffle: bool) -> None:
        self.examples = list(examples)
        self.sizes = np.array([len(example.words) for example in self.examples])
        self.shuffle = shuffle

    def __getitem__(self, index: int) -> tuple[int, Example]:
        return index, self.examples[index]

    def __len__(self) -> int:
        return len(self.examples)

    def num_tokens(self, index: int) -> int:
        """Words of one proposition."""
        return int(self.sizes[index])

    def num_tokens_vec(self, indices: Any) -> Any:
        """Words of several propositions."""
        return self.sizes[indices]

    def size(self, index: int) -> int:
        """Words of one proposition."""
        return int(self.sizes[index])

    def ordered_indices(self) -> Any:
        """Numbers of the propositions, shortest first."""
        order = np.random.permutation(len(self)) if self.shuffle else np.arange(len(self))
        return order[np.argsort(self.sizes[order], kind="mergesort")]

    def collater(self, samples: list[tuple[int, Example]]) -> dict[str, Any]:
        """A batch, padded on the right."""
        if not samples:
            return {}
        examples = [example for _, example in samples]
        words = torch.tensor(spread([example.words for example in examples], PADDING))
        indicator = torch.zeros_like(words)
        rows = torch.arange(len(examples))
        indicator[rows, torch.tensor([example.predicate for example in examples])] = 1
        return {
            "id": torch.tensor([number for number, _ in samples]),
            "nsentences": len(samples),
            "ntokens": sum(len(example.words) for example in examples),
            "net_input": {
                "words": words,
                "indicator": indicator,
                "padding_mask": words == PADDING,
            },
            "target": torch.tensor(spread([example.target for example in examples], IGNORED)),
            # Not in training, where batches may cross to other processes for nothing.
            "gold": [example.gold for example in examples if example.gold is not None],
        }
