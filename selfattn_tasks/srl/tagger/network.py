"""The tagger of Tan et al. (2018) with any self-attention: words and a predicate to labels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from selfattn.config import AttentionConfig
from selfattn.errors import UserError, check_choice, check_integer, check_rate
from selfattn.layers.dropout import Dropout
from selfattn.masks import check_padding_mask
from selfattn.models.timing import places, sines
from selfattn.ops.common.autograd import is_exporting

from ...words.characters import CharacterCNN, character_input
from ...words.embeddings import look_up
from ...words.initialise import INITIALISERS, initialise
from ...words.vocabulary import PADDING, spread
from .features import Features, FeaturesConfig, Pieces, piece_input
from .sublayer import build_sublayer

_LAYER_NORM_EPS = 1e-6


@dataclass(frozen=True)
class TaggerConfig:
    """Sizes and switches of the tagger; the defaults are the published values.

    Args:
        words: rows of the trained word table, including padding (row 0) and unknown (row 1).
        labels: number of BIO labels.
        attention: configuration of the attention, or of a baseline in its place (``sublayer``),
            including its dropout.
        frozen_words: rows of the table of words that occur only in the file of vectors.
        word_dim: width of a word vector.
        predicate_dim: width of the predicate-indicator embedding; the model's width is the sum.
        layers: number of layers.
        heads: heads of the attention.
        ffn_dim: hidden width of the feed-forward sublayer.
        dropout: on the output of each sublayer.
        activation_dropout: on the hidden layer of the feed-forward sublayer.
        embedding_dropout: on the sum of embedding and timing signal.
        timing: add a sinusoidal timing signal.
        scale_embedding: multiply embeddings by the square root of the width, as published.
        freeze_words: do not train the word table.
        initialiser: one of ``INITIALISERS``.
        features: an encoder whose hidden states stand beside the word vectors; None for none.
        characters: features of a word's characters, beside its vector.
        alphabet: rows of the table of characters; not used without ``characters``.
        late_layers: mark the predicate before the last so many layers instead of in the input, so
            that the layers below read a sentence once for all its predicates; 0: in the input.

    Raises:
        UserError: if a size is below 1, ``late_layers`` not in [0, layers], a dropout outside
            [0, 1) or the initialiser unknown.
    """

    words: int
    labels: int
    attention: AttentionConfig
    frozen_words: int = 0
    word_dim: int = 100
    predicate_dim: int = 100
    layers: int = 10
    heads: int = 8
    ffn_dim: int = 800
    dropout: float = 0.2
    activation_dropout: float = 0.1
    embedding_dropout: float = 0.0
    timing: bool = False
    scale_embedding: bool = True
    freeze_words: bool = False
    initialiser: str = "glorot_normal"
    features: FeaturesConfig | None = None
    characters: int = 0
    alphabet: int = 0
    late_layers: int = 0

    @property
    def width(self) -> int:
        """Width of the model in features."""
        features = self.features.width if self.features else 0
        return self.word_dim + features + self.characters + self.predicate_dim

    def __post_init__(self) -> None:
        sizes = ("words", "labels", "word_dim", "predicate_dim", "layers", "heads", "ffn_dim")
        for name in sizes:
            check_integer(name, getattr(self, name))
        check_integer("late_layers", self.late_layers, 0, self.layers)
        for name in ("dropout", "activation_dropout", "embedding_dropout"):
            check_rate(name, getattr(self, name))
        check_choice("initialiser", self.initialiser, INITIALISERS)


def network_input(
    rows: Sequence[Sequence[int]],
    predicates: Sequence[int],
    *,
    pieces: Sequence[Pieces] = (),
    spellings: Sequence[Sequence[tuple[int, ...]]] = (),
) -> dict[str, Tensor]:
    """Make a batch, padded on the right, with the arguments of :meth:`Tagger.forward`.

    Args:
        rows: the row numbers of each sentence's words.
        predicates: the position of its predicate, counted from 0; ``predicates.UNMARKED`` marks
            no word.
        pieces: of each sentence, for a network with ``features``.
        spellings: of each sentence's words, for a network that reads characters.
    """
    words = torch.tensor(spread(rows, PADDING))
    indicator = indicator_of(predicates, words.shape[1])
    batch = {"words": words, "indicator": indicator, "padding_mask": words == PADDING}
    if pieces:
        batch |= piece_input(pieces)
    if any(spellings):
        batch |= character_input(spellings)
    return batch


def indicator_of(places: Sequence[int], length: int) -> Tensor:
    """The indicator ``(B, length)`` of predicates at ``places``, as for :func:`network_input`."""
    return (torch.arange(length) == torch.tensor(list(places))[:, None]).long()


# Inputs that have a row for each sentence of a batch, beside its words.
_OF_ROWS = ("pieces", "firsts", "places")


def sentences_of(words: Tensor, **more: Tensor | None) -> tuple[Tensor, Tensor]:
    """The different sentences of a batch, and which of them each row has.

    Rows that are equal in all that the network reads of a sentence are one, if they are neighbours.

    Args:
        words: ``(B, T)``, as for :meth:`Tagger.forward`.
        more: its other inputs.

    Returns:
        the first row of each sentence ``(S,)``, and the number of each row's sentence ``(B,)``.
    """
    if is_exporting():  # how many there are depends on the words
        each = torch.arange(words.shape[0], device=words.device)
        return each, each
    read = [more.get(name) for name in (*_OF_ROWS, "padding_mask")]
    rows = torch.cat([words, *(rows.to(words) for rows in read if rows is not None)], 1)
    _, each, counts = rows.unique_consecutive(dim=0, return_inverse=True, return_counts=True)
    return counts.cumsum(0) - counts, each


class TaggerLayer(nn.Module):
    """A feed-forward sublayer, then an attention sublayer, each followed by a layer norm.

    Args:
        config: the tagger's configuration.
    """

    def __init__(self, config: TaggerConfig) -> None:
        super().__init__()
        width = config.width
        self.expand = nn.Linear(width, config.ffn_dim)
        self.contract = nn.Linear(config.ffn_dim, width)
        self.ffn_norm = nn.LayerNorm(width, eps=_LAYER_NORM_EPS)
        self.attention = build_sublayer(config.attention, width, config.heads)
        if self.attention.output_dim != width:
            raise UserError(
                f"the attention {config.attention.name} turns width {width} into "
                f"{self.attention.output_dim}, but a layer must keep its width; turn the output "
                "projection on or change the head width"
            )
        self.attention_norm = nn.LayerNorm(width, eps=_LAYER_NORM_EPS)
        self.dropout = Dropout(config.dropout)
        self.activation_dropout = Dropout(config.activation_dropout)

    def forward(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        """Apply both sublayers.

        Args:
            x: ``(B, T, C)``.
            padding_mask: bool ``(B, T)``, True = padding.

        Returns:
            ``(B, T, C)``.
        """
        hidden = self.activation_dropout(torch.relu(self.expand(x)))
        x = self.ffn_norm(x + self.dropout(self.contract(hidden)))
        attended = self.attention(x, padding_mask)
        return self.attention_norm(x + self.dropout(attended))


class Tagger(nn.Module):
    """Scores of BIO labels for the words of a sentence and one predicate (Tan et al. 2018).

    The embeddings of words and predicate indicator are concatenated, scaled by the square root of
    the width, and passed through post-norm layers whose feed-forward sublayer comes first; a linear
    map gives the scores. With MTSA (Shen et al. 2019, table 4) there is no timing signal, since its
    masks encode the order.

    Args:
        config: sizes and switches.

    Raises:
        UserError: if the sizes do not fit each other.

    Example:
        >>> from selfattn.config import MTSAConfig
        >>> config = TaggerConfig(50, 9, MTSAConfig.make("srl"), layers=2)
        >>> words = torch.randint(2, 50, (3, 7))
        >>> Tagger(config)(words, torch.zeros(3, 7, dtype=torch.long)).shape
        torch.Size([3, 7, 9])
    """

    def __init__(self, config: TaggerConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.words = nn.Embedding(config.words, config.word_dim)
        self.indicator = nn.Embedding(2, config.predicate_dim)
        self.features = Features(config.features) if config.features else None
        if config.characters:
            self.characters = CharacterCNN(config.alphabet, config.characters)
        self.mark = nn.Embedding(2, width) if config.late_layers else None
        self.bias = nn.Parameter(torch.empty(width))
        self.embedding_dropout = Dropout(config.embedding_dropout)
        self.layers = nn.ModuleList(TaggerLayer(config) for _ in range(config.layers))
        self.classifier = nn.Linear(width, config.labels)
        initialise(self, config.initialiser)
        nn.init.normal_(self.words.weight, std=config.word_dim**-0.5)
        self.words.requires_grad_(not config.freeze_words)
        nn.init.normal_(self.indicator.weight, std=config.predicate_dim**-0.5)
        nn.init.normal_(self.bias, std=width**-0.5)
        for parameter in self.classifier.parameters():
            nn.init.normal_(parameter, std=width**-0.5)
        self.frozen: Tensor  # of words that do not occur in training
        self.register_buffer("frozen", torch.zeros(config.frozen_words, config.word_dim))

    def forward(
        self, words: Tensor, indicator: Tensor, padding_mask: Tensor | None = None, **more: Tensor
    ) -> Tensor:
        """Scores before the softmax.

        Args:
            words: ``(B, T)`` row numbers; those from ``config.words`` on index the frozen table.
            indicator: ``(B, T)``, 1 at the predicate and 0 elsewhere.
            padding_mask: bool ``(B, T)``, True = padding.
            more: ``pieces`` and ``firsts``, as for :meth:`Features.forward`, if
                ``config.features``; ``spellings`` and ``places``, as for
                :meth:`CharacterCNN.forward`, if ``config.characters``.

        Returns:
            ``(B, T, labels)``.
        """
        check_padding_mask(padding_mask, words.shape)
        if self.mark is None:
            x = self.below(words, padding_mask, **more)
        else:
            first, sentence = sentences_of(words, padding_mask=padding_mask, **more)
            mask = None if padding_mask is None else padding_mask[first]
            of_rows = {name: more[name][first] for name in _OF_ROWS if name in more}
            x = self.below(words[first], mask, **more | of_rows)[sentence]  # (S, T, C) -> (B, T, C)
        return self.above(x, indicator, padding_mask)

    def below(self, words: Tensor, padding_mask: Tensor | None = None, **more: Tensor) -> Tensor:
        """What the network reads of sentences, whatever their predicates; see :meth:`forward`.

        Returns:
            for :meth:`above`, with ``late_layers`` the output of the layers below these, otherwise
            the embedding without the indicator's part.
        """
        check_padding_mask(padding_mask, words.shape)
        parts = [look_up(words, self.words, self.frozen)]
        if self.features is not None:
            parts.append(self.features(more["pieces"], more["firsts"]).to(parts[0]))
        if self.config.characters:
            parts.append(self.characters(more["spellings"], more["places"]))
        x = torch.cat(parts, -1)
        if self.mark is None:
            return x
        x = self._marked(x, torch.zeros_like(words), padding_mask)
        for layer in self.layers[: -self.config.late_layers]:
            x = layer(x, padding_mask)
        return x

    def above(self, x: Tensor, indicator: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Scores ``(B, T, labels)`` from what :meth:`below` gave of each row's sentence."""
        check_padding_mask(padding_mask, indicator.shape)
        if self.mark is None:
            x = self._marked(x, indicator, padding_mask)
        else:
            x = x + self.mark(indicator)
        for layer in self.layers[-self.config.late_layers :]:  # -0: all
            x = layer(x, padding_mask)
        return self.classifier(x)

    def _marked(self, x: Tensor, indicator: Tensor, padding_mask: Tensor | None) -> Tensor:
        """What the first layer reads ``(B, T, C)``: words, indicator, features, characters."""
        config = self.config
        words, rest = x.split([config.word_dim, x.shape[-1] - config.word_dim], -1)
        x = torch.cat([words, self.indicator(indicator), rest], -1)
        if config.scale_embedding:
            x = x * math.sqrt(config.width)
        if padding_mask is not None:
            x = x.masked_fill(padding_mask[..., None], 0.0)
        x = x + self.bias
        if config.timing:
            x = x + sines(places(x, padding_mask), config.width).to(x)
        return self.embedding_dropout(x)
