"""Apply trained taggers: one checkpoint, or an ensemble whose probabilities are averaged."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selfattn.errors import UserError

from ... import checkpoints
from ...batches import batches
from ...devices import find_device
from ...saved import Paths, read_each
from ..decode import decode_propositions
from ..propositions import Proposition, Sentence, unlabelled
from ..tags import WORD_BY_WORD
from .confidence import with_confidence
from .network import Tagger
from .predicates import PREDICATE, UNMARKED, places
from .reading import Member, Reading
from .state import PREFIX, TaggerState

# Words of a batch, including padding: few enough for a CPU's caches, enough to keep a GPU busy.
BATCH_WORDS = {"cpu": 1024}


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
        bf16: multiply matrices in bfloat16: faster on a CPU that has it, with other answers at
            times.

    Raises:
        UserError: if there is no such device, or the members were trained with different labels.
    """

    def __init__(
        self,
        members: Sequence[Member],
        device: torch.device | str = "cpu",
        finders: Sequence[Member] = (),
        bf16: bool = False,
    ) -> None:
        self.device = find_device(device)
        self._members = [(tagger.eval().to(self.device), words) for tagger, words in members]
        self.finders = [(tagger.eval().to(self.device), words) for tagger, words in finders]
        self.labels = members[0][1].labels if members else ()
        self.bf16 = bf16
        self.batch_words = BATCH_WORDS.get(self.device.type, 4096)
        # Of taggers that were trained on whole sequences (--criterion bio_crf).
        self.needs_viterbi = False
        # For the confidences of spans; an ensemble, whose mean is another distribution, has none.
        self.temperature = 1.0
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
        cls, paths: Paths, device: torch.device | str = "cpu", bf16: bool = False
    ) -> Predictor:
        """Load one or more checkpoints of ``--task srl_tagging``, which hold all that is needed.

        Each does what it was trained for (``--target``): label arguments, find predicates or both.

        Args:
            paths: the checkpoints, or folders with them.
            device: where to run.
            bf16: as for the class.

        Raises:
            UserError: if there is none, a file is missing, broken or not a tagger, two hold the
                same weights, or as for the class.
        """
        loaded = [_load(*found) for found in read_each(paths)]
        labellers = [(member, state) for state, member, _ in loaded if state.target != "predicates"]
        finders = [member for state, member, _ in loaded if state.target != "arguments"]
        predictor = cls([member for member, _ in labellers], device, finders, bf16)
        predictor.needs_viterbi = any(needs for *_, needs in loaded)
        if len(labellers) == 1:
            predictor.temperature = labellers[0][1].temperature
        return predictor

    def log_probs(self, queries: Sequence[Query]) -> tuple[Tensor, Tensor]:
        """Log-probabilities of the labels of a batch; the members' probabilities are averaged.

        Returns:
            ``(B, T, labels)`` and the padding mask ``(B, T)``, True = padding.
        """
        reading = Reading([query.words for query in queries], self.device, self.bf16)
        return self._log_probs(reading, range(len(queries)), [q.predicate for q in queries])

    @torch.inference_mode()
    def _log_probs(
        self, reading: Reading, rows: Sequence[int], predicates: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """:meth:`log_probs` of predicates of sentences that were read."""
        sums: Tensor | None = None
        for member in self.members:
            vocabulary = member[1]
            found, padding = reading.log_probs(member, rows, predicates)
            if vocabulary.labels != self.labels:
                found = found[..., [vocabulary.labels.index(tag) for tag in self.labels]]
            sums = found if sums is None else torch.logaddexp(sums, found)
        assert sums is not None
        return sums - math.log(len(self.members)), padding

    def predicates(self, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
        """Find the predicates of lists of words; several finders' probabilities are averaged.

        Returns:
            the positions of each sentence's predicates, counted from 0.

        Raises:
            UserError: if no checkpoint was trained to find predicates.
        """
        found: list[list[int]] = [[] for _ in sentences]
        for batch, reading in self._read(sentences, range(len(sentences))):
            for i, row in zip(batch, self.places_in(reading, range(len(batch))), strict=True):
                found[i] = row
        return found

    def _read(
        self, sentences: Sequence[Sequence[str]], chosen: Iterable[int]
    ) -> Iterator[tuple[list[int], Reading]]:
        """Numbers of the chosen sentences of each batch, and how the networks read them."""
        numbers = [i for i in chosen if sentences[i]]
        for rows in batches([len(sentences[i]) for i in numbers], self.batch_words):
            batch = [numbers[row] for row in rows]
            yield batch, Reading([sentences[i] for i in batch], self.device, self.bf16)

    @torch.inference_mode()
    def places_in(self, reading: Reading, rows: Sequence[int]) -> list[list[int]]:
        """The predicates of some of the sentences that were read."""
        if not self.finders:
            raise UserError(
                "this model was trained without predicate identification: name the predicates, by "
                "--predicates or, on the command line, in the file of --input"
            )
        probabilities = []
        for member in self.finders:
            log_probs, padding = reading.log_probs(member, rows, [UNMARKED] * len(rows))
            probabilities.append(log_probs[..., member[1].labels.index(PREDICATE)].exp())
        return places(torch.stack(probabilities).mean(0), padding)

    def predict(
        self,
        sentences: Sequence[Sentence],
        decoder: str = "argmax",
        progress: Callable[[int], object] = lambda done: None,
        *,
        find: Collection[int] = (),
        confidence: bool = False,
    ) -> list[Sentence]:
        """Replace the spans of sentences by predicted ones.

        Args:
            sentences: of which only words and predicates are used.
            decoder: one of ``selfattn_tasks.srl.tags.DECODERS``.
            progress: called with the number of finished sentences after each batch.
            find: numbers of the sentences, counted from 0, whose predicates the model finds
                instead, in the same pass over what does not depend on a predicate.
            confidence: add the probabilities of spans and propositions (see ``.confidence``).

        Raises:
            UserError: if the decoder does not fit, or as for :meth:`predicates`.
        """
        if self.needs_viterbi and decoder in WORD_BY_WORD:
            raise UserError(
                f"--decoder {decoder} does not fit a tagger of --criterion bio_crf, which was "
                "trained on whole sequences; give --decoder structured or strict"
            )
        found = [list(sentence.propositions) for sentence in sentences]
        asked = [i for i, given in enumerate(found) if given or i in find]
        done = len(sentences) - len(asked)
        for batch, reading in self._read([s.words for s in sentences], asked):
            rows = [row for row, i in enumerate(batch) if i in find]
            for row, at in zip(rows, self.places_in(reading, rows) if rows else (), strict=True):
                found[batch[row]] = [*unlabelled(reading.sentences[row], at)]
            pairs = [(row, k) for row, i in enumerate(batch) for k in range(len(found[i]))]
            lengths = [len(reading.sentences[row]) for row, _ in pairs]
            for part in batches(lengths, self.batch_words):
                chosen = [pairs[number] for number in part]
                given = [(row, found[batch[row]][k]) for row, k in chosen]
                labelled = self._labelled(reading, given, decoder, confidence)
                for (row, k), proposition in zip(chosen, labelled, strict=True):
                    found[batch[row]][k] = proposition
            done += len(batch)
            progress(done)
        return [
            replace(s, propositions=tuple(new)) for s, new in zip(sentences, found, strict=True)
        ]

    def _labelled(
        self,
        reading: Reading,
        given: Sequence[tuple[int, Proposition]],
        decoder: str,
        confidence: bool,
    ) -> list[Proposition]:
        """Propositions of numbered sentences with the spans predicted for their predicates."""
        rows, asked = [row for row, _ in given], [p for _, p in given]
        log_probs, padding = self._log_probs(reading, rows, [p.predicate for p in asked])
        labelled = decode_propositions(asked, log_probs, padding, self.labels, decoder)
        if not confidence:
            return labelled
        return with_confidence(labelled, log_probs, padding, self.labels, decoder, self.temperature)


def _load(path: Path, state: dict[str, Any]) -> tuple[TaggerState, Member, bool]:
    """What a checkpoint says of itself, its network and vocabulary, whether it needs Viterbi."""
    loaded = TaggerState.load(state.get("task_state") or {}, path)
    config = loaded.config
    assert config is not None
    if config.features:
        config = replace(config, features=config.features.near(path.parent))
    tagger = Tagger(config)
    checkpoints.fill(tagger, state, PREFIX, path)
    needs_viterbi = checkpoints.criterion(state) == "bio_crf"
    return loaded, (tagger, loaded.vocabulary), needs_viterbi
