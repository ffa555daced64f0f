"""Words of one or several sentences to a class, a score, or a choice among them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from selfattn.errors import UserError, check_choice, check_integer, check_rate
from selfattn.models import ClassHead, PairHead, RelatednessHead, SelectionHead, SentenceEncoder
from selfattn.models.attention import AttentionContext

from ...words.embeddings import WordTable
from ...words.vocabulary import PADDING
from ..record import Kind


@dataclass(frozen=True)
class SentenceModelConfig:
    """Sizes and switches of a model; the defaults are the published ones.

    Args:
        kind: what is asked of the sentences, a value of ``Kind``.
        words: words with trained vectors.
        classes: of the head: labels, or whole scores; 1 for ``selection``.
        frozen_words: words with fixed vectors.
        embed_dim: width of a word's vector.
        context: a name in ``selfattn.models.CONTEXTS``.
        hidden_size: width of one direction of the context.
        head_hidden_size: width of the head's hidden layer.
        pool: ``"source2token"``, ``"max"`` or ``"mean"``.
        activation: of the context, the pool and the head.
        dropout: on the input of every linear map.
        highway: a highway layer in the head of pairs.
        switches: of the context; see ``selfattn.models.build_context``.

    Raises:
        UserError: if a size is below 1, the kind unknown, or a highway asked for where none is.
    """

    kind: str
    words: int
    classes: int
    frozen_words: int = 0
    embed_dim: int = 300
    context: str = "mtsa"
    hidden_size: int = 300
    head_hidden_size: int = 300
    pool: str = "source2token"
    activation: str = "relu"
    dropout: float = 0.3
    highway: bool = False
    switches: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, list(Kind))
        for name in ("words", "classes", "embed_dim", "hidden_size", "head_hidden_size"):
            check_integer(name, getattr(self, name))
        check_integer("frozen_words", self.frozen_words, 0)
        check_rate("dropout", self.dropout)
        if self.highway and self.kind != "nli":
            raise UserError(
                f"a highway layer belongs to the head of natural language inference, not of "
                f"{self.kind}; leave --highway out"
            )


def pad(examples: Sequence[Sequence[Sequence[int] | np.ndarray]]) -> tuple[Tensor, Tensor]:
    """Put the sentences of examples into one tensor, padded on the right.

    Args:
        examples: row numbers of the words of each sentence of each example.

    Returns:
        The row numbers ``(B, S, T)`` of S sentences at most, of at most T words (1 at least), and
        bool ``(B, S)``, True where an example has no sentence, as with fewer candidates than
        others. A sentence without a word is there, too, as padding alone.
    """
    most = max(map(len, examples))
    longest = max([1, *(len(sentence) for example in examples for sentence in example)])
    words = np.full((len(examples), most, longest), PADDING)
    missing = np.ones((len(examples), most), dtype=bool)
    for row, gap, example in zip(words, missing, examples, strict=True):
        gap[: len(example)] = False
        for place, sentence in zip(row, example, strict=False):
            place[: len(sentence)] = sentence
    return torch.from_numpy(words), torch.from_numpy(missing)


class SentenceModel(nn.Module):
    """A sentence encoder between word vectors and a head (Bi-BloSAN section 4; MTSA section 4).

    Both sentences of a pair, and all candidates, go through one encoder; a question is pooled
    without a context, as in the authors' code.

    Args:
        config: sizes and switches.

    Raises:
        UserError: if the sizes do not fit each other.

    Attributes:
        config: with all switches of the context.

    Example:
        >>> import torch
        >>> config = SentenceModelConfig("classification", words=50, classes=6, embed_dim=20)
        >>> SentenceModel(config)(torch.randint(2, 50, (3, 1, 7))).shape
        torch.Size([3, 6])
    """

    def __init__(self, config: SentenceModelConfig) -> None:
        super().__init__()
        self.table = WordTable(config.words, config.embed_dim, config.frozen_words)
        self.encoder = SentenceEncoder(
            config.embed_dim,
            context=config.context,
            hidden_size=config.hidden_size,
            pool=config.pool,
            activation=config.activation,
            dropout=config.dropout,
            **_own(config),
        )
        self.config = replace(config, switches=_resolved(config, self.encoder.context))
        self.question: SentenceEncoder | None = None
        if config.kind == Kind.SELECTION:
            self.question = SentenceEncoder(
                config.embed_dim,
                context="none",
                input_map=False,
                activation=config.activation,
                dropout=config.dropout,
            )
        self.head = _head(config, self.encoder.out_dim)

    def encode(self, words: Tensor, encoder: SentenceEncoder | None = None) -> Tensor:
        """Row numbers of words ``(B, S, T)`` -> vectors of sentences ``(B, S, w)``."""
        rows = words.flatten(0, 1)
        vectors: Tensor = (encoder or self.encoder)(self.table(rows), rows == PADDING)
        return vectors.unflatten(0, words.shape[:2])

    def forward(self, words: Tensor, missing: Tensor | None = None) -> Tensor:
        """Logits of classes, of whole scores, or of candidates.

        Args:
            words: ``(B, S, T)`` row numbers of a ``Vocabulary`` with padding anywhere, for S
                sentences per example: 1, 2, or a question and its candidates.
            missing: bool ``(B, S)``, True where there is no such candidate.

        Returns:
            ``(B, classes)``, or ``(B, S - 1)`` with minus infinity at missing candidates.
        """
        if self.question is None:
            return self.head(*self.encode(words).unbind(1))
        question = self.encode(words[:, :1], self.question)[:, 0]
        gaps = None if missing is None else missing[:, 1:]
        return self.head(question, self.encode(words[:, 1:]), gaps)


def _own(config: SentenceModelConfig) -> dict[str, Any]:
    """The switches without the activation, which context, pool and head share."""
    return {name: value for name, value in config.switches.items() if name != "activation"}


def _resolved(config: SentenceModelConfig, context: nn.Module) -> dict[str, Any]:
    """All switches of a mechanism, so that a checkpoint does not depend on today's presets."""
    if not isinstance(context, AttentionContext):
        return dict(config.switches)
    found: Any = context.layer.config
    own = {name: value for name, value in config.switches.items() if name != "preset"}
    return own | {name: getattr(found, name) for name in found.switch_names()}  # own: num_heads


def _head(config: SentenceModelConfig, dim: int) -> nn.Module:
    sizes = (dim, config.classes, config.head_hidden_size)
    if config.kind == Kind.NLI:
        return PairHead(*sizes, config.activation, config.dropout, config.highway)
    if config.kind == Kind.RELATEDNESS:
        return RelatednessHead(*sizes, config.activation, config.dropout)
    if config.kind == Kind.CLASSIFICATION:
        return ClassHead(*sizes, config.activation, config.dropout)
    # The lengths of sentences say nothing about how many candidates make a block, and a width of
    # heads that follows from the sentences' hidden size (``_resolved``) is not the head's.
    switches = {name: v for name, v in _own(config).items() if name != "block_length"}
    if switches.get("head_dim") == config.hidden_size:
        del switches["head_dim"]
    if config.context == "multi_cnn":
        switches["per_token"] = True
    return SelectionHead(
        config.embed_dim,
        dim,
        config.head_hidden_size,
        context=config.context,
        activation=config.activation,
        dropout=config.dropout,
        **switches,
    )
