"""Trained models of sentences at work: one, or several whose probabilities are averaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from selfattn.errors import UserError
from selfattn.models.relatedness_head import expected_score

from ... import checkpoints
from ...batches import batches
from ...devices import find_device
from ...saved import Paths, read_each
from ..predictions import Prediction
from ..record import Example, Kind
from .network import SentenceModel, pad
from .state import PREFIX, SentenceState

# Words of a batch, padding included: enough to keep the cores busy, little enough for their caches.
BATCH_WORDS = {"cpu": 2048}
Progress = Callable[[int], object]


class Predictor:
    """Predicts classes, scores or the right candidates with one model or an ensemble.

    Args:
        members: models, each with its words and labels.
        device: where to compute.

    Raises:
        UserError: if there is no such device, or the members were trained for different tasks or
            labels.

    Attributes:
        state: that of the first member.
    """

    def __init__(
        self,
        members: Sequence[tuple[SentenceModel, SentenceState]],
        device: torch.device | str = "cpu",
    ) -> None:
        self.device = find_device(device)
        self.members = [(model.eval().to(self.device), state) for model, state in members]
        self.state = members[0][1]
        tasks = {(state.kind, state.tokens, state.vocabulary.labels) for _, state in members}
        if len(tasks) > 1:
            raise UserError(
                "the checkpoints were trained with different labels, or their words were split "
                "differently, so that their probabilities cannot be averaged"
            )

    @classmethod
    def load(cls, paths: Paths, device: torch.device | str = "cpu") -> Predictor:
        """Read checkpoints of ``--task sentences``, or folders with them; nothing else is needed.

        Raises:
            UserError: if there is none, a file is missing, broken, or no model of sentences, two
                hold the same weights, or as for the class.
        """
        return cls([_load(*found) for found in read_each(paths)], device)

    def predict(
        self, examples: Sequence[Example], progress: Progress = lambda done: None
    ) -> list[Prediction]:
        """What each example's target is, with probabilities; the targets do not matter.

        Args:
            examples: of the models' kind, in any order.
            progress: called with the number of finished examples after each batch.

        Raises:
            UserError: if an example has another number of sentences than the models take.
        """
        found: dict[int, Prediction] = {}
        for numbers, probabilities in self._batches(examples, self._probabilities, progress):
            for number, row in zip(numbers, probabilities, strict=True):
                # The candidates of other examples have probability 0 behind its own.
                count = len(examples[number].sentences) - 1
                own = row[:count] if self.state.kind is Kind.SELECTION else row
                found[number] = self._prediction(own)
        return [found[number] for number in range(len(examples))]

    def embed(
        self, examples: Sequence[Example], progress: Progress = lambda done: None
    ) -> np.ndarray:
        """The vectors of the examples' sentences, by the first model.

        Args:
            examples: as for ``predict``; a question is encoded as a candidate is.
            progress: as for ``predict``.

        Returns:
            float32 ``(N, w)`` of single sentences, else ``(N, S, w)``, 0 behind an example's last
            sentence.

        Raises:
            UserError: as for ``predict``.
        """
        model = self.members[0][0]
        most = max((len(example.sentences) for example in examples), default=1)
        vectors = np.zeros((len(examples), most, model.encoder.out_dim), np.float32)

        def encode(batch: Sequence[Example]) -> Tensor:
            words, missing = self._words(batch, self.state)
            return model.encode(words).masked_fill(missing[..., None], 0.0)

        for numbers, encoded in self._batches(examples, encode, progress):
            vectors[numbers, : encoded.shape[1]] = encoded.float().cpu()
        return vectors[:, 0] if self.state.kind is Kind.CLASSIFICATION else vectors

    @torch.inference_mode()
    def _batches(
        self,
        examples: Sequence[Example],
        compute: Callable[[Sequence[Example]], Tensor],
        progress: Progress,
    ) -> Iterable[tuple[list[int], Tensor]]:
        """Numbers of the examples of each batch, and what is computed of it."""
        self._check(examples)
        sizes = [len(e.sentences) * max(1, *map(len, e.sentences)) for e in examples]
        done = 0
        for numbers in batches(sizes, BATCH_WORDS.get(self.device.type, 8192)):
            yield numbers, compute([examples[number] for number in numbers])
            done += len(numbers)
            progress(done)

    def _check(self, examples: Sequence[Example]) -> None:
        kind = self.state.kind
        for number, example in enumerate(examples, start=1):
            count = len(example.sentences)
            if not kind.accepts(count):
                raise UserError(
                    f"example {number} has {count} sentence{'s' * (count != 1)}, but a model "
                    f"of the task {kind} takes {kind.takes}"
                )

    def _words(self, batch: Sequence[Example], state: SentenceState) -> tuple[Tensor, Tensor]:
        encode = state.vocabulary.encode
        words, missing = pad([[encode(words) for words in e.sentences] for e in batch])
        return words.to(self.device), missing.to(self.device)

    def _probabilities(self, batch: Sequence[Example]) -> Tensor:
        """``(B, classes)`` or ``(B, candidates)``, averaged over the members."""
        each = [
            # On the CPU: Apple's GPUs have no float64.
            torch.softmax(model(*self._words(batch, state)).cpu().double(), -1)
            for model, state in self.members
        ]
        return torch.stack(each).mean(0)

    def _prediction(self, probabilities: Tensor) -> Prediction:
        kind, best = self.state.kind, int(probabilities.argmax())
        guess: str | float | int = best
        if kind is Kind.RELATEDNESS:
            guess = float(expected_score(probabilities[None]))
        elif kind.target == "class":
            guess = self.state.vocabulary.labels[best]
        return Prediction(guess, tuple(probabilities.tolist()))


def _load(path: Path, stored: dict[str, Any]) -> tuple[SentenceModel, SentenceState]:
    state = SentenceState.load(stored.get("task_state") or {}, path)
    assert state.config is not None
    model = SentenceModel(state.config)
    checkpoints.fill(model, stored, PREFIX, path)
    return model, state
