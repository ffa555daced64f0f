"""What a checkpoint must hold so that the tagger needs nothing else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from selfattn.errors import UserError

from ...words.vocabulary import Vocabulary
from .features import FeaturesConfig
from .network import TaggerConfig
from .predicates import check_labels
from .sublayer import SUBLAYERS

# The entry of the checkpoint's ``task_state``, and the prefix of the weights' names.
KEY = "srl_tagging"
PREFIX = "tagger."


@dataclass(frozen=True)
class TaggerState:
    """Vocabulary and configuration of a trained tagger.

    Args:
        vocabulary: words and labels.
        config: sizes and switches; None while there is no model yet.
        target: what it is trained for, one of ``predicates.TARGETS``.
        temperature: for the confidences of spans, see ``.confidence``.
    """

    vocabulary: Vocabulary
    config: TaggerConfig | None = None
    target: str = "arguments"
    temperature: float = 1.0

    def dump(self) -> dict[str, Any]:
        """As plain values, for a checkpoint."""
        state: dict[str, Any] = {"vocabulary": self.vocabulary.state()}
        if self.config is not None:
            config = asdict(self.config)
            config["attention"] = {"name": self.config.attention.name, **config["attention"]}
            state["config"] = config
        if self.target != "arguments":
            state["target"] = self.target
        if self.temperature != 1:
            state["temperature"] = self.temperature
        return state

    @classmethod
    def load(cls, task_state: Mapping[str, Any], path: object) -> TaggerState:
        """Read what :meth:`dump` gave from the ``task_state`` of the checkpoint ``path``.

        Raises:
            UserError: if it is not a tagger's, contradicts itself, or was written by another
                version of this project.
        """
        state = task_state.get(KEY)
        if not isinstance(state, Mapping) or "config" not in state:
            raise UserError(f"{path} is not a tagger: it was not trained with --task srl_tagging")
        try:
            values = dict(state["config"])
            attention = dict(values.pop("attention"))
            features = values.pop("features", None)
            name = attention.pop("name")
            vocabulary = Vocabulary.from_state(state["vocabulary"])
            values["features"] = FeaturesConfig(**features) if features else None
            config = TaggerConfig(**values, attention=SUBLAYERS[name](**attention))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"{path} was written by another version of this project: {error}"
            ) from None
        found = (vocabulary.trained_rows, len(vocabulary.frozen), len(vocabulary.labels))
        if found != (config.words, config.frozen_words, config.labels):
            raise UserError(f"{path} contradicts itself: its model has other sizes than its words")
        # Checkpoints from before there was a choice have no target.
        target = state.get("target", "arguments")
        check_labels(vocabulary.labels, target, path)
        temperature = state.get("temperature", 1.0)
        if not isinstance(temperature, float) or not 0 < temperature < math.inf:
            raise UserError(f"{path} has a temperature of {temperature!r:.40}; it must be above 0")
        return cls(vocabulary, config, target, temperature)


def keep_vectors(checkpoint: dict[str, Any], most: int, path: object) -> None:
    """Leave the first ``most`` words that training lacks, with their vectors, in a checkpoint.

    Raises:
        UserError: if it is not a tagger's.
    """
    state = TaggerState.load(checkpoint.get("task_state") or {}, path)
    vocabulary = state.vocabulary.with_frozen(state.vocabulary.frozen, most)
    assert state.config is not None
    config = replace(state.config, frozen_words=len(vocabulary.frozen))
    checkpoint["task_state"][KEY] = replace(state, vocabulary=vocabulary, config=config).dump()
    weights = checkpoint["model"]
    # A copy, since a file holds all of what a slice is part of.
    weights[f"{PREFIX}frozen"] = weights[f"{PREFIX}frozen"][:most].clone()


def set_temperature(checkpoint: dict[str, Any], temperature: float, path: object) -> None:
    """Let the checkpoint of a tagger divide its scores by this for the confidences of spans.

    Raises:
        UserError: if it is not a tagger's.
    """
    state = TaggerState.load(checkpoint.get("task_state") or {}, path)
    checkpoint["task_state"][KEY] = replace(state, temperature=temperature).dump()
