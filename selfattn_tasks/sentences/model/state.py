"""What a checkpoint must hold so that a sentence model can be used from it alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from selfattn.errors import UserError

from ...words.vocabulary import Vocabulary
from ..record import SCORES, Kind
from ..tokens import Tokens
from .network import SentenceModelConfig

# The entry of the checkpoint's ``task_state``, and the prefix of the weights' names.
KEY = "sentences"
PREFIX = "network."


@dataclass(frozen=True)
class SentenceState:
    """Words, labels, the way to words and the sizes of a trained model.

    Args:
        vocabulary: words and labels.
        meta: what the prepared folder says about itself.
        config: sizes and switches; None while there is no model yet.
    """

    vocabulary: Vocabulary
    meta: Mapping[str, Any]
    config: SentenceModelConfig | None = None

    @property
    def kind(self) -> Kind:
        """What is asked of the sentences."""
        return Kind(self.meta["kind"])

    @property
    def tokens(self) -> Tokens:
        """How texts become words."""
        return Tokens(**self.meta["tokens"])

    def dump(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        state = {"vocabulary": self.vocabulary.state(), "meta": dict(self.meta)}
        if self.config is not None:
            state["config"] = asdict(self.config)
        return state

    @classmethod
    def load(cls, task_state: Mapping[str, Any], path: object) -> SentenceState:
        """Read a checkpoint's ``task_state``.

        Raises:
            UserError: if it is not that of a sentence model, contradicts itself, or is of a newer
                version of this project.
        """
        stored = task_state.get(KEY)
        if not isinstance(stored, Mapping) or "config" not in stored:
            raise UserError(f"{path} is no model of sentences: it was trained with another --task")
        try:
            config = SentenceModelConfig(**stored["config"])
            state = cls(Vocabulary.from_state(stored["vocabulary"]), dict(stored["meta"]), config)
            sound = state._fits()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"{path} was written by another version of this project: {error}"
            ) from None
        if not sound:
            raise UserError(f"{path} contradicts itself: its model has other sizes than its words")
        return state

    def _fits(self) -> bool:
        """Whether the model has a row for each word, and a class for each label."""
        assert self.config is not None
        config, vocabulary = self.config, self.vocabulary
        self.tokens("a")  # a rule that works
        return (config.kind, config.words, config.frozen_words, config.classes) == (
            self.kind,
            len(vocabulary.words),
            len(vocabulary.frozen),
            classes(self.kind, vocabulary.labels),
        )


def classes(kind: Kind, labels: Sequence[str]) -> int:
    """How many classes a model's head has."""
    if kind is Kind.RELATEDNESS:
        return len(SCORES)
    return len(labels) if kind.target == "class" else 1
