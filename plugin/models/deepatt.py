"""``--arch deepatt``: the SRL tagger of Tan et al. (2018) with a choice of self-attention."""

from __future__ import annotations

import argparse
from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from fairseq.models import BaseFairseqModel, register_model, register_model_architecture
from torch import Tensor

from selfattn.config import CONFIGS, AttentionConfig
from selfattn.errors import UserError, check_integer
from selfattn_tasks.srl.tagger.features import FeaturesConfig
from selfattn_tasks.srl.tagger.network import Tagger, TaggerConfig
from selfattn_tasks.srl.tagger.sublayer import BASELINES
from selfattn_tasks.words.embeddings import WordVectors, vector_width
from selfattn_tasks.words.initialise import INITIALISERS
from selfattn_tasks.words.vocabulary import FIRST_WORD, Vocabulary

from ..args import (
    BASELINE,
    add_attention_args,
    attention_config,
    check_heads,
    choose_presets,
    given_switches,
    mechanisms,
    set_defaults,
)
from ..block_length import resolve_block_length

_PREDICATE_DIM = 100
_WIDTH = 200
_WORD_DIM = 100


@register_model("deepatt")
class DeepAttModel(BaseFairseqModel):
    """fairseq's side of :class:`selfattn_tasks.srl.tagger.network.Tagger`.

    ``--encoder-attention`` names the attention: ``multihead`` is the model of Tan et al. (2018),
    ``mtsa`` the one of table 4 of Shen et al. (2019), ``bilstm`` and ``cnn`` that table's other
    baselines, any other that model with another mechanism.
    """

    # By which --task srl_tagging recognises its architectures.
    is_tagger = True

    def __init__(self, tagger: Tagger) -> None:
        super().__init__()
        self.tagger = tagger

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        """Add the flags of sizes and attentions to ``parser``."""
        sizes = {
            "--encoder-layers": "layers (default: 10)",
            "--encoder-embed-dim": "width of the model, that is, of word vector and predicate "
            "indicator together (default: 200, or the width of the vectors plus at least 100)",
            "--encoder-ffn-embed-dim": "hidden width of the feed-forward sublayers (default: 4 x "
            "the width)",
            "--encoder-attention-heads": "heads (default: 8)",
            "--late-layers": "mark the predicate before the last N layers, not in the input: the "
            "layers below read a sentence once for all its predicates (default: 0, in the input)",
            "--word-embed-dim": "width of a word vector (default: that of --word-embeddings, or "
            "100)",
            "--characters": "features of a word's characters, found by a convolution and put "
            "beside its vector; they take room from the predicate's indicator (default: 0, none)",
        }
        for flag, text in sizes.items():
            parser.add_argument(flag, type=int, metavar="N", help=text)
        dropouts = {
            "--dropout": "on the output of each sublayer (default: 0.2)",
            "--attention-dropout": "on attention weights (default: 0.1 with multihead, else 0.19, "
            "which is 0.1 on each of two factors); on the input of bilstm and cnn (default: 0.1)",
            "--activation-dropout": "inside the feed-forward sublayers (default: 0.1)",
            "--embedding-dropout": "on the embeddings (default: that of --dropout with multihead, "
            "else 0)",
        }
        for flag, text in dropouts.items():
            parser.add_argument(flag, type=float, metavar="P", help=text)
        parser.add_argument(
            "--word-embeddings",
            metavar="FILE",
            help="word vectors to start from, in GloVe's text format, plain or gzipped; those of "
            "words that do not occur in training are stored unchanged",
        )
        parser.add_argument(
            "--features",
            metavar="FOLDER",
            help="a Hugging Face encoder with its tokenizer, as `save_pretrained` writes it: "
            "its last hidden state at each word's first piece stands beside the word's vector",
        )
        switches = {
            "--tune-features": "train the encoder of --features, too; checkpoints then hold it, "
            "else only its folder's name",
            "--no-scale-embedding": "do not multiply embeddings by the square root of the width "
            "(the published models do, which makes the timing signal small in comparison)",
            "--encoder-freeze-embed": "do not train the word vectors of --word-embeddings (the "
            "published models do, but with little training data the vectors of all other words "
            "then no longer match)",
        }
        for flag, text in switches.items():
            parser.add_argument(flag, action="store_true", help=text)
        parser.add_argument(
            "--timing-signal",
            action=argparse.BooleanOptionalAction,
            help="add sinusoids of the position (default: with multihead only)",
        )
        parser.add_argument(
            "--initialiser",
            choices=INITIALISERS,
            help="initialiser of matrices and biases: glorot_normal (MTSA's code), orthogonal (Tan "
            "et al.), or layer, each layer's own (default: orthogonal with multihead, else "
            "glorot_normal)",
        )
        add_attention_args(parser, BASELINES)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> DeepAttModel:
        """Build the model.

        Raises:
            UserError: if the flags contradict each other, or the task is another one.
        """
        vocabulary = getattr(task, "vocabulary", None)
        if not isinstance(vocabulary, Vocabulary):
            raise UserError(
                f"--arch {getattr(args, 'arch', 'deepatt')} needs --task srl_tagging, not "
                f"{type(task).__name__}"
            )
        vectors: WordVectors | None = getattr(task, "vectors", None)
        features = _features(args)
        indicator = _resolve_sizes(args, vectors, features.width if features else 0)
        resolve_block_length(args, task)
        tagger = Tagger(
            TaggerConfig(
                words=vocabulary.trained_rows,
                labels=len(vocabulary.labels),
                attention=_attention(args),
                frozen_words=len(vocabulary.frozen),
                word_dim=args.word_embed_dim,
                predicate_dim=indicator,
                characters=args.characters,
                alphabet=vocabulary.character_rows,
                layers=args.encoder_layers,
                heads=args.encoder_attention_heads,
                ffn_dim=args.encoder_ffn_embed_dim,
                dropout=args.dropout,
                activation_dropout=args.activation_dropout,
                embedding_dropout=args.embedding_dropout,
                timing=args.timing_signal,
                scale_embedding=not args.no_scale_embedding,
                freeze_words=args.encoder_freeze_embed,
                initialiser=args.initialiser,
                features=features,
                late_layers=args.late_layers,
            )
        )
        if vectors is not None:
            start_from(tagger, vocabulary, vectors)
        if tagger.features is not None:
            tagger.features.start()
        return cls(tagger)

    def forward(
        self, words: Tensor, indicator: Tensor, padding_mask: Tensor, **more: Tensor
    ) -> Tensor:
        """Compute scores ``(B, T, labels)`` as :meth:`Tagger.forward` does."""
        return self.tagger(words, indicator, padding_mask, **more)


