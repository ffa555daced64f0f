"""Examples of one sentence, of two, or of a question and its candidates, as padded batches."""

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from fairseq.data import FairseqDataset

from selfattn_tasks.sentences.model.network import pad
from selfattn_tasks.words.vocabulary import PADDING

# Lengths are moved by up to this share before examples are sorted by them, anew in each epoch:
# examples then meet others, while a batch still has little padding.
_SPREAD = 0.2
Encoded = tuple[Sequence[Sequence[int]], float]


class SentenceDataset(FairseqDataset):
    """Examples of a set, batched by their longest sentence.

    Args:
        examples: row numbers of each sentence of an example, and its target.
        split: name of the set, which each batch carries.
        dtype: of the targets; whole numbers name a class or a candidate.
        shuffle: whether the examples meet others in each epoch.
    """

    def __init__(
        self, examples: Iterable[Encoded], split: str, dtype: torch.dtype, shuffle: bool
    ) -> None:
        # In two arrays, since lists of lists of numbers take some twenty times the memory.
        words, ends, firsts, targets = array("i"), array("q", [0]), array("q", [0]), array("d")
        for sentences, target in examples:
            for sentence in sentences:
                words.extend(sentence)
                ends.append(len(words))
            firsts.append(len(ends) - 1)
            targets.append(target)
        self.words = np.array(words)
        self.ends, self.firsts = np.array(ends), np.array(firsts)
        self.targets = torch.tensor(targets, dtype=torch.double).to(dtype)
        # Of each sentence, as --biblosa-block-length auto wants it, and of each example's longest.
        self.src_sizes = np.diff(self.ends)
        self.sizes = np.maximum.reduceat(self.src_sizes, self.firsts[:-1])
        self.split, self.shuffle = split, shuffle

    @property
    def can_reuse_epoch_itr_across_epochs(self) -> bool:
        """Whether each epoch has the same batches."""
        return not self.shuffle

    def __getitem__(self, index: int) -> tuple[int, list[np.ndarray]]:
        first, last = self.firsts[index : index + 2]
        ends = self.ends[first : last + 1]
        return index, [self.words[a:b] for a, b in zip(ends, ends[1:], strict=False)]

    def __len__(self) -> int:
        return len(self.targets)

    def num_tokens(self, index: int) -> int:
        """What an example takes of a batch: all of its sentences as long as the longest."""
        return int(self.num_tokens_vec(index))

    def num_tokens_vec(self, indices: Any) -> Any:
        """``num_tokens`` of several examples."""
        sentences = self.firsts[np.asarray(indices) + 1] - self.firsts[indices]
        return np.maximum(self.sizes[indices], 1) * sentences

    def size(self, index: int) -> int:
        """Words of an example's longest sentence."""
        return int(self.sizes[index])

    def ordered_indices(self) -> Any:
        """Numbers of the examples, shortest first; of a shuffled set only about so."""
        if not self.shuffle:
            return np.argsort(self.sizes, kind="mergesort")
        order = np.random.permutation(len(self))
        moved = (self.sizes[order] + 1) * np.random.uniform(1 - _SPREAD, 1 + _SPREAD, len(self))
        return order[np.argsort(moved, kind="mergesort")]

    def collater(self, samples: list[tuple[int, list[np.ndarray]]]) -> dict[str, Any]:
        """A batch; its ``net_input`` is what ``pad`` gives, ``lengths`` ``(B, S)`` counts words."""
        if not samples:
            return {}
        numbers = torch.tensor([number for number, _ in samples])
        examples = [sentences for _, sentences in samples]
        words, missing = pad(examples)
        lengths = (words != PADDING).sum(2)
        return {
            "id": numbers,
            "split": self.split,
            "nsentences": len(samples),
            "ntokens": int(lengths.sum()),
            "lengths": lengths,
            "net_input": {"words": words, "missing": missing},
            "target": self.targets[numbers],
        }
