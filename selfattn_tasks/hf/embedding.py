"""The encoder of a model of sentences as a module of sentence-transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from selfattn.errors import needed

from ..sentences.model.network import pad
from .sentences import SentencesForSequenceClassification

needed("sentence_transformers", "sentence-transformers")

from sentence_transformers.base.modules import InputModule  # noqa: E402


class SentenceEmbedding(InputModule):  # type: ignore[misc]
    """Texts to vectors, for ``SentenceTransformer(modules=[...])``; it saves, loads and trains.

    What ``SentenceTransformer.save`` wrote is loaded with ``trust_remote_code=True``, which
    sentence-transformers asks for with any module that is not its own.

    Args:
        model: of a folder that ``selfattn export --to hf`` wrote; ``load(FOLDER)`` reads it.
    """

    def __init__(self, model: SentencesForSequenceClassification) -> None:
        super().__init__()
        self.model = model

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        subfolder: str = "",
        cache_folder: str | None = None,
        **others: Any,
    ) -> SentenceEmbedding:
        """See ``Module.load`` of sentence-transformers."""
        known = ("token", "revision", "local_files_only")
        options = {name: others[name] for name in known if name in others}
        options |= {"subfolder": subfolder, "cache_dir": cache_folder}
        options |= others.get("model_kwargs") or {}  # such as dtype
        return cls(
            SentencesForSequenceClassification.from_pretrained(model_name_or_path, **options)
        )

    def save(self, output_path: str, *args: Any, **kwargs: Any) -> None:
        """See ``Module.save`` of sentence-transformers."""
        self.model.save_pretrained(output_path)

    def preprocess(
        self, inputs: Sequence[str], prompt: str | None = None, **unused: Any
    ) -> dict[str, Tensor]:
        """Texts -> numbers of their words ``(B, T)``, 0 at padding."""
        state = self.model.state
        words, _ = pad(
            [[state.vocabulary.encode(state.tokens((prompt or "") + t))] for t in inputs]
        )
        return {"input_ids": words[:, 0]}

    def forward(self, features: dict[str, Any], **unused: Any) -> dict[str, Any]:
        """Add ``sentence_embedding`` ``(B, w)``."""
        vectors = self.model.network.encode(features["input_ids"][:, None])[:, 0]
        return {**features, "sentence_embedding": vectors}

    def get_embedding_dimension(self) -> int:
        """The width w of a vector."""
        return int(self.model.network.encoder.out_dim)
