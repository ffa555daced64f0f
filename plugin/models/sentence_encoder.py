"""``--arch sentence_encoder``: the papers' encoders of sentences, for ``--task sentences``."""

from __future__ import annotations

import argparse
import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from typing import Any

from fairseq.models import BaseFairseqModel, register_model, register_model_architecture
from torch import Tensor

from selfattn.config import CONFIGS
from selfattn.config.base import ACTIVATIONS
from selfattn.errors import UserError
from selfattn.models import CONTEXTS
from selfattn.models.pool import POOLS
from selfattn_tasks.sentences.model.network import SentenceModel, SentenceModelConfig
from selfattn_tasks.sentences.model.state import KEY, SentenceState, classes
from selfattn_tasks.sentences.record import Kind
from selfattn_tasks.words.embeddings import WordVectors

from ..args import add_switches, given_switches, mechanisms, set_defaults, store_switches
from ..block_length import resolve_block_length
from ..compat import warm_start

logger = logging.getLogger(__name__)
_EMBED_DIM = 300
# The weights of words, which another model has in another order.
TRAINED, FROZEN = "network.table.trained.weight", "network.table.frozen"
# The words of a language model, which its checkpoint does not know otherwise.
SYMBOLS = "symbols._extra_state"
_NUMBERS = {
    "--hidden-size": "width of one direction of the context (default: 300, with biblosa 240, as "
    "published for SNLI)",
    "--embed-dim": "width of a word vector (default: that of the vectors, or 300)",
    "--dropout": "on the input of every linear map (default: 0.3)",
    "--attention-dropout": "on attention weights, of the mechanisms of this project (default: 0)",
}
_NAMES = {
    "--context": (
        tuple(CONTEXTS),
        "what gives each token its context: a mechanism of this project, or what the papers "
        "compare it with (default: the architecture's, or mtsa)",
    ),
    "--activation-fn": (
        ACTIVATIONS,
        "of context, pool and head (default, as published: elu for inference with mtsa, "
        "fast_disa, disa, biblosa or resa, else relu)",
    ),
}


