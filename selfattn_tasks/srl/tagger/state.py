"""What a checkpoint must hold so that the tagger can be used from it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from selfattn.config import CONFIGS
from selfattn.errors import UserError

from ...words.vocabulary import Vocabulary
from .network import TaggerConfig

# The entry of the checkpoint's ``task_state``, and the prefix of the weights' names.
KEY = "srl_tagging"
PREFIX = "tagger."


@dataclass(frozen=True)
class TaggerState:
    """Vocabulary and configuration of a trained tagger.

    Args:
        vocabulary: words and labels.
        config: sizes and switches; None while there is no model yet.
    """

    vocabulary: Vocabulary
    config: TaggerConfig | None = None

    def dump(self) -> dict[str, Any]:
        """Plain values, for a checkpoint."""
        state: dict[str, Any] = {"vocabulary": self.vocabulary.state()}
        if self.config is not None:
            values = {f.name: getattr(self.config, f.name) for f in fields(self.config)}
            attention = {"name": self.config.attention.name, **asdict(self.config.attention)}
            state["config"] = {**values, "attention": attention}
        return state

    @classmethod
    def load(cls, task_state: Mapping[str, Any], path: object) -> TaggerState:
        """Read a checkpoint's ``task_state``.

        Raises:
            UserError: if it is not that of a tagger, or of a newer version of this project.
        """
        state = task_state.get(KEY)
        if not state or "config" not in state:
            raise UserError(f"{path} is no tagger: its training had another task than srl_tagging")
        values = dict(state["config"])
        attention = dict(values.pop("attention"))
        name = attention.pop("name")
        try:
            config = TaggerConfig(**values, attention=CONFIGS[name](**attention))
        except (KeyError, TypeError) as error:
            raise UserError(
                f"{path} was written by another version of this project: {error}"
            ) from None
        return cls(Vocabulary.from_state(state["vocabulary"]), config)