def _features(args: Namespace) -> FeaturesConfig | None:
    folder, tuned = getattr(args, "features", None), getattr(args, "tune_features", False)
    if tuned and not folder:
        raise UserError("--tune-features needs --features FOLDER")
    return FeaturesConfig.read(folder, tuned=tuned) if folder else None


@torch.no_grad()
def start_from(tagger: Tagger, vocabulary: Vocabulary, vectors: WordVectors) -> None:
    """Start the trained table from vectors; words without one start close to 0.

    The published code draws the latter from U(-s, s), s = 3 / max(1, (words + width) / 2).
    """
    table = tagger.words.weight
    bound = 3 / max(1.0, sum(table.shape) / 2)
    torch.nn.init.uniform_(table, -bound, bound)
    vectors.fill(vocabulary, table[FIRST_WORD:], tagger.frozen)


def _attention(args: Namespace) -> AttentionConfig:
    name = args.encoder_attention
    if name in BASELINES:
        given_switches(args, name, "--encoder-attention")  # refuses those of mechanisms
        return BASELINES[name].make(attention_dropout=float(args.attention_dropout))
    return attention_config(args) or CONFIGS[BASELINE].make(
        attention_dropout=float(args.attention_dropout)
    )


def _resolve_sizes(args: Namespace, vectors: WordVectors | None, features: int) -> int:
    """Fill in the sizes that follow from the widths of the vectors and of ``features``.

    Returns:
        The width that is left for the predicate's indicator.

    Raises:
        UserError: if a size contradicts the vectors, or the width does not hold them.
    """
    given = getattr(args, "word_embed_dim", None)
    path = getattr(args, "word_embeddings", None)
    found = vectors.width if vectors is not None else None
    if found is None and given is None and path:
        found = vector_width(Path(path))
    if found is not None and given not in (None, found):
        raise UserError(
            f"--word-embed-dim {given} is not the width {found} of --word-embeddings {path}; leave "
            "it out"
        )
    heads = args.encoder_attention_heads
    args.word_embed_dim = (
        (found or _WORD_DIM) if given is None else check_integer("--word-embed-dim", given)
    )
    width = args.word_embed_dim + features
    if getattr(args, "encoder_embed_dim", None) is None:
        enough = -(-(width + _PREDICATE_DIM) // max(heads, 1)) * heads
        args.encoder_embed_dim = _WIDTH if width + _PREDICATE_DIM <= _WIDTH else enough
    check_integer("--characters", args.characters, 0)
    layers = check_integer("--encoder-layers", args.encoder_layers)
    check_integer("--late-layers", args.late_layers, 0, layers)
    taken = width + args.characters
    if args.encoder_embed_dim <= taken:
        raise UserError(
            f"--encoder-embed-dim {args.encoder_embed_dim} leaves no room for the predicate's "
            f"indicator beside {taken} features of words, characters and --features; it must be "
            f"above {taken}"
        )
    check_heads(args.encoder_embed_dim, heads)
    if getattr(args, "encoder_ffn_embed_dim", None) is None:
        args.encoder_ffn_embed_dim = 4 * args.encoder_embed_dim
    check_integer("--encoder-ffn-embed-dim", args.encoder_ffn_embed_dim)
    return args.encoder_embed_dim - taken


@register_model_architecture("deepatt", "deepatt")
def deepatt(args: Namespace) -> None:
    """Fill in the published sizes, with multi-head attention unless ``args`` name another."""
    set_defaults(args, encoder_attention=BASELINE, dropout=0.2)
    baseline = args.encoder_attention == BASELINE
    choose_presets(args, "srl")
    set_defaults(
        args,
        encoder_layers=10,
        encoder_attention_heads=8,
        late_layers=0,
        characters=0,
        # Kept on each of the two factors of all other attentions: 0.9.
        attention_dropout=0.1 if baseline or args.encoder_attention in BASELINES else 0.19,
        activation_dropout=0.1,
        # Both go together in the published codes: MTSA's drops the timing signal and this dropout.
        timing_signal=baseline,
        embedding_dropout=args.dropout if baseline else 0.0,
        no_scale_embedding=False,
        encoder_freeze_embed=False,
        initialiser="orthogonal" if baseline else "glorot_normal",
    )
    _attention(args)


@register_model_architecture("deepatt", "deepatt_tiny")
def deepatt_tiny(args: Namespace) -> None:
    """Fill in sizes for tests: two layers, 32 wide, unless ``args`` name others."""
    small = {"encoder_layers": 2, "encoder_attention_heads": 2, "encoder_embed_dim": 32}
    set_defaults(args, **small, word_embed_dim=16)
    deepatt(args)


def _with_attention(mechanism: str, args: Namespace) -> None:
    """The MTSA paper's SRL model (table 4) with ``mechanism``, unless a flag names another."""
    set_defaults(args, encoder_attention=mechanism)
    deepatt(args)


for _mechanism in (*mechanisms(), *BASELINES):
    _register = register_model_architecture("deepatt", f"deepatt_{_mechanism}")
    _register(partial(_with_attention, _mechanism))
