"""Apply trained taggers: one checkpoint, or an ensemble whose probabilities are averaged."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from selfattn.errors import UserError

from ... import checkpoints
from ...batches import batches
from ...saved import find_checkpoint
from ...words.vocabulary import Vocabulary
from ..decode import decode
from ..propositions import Sentence
from ..tags import WORD_BY_WORD, proposition_of
from .confidence import with_confidence
from .network import Tagger, network_input
from .predicates import PREDICATE, UNMARKED, places
from .state import PREFIX, TaggerState

# Words of a batch, including padding: enough to keep the cores busy, few enough for their caches.
BATCH_WORDS = 4096

# A network and the words and labels that it knows.
Member = tuple[Tagger, Vocabulary]


@dataclass(frozen=True)
class Query:
    """One predicate of one sentence.

    Args:
        words: the sentence.
        predicate: position of the predicate, counted from 0; ``UNMARKED`` to find predicates.
    """

    words: Sequence[str]
    predicate: int


class Predictor:
    """A tagger, or an ensemble of them, that labels propositions.

    Args:
        members: networks that label arguments, and their vocabularies.
        device: where to run.
        finders: networks that find predicates, and their vocabularies.

    Raises:
        UserError: if the members were trained with different labels.
    """

    def __init__(
        self,
        members: Sequence[Member],
        device: torch.device | str = "cpu",
        finders: Sequence[Member] = (),
    ) -> None:
        self._members = [(tagger.eval().to(device), words) for tagger, words in members]
        self.finders = [(tagger.eval().to(device), words) for tagger, words in finders]
        self.labels = members[0][1].labels if members else ()
        self.device = torch.device(device)
        # Of taggers that were trained on whole sequences (--criterion bio_crf).
        self.needs_viterbi = False
        if any(set(words.labels) != set(self.labels) for _, words in members):
            raise UserError(
                "the checkpoints were trained with different labels, so that their probabilities "
                "cannot be averaged"
            )

    @property
    def members(self) -> list[Member]:
        """The networks that label arguments, and their vocabularies.

        Raises:
            UserError: if there is none.
        """
        if not self._members:
            raise UserError(
                "this model finds predicates only: give a checkpoint that labels arguments with it"
            )
        return self._members

    @classmethod
    def load(
        cls,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        device: torch.device | str = "cpu",
    ) -> Predictor:
        """Load one or more checkpoints of ``--task srl_tagging``, which hold all that is needed.

        Each does what it was trained for (``--target``): label arguments, find predicates or both.

        Args:
            paths: the checkpoints, or folders with them.
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
        loaded = [_load(path, seen) for path in paths]
        labellers = [member for target, member, _ in loaded if target != "predicates"]
        finders = [member for target, member, _ in loaded if target != "arguments"]
        predictor = cls(labellers, device, finders)
        predictor.needs_viterbi = any(needs for *_, needs in loaded)
        return predictor

    @torch.inference_mode()
    def log_probs(self, queries: Sequence[Query]) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the labels; the members' probabilities are averaged.

        Args:
            queries: the batch.

        Returns:
            ``(B, T, labels)`` and the padding mask ``(B, T)``, True = padding.
        """
        sums: Tensor | None = None
        for member in self.members:
            vocabulary = member[1]
            found, padding = self._log_probs_of(member, queries)
            if vocabulary.labels != self.labels:
                found = found[..., [vocabulary.labels.index(tag) for tag in self.labels]]
            sums = found if sums is None else torch.logaddexp(sums, found)
        assert sums is not None
        return sums - math.log(len(self.members)), padding

    def _log_probs_of(self, member: Member, queries: Sequence[Query]) -> tuple[Tensor, Tensor]:
        tagger, vocabulary = member
        batch = network_input(
            [vocabulary.encode(query.words) for query in queries],
            [query.predicate for query in queries],
            self.device,
            pieces=[tagger.features.pieces(q.words) for q in queries] if tagger.features else (),
            spellings=[vocabulary.spell(query.words) for query in queries],
        )
        padding = batch["padding_mask"]
        scores = tagger(**batch | {"padding_mask": padding if padding.any() else None})
        return torch.log_softmax(scores.float(), -1), padding

    @torch.inference_mode()
    def predicates(self, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
        """Find the predicates of sentences; several finders' probabilities are averaged.

        Args:
            sentences: the words of each.

        Returns:
            the positions of each sentence's predicates, counted from 0.

        Raises:
            UserError: if no checkpoint was trained to find predicates.
        """
        if not self.finders:
            raise UserError(
                "this model was trained without predicate identification: give --predicates"
            )
        found: list[list[int]] = [[] for _ in sentences]
        numbers = [i for i, words in enumerate(sentences) if words]
        for chosen in batches([len(sentences[i]) for i in numbers], BATCH_WORDS):
            batch = [numbers[i] for i in chosen]
            queries = [Query(sentences[i], UNMARKED) for i in batch]
            probabilities = []
            for member in self.finders:
                log_probs, padding = self._log_probs_of(member, queries)
                probabilities.append(log_probs[..., member[1].labels.index(PREDICATE)].exp())
            mean = torch.stack(probabilities).mean(0)
            for i, row in zip(batch, places(mean, padding), strict=True):
                found[i] = row
        return found

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
        self._check(decoder)
        tags: list[list[str]] = [[] for _ in queries]
        for batch, log_probs, padding in self._passes(queries, progress):
            for i, row in zip(batch, decode(log_probs, padding, self.labels, decoder), strict=True):
                tags[i] = row
        return tags

    def _check(self, decoder: str) -> None:
        if self.needs_viterbi and decoder in WORD_BY_WORD:
            raise UserError(
                f"--decoder {decoder} does not fit a tagger of --criterion bio_crf, which was "
                "trained on whole sequences; give --decoder structured or strict"
            )

    def _passes(
        self, queries: Sequence[Query], progress: Callable[[int], None] | None
    ) -> Iterator[tuple[list[int], Tensor, Tensor]]:
        """Numbers of the queries of each batch, and its :meth:`log_probs`."""
        done = 0
        for batch in batches([len(query.words) for query in queries], BATCH_WORDS):
            yield batch, *self.log_probs([queries[i] for i in batch])
            done += len(batch)
            if progress is not None:
                progress(done)

    def predict(
        self,
        sentences: Sequence[Sentence],
        decoder: str = "argmax",
        progress: Callable[[int], None] | None = None,
        *,
        confidence: bool = False,
    ) -> list[Sentence]:
        """Replace the spans of sentences by predicted ones.

        Args:
            sentences: of which only words and predicates are used.
            decoder: as for :meth:`tag`.
            progress: as for :meth:`tag`.
            confidence: add the probabilities of spans and propositions (see ``.confidence``).
        """
        self._check(decoder)
        given = [p for s in sentences for p in s.propositions]
        queries = [Query(s.words, p.predicate) for s in sentences for p in s.propositions]
        found = list(given)
        for batch, log_probs, padding in self._passes(queries, progress):
            tags = decode(log_probs, padding, self.labels, decoder)
            labelled = [
                proposition_of(row, given[i].predicate, given[i].lemma, decoder=decoder)
                for i, row in zip(batch, tags, strict=True)
            ]
            if confidence:
                labelled = with_confidence(labelled, log_probs, padding, self.labels, decoder)
            for i, proposition in zip(batch, labelled, strict=True):
                found[i] = proposition
        rest = iter(found)
        return [
            replace(s, propositions=tuple(next(rest) for _ in s.propositions)) for s in sentences
        ]


def _load(path: str | os.PathLike[str], seen: checkpoints.Distinct) -> tuple[str, Member, bool]:
    """What a checkpoint was trained for, its network and vocabulary, whether it needs Viterbi."""
    state = checkpoints.read(find_checkpoint(Path(path)))
    seen.add(state["model"], path)
    loaded = TaggerState.load(state.get("task_state") or {}, path)
    assert loaded.config is not None
    tagger = Tagger(loaded.config)
    try:
        tagger.load_state_dict(checkpoints.weights_below(state, PREFIX))
    except RuntimeError as error:
        raise UserError(f"the weights in {path} do not fit its configuration: {error}") from None
    needs_viterbi = checkpoints.criterion(state) == "bio_crf"
    return loaded.target, (tagger, loaded.vocabulary), needs_viterbi
