"""A batch of sentences before taggers: what does not depend on a predicate is computed once."""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from ...words.vocabulary import Vocabulary
from .network import Tagger, indicator_of, network_input
from .predicates import UNMARKED

# A network and the words and labels that it knows.
Member = tuple[Tagger, Vocabulary]


class Reading:
    """Sentences that taggers read once for all predicates, and for finding these.

    With ``late_layers``, that are all layers below them; otherwise the vectors of words, features
    and characters alone, since the first layer reads the predicate.

    Args:
        sentences: the words of each; none is empty.
        device: where the networks are.
        bf16: multiply matrices in bfloat16.
    """

    def __init__(
        self, sentences: Sequence[Sequence[str]], device: torch.device, bf16: bool = False
    ) -> None:
        self.sentences = sentences
        self.device = device
        self.bf16 = bf16
        self._read: dict[Tagger, tuple[Tensor, Tensor]] = {}

    def log_probs(
        self, member: Member, rows: Sequence[int], predicates: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the labels of one network.

        Args:
            member: the network.
            rows: numbers of sentences; one may occur several times.
            predicates: for each, the position of its predicate, or ``UNMARKED``.

        Returns:
            ``(B, T, labels)`` and the padding mask ``(B, T)``, True = padding.
        """
        length = max(len(self.sentences[row]) for row in rows)
        chosen = torch.tensor(rows, device=self.device)
        indicator = indicator_of(predicates, length).to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16) if self.bf16 else nullcontext():
            x, padding = (read[chosen, :length] for read in self._below(member))
            scores = member[0].above(x, indicator, padding if padding.any() else None)
        return torch.log_softmax(scores.float(), -1), padding

    def _below(self, member: Member) -> tuple[Tensor, Tensor]:
        """What :meth:`Tagger.below` gives ``(S, T, C)``, and the padding mask ``(S, T)``."""
        tagger, vocabulary = member
        if tagger not in self._read:
            features = tagger.features
            batch = network_input(
                [vocabulary.encode(words) for words in self.sentences],
                [UNMARKED] * len(self.sentences),
                pieces=[features.pieces(words) for words in self.sentences] if features else (),
                spellings=[vocabulary.spell(words) for words in self.sentences],
            )
            del batch["indicator"]
            batch = {name: values.to(self.device) for name, values in batch.items()}
            padding = batch.pop("padding_mask")
            mask = padding if padding.any() else None
            self._read[tagger] = tagger.below(padding_mask=mask, **batch), padding
        return self._read[tagger]
