"""Apply trained taggers: one checkpoint, or an ensemble whose probabilities are averaged."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from selfattn.errors import UserError

from ... import checkpoints
from ...words.vocabulary import Vocabulary
from ..decode import decode
from ..propositions import Sentence
from ..tags import proposition_of
from .network import Tagger, network_input
from .state import PREFIX, TaggerState

# Words of a batch, including padding: enough to keep the cores busy, few enough for their caches.
BATCH_WORDS = 4096


@dataclass(frozen=True)
class Query:
    """One predicate of one sentence.

    Args:
        words: the sentence.
        predicate: position of the predicate, counted from 0.
    """

    words: Sequence[str]
    predicate: int


class Predictor:
    """A tagger, or an ensemble of them, that labels propositions.

    Args:
        members: networks and their vocabularies.
        device: where to run.

    Raises:
        UserError: if the members were trained with different labels.
    """

    def __init__(
        self, members: Sequence[tuple[Tagger, Vocabulary]], device: torch.device | str = "cpu"
    ) -> None:
        self.members = [(tagger.eval().to(device), words) for tagger, words in members]
        self.labels = members[0][1].labels
        self.device = torch.device(device)
        if any(set(words.labels) != set(self.labels) for _, words in members):
            raise UserError(
                "the checkpoints were trained with different labels, so that their probabilities "
                "cannot be averaged"
            )

    @classmethod
    def load(
        cls,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        device: torch.device | str = "cpu",
    ) -> Predictor:
        """Load one or more checkpoints of ``--task srl_tagging``, which hold all that is needed.

        Args:
            paths: the checkpoints.
            device: where to run.

        Raises:
            UserError: if there is none, a file is missing, broken or not a tagger, or two hold the
                same weights.
        """
        if isinstance(paths, str | os.PathLike):
            paths = [paths]
        if not paths:
            raise UserError("no checkpoint is given, but at least one is needed")
        seen = checkpoints.Distinct()
        return cls([_load(path, seen) for path in paths], device)

    @torch.inference_mode()
    def log_probs(self, queries: Sequence[Query]) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the labels; the members' probabilities are averaged.

        Args:
            queries: the batch.

        Returns:
            ``(B, T, labels)`` and the padding mask ``(B, T)``, True = padding.
        """
        sums: Tensor | None = None
        for tagger, vocabulary in self.members:
            batch = network_input(
                [vocabulary.encode(query.words) for query in queries],
                [query.predicate for query in queries],
                self.device,
            )
            padding = batch["padding_mask"]
            scores = tagger(**batch | {"padding_mask": padding if padding.any() else None})
            found = torch.log_softmax(scores.float(), -1)
            if vocabulary.labels != self.labels:
                found = found[..., [vocabulary.labels.index(tag) for tag in self.labels]]
            sums = found if sums is None else torch.logaddexp(sums, found)
        assert sums is not None
        return sums - math.log(len(self.members)), padding

    def predicates(self, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
        """Find the predicates of sentences.

        Args:
            sentences: the words of each.

        Returns:
            the positions of each sentence's predicates, counted from 0.

        Raises:
            UserError: if no checkpoint was trained to find predicates.
        """
        raise UserError(
            "this model was trained without predicate identification: give --predicates"
        )

    def tag(
        self,
        queries: Sequence[Query],
        decoder: str = "argmax",
        progress: Callable[[int], None] | None = None,
    ) -> list[list[str]]:
        """BIO tags of each query.

        Args:
            queries: predicates in their sentences, in any order.
            decoder: one of ``selfattn_tasks.srl.decode.DECODERS``.
            progress: called with the number of finished queries after each batch.

        Returns:
            one list of tags per query, in the given order.
        """
        tags: list[list[str]] = [[] for _ in queries]
        done = 0
        for batch in _batches([len(query.words) for query in queries]):
            log_probs, padding = self.log_probs([queries[i] for i in batch])
            for i, row in zip(batch, decode(log_probs, padding, self.labels, decoder), strict=True):
                tags[i] = row
            done += len(batch)
            if progress is not None:
                progress(done)
        return tags

    def predict(
        self,
        sentences: Sequence[Sentence],
        decoder: str = "argmax",
        progress: Callable[[int], None] | None = None,
    ) -> list[Sentence]:
        """Replace the spans of sentences by predicted ones.

        Args:
            sentences: of which only words and predicates are used.
            decoder: as for :meth:`tag`.
            progress: as for :meth:`tag`.
        """
        queries = [Query(s.words, p.predicate) for s in sentences for p in s.propositions]
        tags = iter(self.tag(queries, decoder, progress))
        return [
            replace(
                s,
                propositions=tuple(
                    proposition_of(next(tags), p.predicate, p.lemma, decoder=decoder)
                    for p in s.propositions
                ),
            )
            for s in sentences
        ]


def _load(path: str | os.PathLike[str], seen: checkpoints.Distinct) -> tuple[Tagger, Vocabulary]:
    state = checkpoints.read(path)
    seen.add(state["model"], path)
    loaded = TaggerState.load(state.get("task_state") or {}, path)
    assert loaded.config is not None
    tagger = Tagger(loaded.config)
    weights = {
        name.removeprefix(PREFIX): value
        for name, value in state["model"].items()
        if name.startswith(PREFIX)
    }
    try:
        tagger.load_state_dict(weights)
    except RuntimeError as error:
        raise UserError(f"the weights in {path} do not fit its configuration: {error}") from None
    return tagger, loaded.vocabulary


def _batches(lengths: Sequence[int]) -> Iterable[list[int]]:
    """Indices of queries of similar length, longest first, so that memory peaks at once."""
    batch: list[int] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > BATCH_WORDS:
            yield batch
            batch = []
        batch.append(i)
    if batch:
        yield batch