@register_model("sentence_encoder")
class SentenceEncoderModel(BaseFairseqModel):
    """fairseq's side of :class:`selfattn_tasks.sentences.model.network.SentenceModel`."""

    # What --task sentences asks of an architecture's class.
    encodes_sentences = True
    # What plugin/compat/warm_start.py asks: load_state_dict calls its fit_names.
    starts_from_other_attentions = True

    def __init__(self, network: SentenceModel, words: Sequence[str] = ()) -> None:
        super().__init__()
        self.network = network
        self.words = words

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        """Add the flags of context, pool and head, and ``--word-embeddings``."""
        add_context_args(parser)
        parser.add_argument(
            "--pool", choices=POOLS, help="from tokens to the sentence (default: source2token)"
        )
        parser.add_argument(
            "--head-hidden-size",
            type=int,
            metavar="N",
            help="width of the head's hidden layer (default: 300, for selection 100)",
        )
        parser.add_argument(
            "--highway",
            action=argparse.BooleanOptionalAction,
            help="a highway layer in the head of inference, as in the code of MTSA and ReSAN "
            "(default: none)",
        )
        parser.add_argument(
            "--word-embeddings",
            metavar="FILE",
            help="word vectors to start from, in GloVe's text format, plain or gzipped; a "
            "checkpoint holds those of all its words (default: the folder's vectors.npz, of the "
            "folder's words)",
        )

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> SentenceEncoderModel:
        """Build the model for a task with words.

        Raises:
            UserError: if the flags do not fit each other, or the task is another one.
        """
        state = getattr(task, "network_state", None)
        if not isinstance(state, SentenceState):
            raise UserError(
                f"--arch {getattr(args, 'arch', 'sentence_encoder')} needs --task sentences, not "
                f"{type(task).__name__}"
            )
        vectors: WordVectors | None = task.vectors
        _resolve_sizes(args, state.kind, vectors)
        network = SentenceModel(
            SentenceModelConfig(
                kind=str(state.kind),
                words=len(state.vocabulary.words),
                classes=classes(state.kind, state.vocabulary.labels),
                frozen_words=len(state.vocabulary.frozen),
                embed_dim=args.embed_dim,
                context=args.context,
                hidden_size=args.hidden_size,
                head_hidden_size=args.head_hidden_size,
                pool=args.pool,
                activation=args.activation_fn,
                dropout=args.dropout,
                highway=args.highway,
                switches=context_switches(args, task),
            )
        )
        if vectors is not None:
            table = network.table
            vectors.fill(state.vocabulary, table.trained.weight, table.frozen)
        if args.context in mechanisms():
            store_switches(args, CONFIGS[args.context].make(**network.config.switches))
        return cls(network, state.vocabulary.words)

    def forward(self, words: Tensor, missing: Tensor | None = None) -> Tensor:
        """Logits; see :meth:`SentenceModel.forward`."""
        return self.network(words, missing)

    def load_state_dict(self, state_dict: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """fairseq's hook; ``--finetune-from-model`` may name a model of another task."""
        if warm_start.is_starting():
            state_dict = self._with_own_words(state_dict)
        return super().load_state_dict(warm_start.fit_names(self, state_dict), *args, **kwargs)

    def _with_own_words(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """The weights of another model, its word vectors in the order of this one's words.

        Without vectors of these words there is no table among them: the new one then counts as new.
        """
        own = self.network.table.trained.weight.detach().clone()
        stored, rows = stored_words(state, warm_start.task_state())
        others = {k: v for k, v in state.items() if k not in (FROZEN, TRAINED)}
        known = [(n, rows[word]) for n, word in enumerate(self.words) if word in rows]
        if known and stored is not None and stored.shape == (len(rows), own.shape[1]):
            here, there = map(list, zip(*known, strict=True))
            own[here] = stored[there].to(own)
            logger.info("%d of %d words start from its vectors", len(known), len(self.words))
            others[TRAINED] = own
        return others


def add_context_args(parser: ArgumentParser) -> None:
    """Add the flags of the context to ``parser``: sizes, and the switches of the mechanisms."""
    for flag, text in _NUMBERS.items():
        kind = float if flag.endswith("dropout") else int
        metavar = "P" if kind is float else "N"
        parser.add_argument(flag, type=kind, metavar=metavar, help=text)
    for flag, (choices, text) in _NAMES.items():
        parser.add_argument(flag, choices=choices, help=text)
    add_switches(parser)


def stored_words(
    weights: Mapping[str, Any], task_state: Mapping[str, Any]
) -> tuple[Tensor | None, dict[str, int]]:
    """The word vectors of a checkpoint, and the row of each word."""
    words: Sequence[str] = task_state.get(KEY, {}).get("vocabulary", {}).get("words", ())
    if SYMBOLS in weights:
        words = bytes(weights[SYMBOLS].tolist()).decode("utf-8", "replace").split("\n")
    return weights.get(TRAINED), {word: row for row, word in enumerate(words)}


def context_switches(args: Namespace, task: Any) -> dict[str, Any]:
    """The switches of the context that are given, an automatic block length as a number."""
    name = args.context
    switches = given_switches(args, name, "--context")
    if switches.get("activation", args.activation_fn) != args.activation_fn:
        raise UserError(
            f"--{name}-activation {switches['activation']} contradicts --activation-fn "
            f"{args.activation_fn}: context, pool and head of a sentence encoder share one; give "
            "--activation-fn alone"
        )
    preset = getattr(args, f"{name}_preset", None)
    if name == "biblosa":
        store_switches(args, CONFIGS[name].make(preset or "code", **switches))
        resolve_block_length(args, task, name)
        switches["block_length"] = args.biblosa_block_length
    if preset is not None:
        switches["preset"] = preset
    if getattr(args, "attention_dropout", None) is not None:
        switches["attention_dropout"] = args.attention_dropout
    return switches


def _resolve_sizes(args: Namespace, kind: Kind, vectors: WordVectors | None) -> None:
    """Fill in what follows from the task and the vectors.

    Raises:
        UserError: if a width contradicts the vectors.
    """
    given = getattr(args, "embed_dim", None)
    if vectors is not None and given not in (None, vectors.width):
        raise UserError(
            f"--embed-dim {given} is not the width {vectors.width} of the word vectors; leave it "
            "out, or prepare the folder without --vectors"
        )
    if given is None:
        args.embed_dim = vectors.width if vectors is not None else _EMBED_DIM
    published = kind is Kind.NLI and args.context in mechanisms()
    size = 100 if kind is Kind.SELECTION else 300
    set_defaults(args, head_hidden_size=size, activation_fn="elu" if published else "relu")


@register_model_architecture("sentence_encoder", "sentence_encoder")
def sentence_encoder(args: Namespace) -> None:
    """The sizes published for SNLI, with ``--context mtsa`` unless a flag names another."""
    set_defaults(args, context="mtsa", pool="source2token", dropout=0.3, highway=False)
    set_defaults(args, hidden_size=240 if args.context == "biblosa" else 300)


def _register(name: str, **defaults: Any) -> None:
    """Register the sizes above with another context or size, which flags may still change."""

    @register_model_architecture("sentence_encoder", f"sentence_encoder{name}")
    def architecture(args: Namespace) -> None:
        set_defaults(args, **defaults)
        sentence_encoder(args)


_TINY = {"hidden_size": 8, "head_hidden_size": 8}
_register("_tiny", **_TINY)
for _context in CONTEXTS:
    _register(f"_{_context}", context=_context)
    _register(f"_{_context}_tiny", context=_context, **_TINY)
