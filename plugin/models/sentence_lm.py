"""``--arch sentence_lm``: the context of a sentence encoder, trained by ``--task masked_lm``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import Any

import torch
from fairseq.models import BaseFairseqModel, register_model, register_model_architecture
from torch import Tensor, nn

from selfattn.errors import UserError
from selfattn.layers.base import activation, xavier_linear
from selfattn.models import SentenceEncoder
from selfattn_tasks.words.embeddings import WordTable
from selfattn_tasks.words.vocabulary import FIRST_WORD

from ..args import mechanisms, set_defaults, store_switches
from .sentence_encoder import add_context_args, context_switches, sentence_encoder


class _Symbols(nn.Module):
    """Words as a part of the weights' file: fairseq's checkpoints do not hold dictionaries."""

    def __init__(self, symbols: Sequence[str]) -> None:
        super().__init__()
        self.symbols = "\n".join(symbols)

    def get_extra_state(self) -> Tensor:
        return torch.frombuffer(bytearray(self.symbols.encode("utf-8")), dtype=torch.uint8)

    def set_extra_state(self, state: Tensor) -> None:
        """Nothing: the dictionary of the data is compared with the checkpoint's by its hash."""


class _Trunk(nn.Module):
    """What a sentence encoder takes over, under the names that it has there."""

    def __init__(self, table: WordTable, encoder: SentenceEncoder) -> None:
        super().__init__()
        self.table, self.encoder = table, encoder
        encoder.pool = None


@register_model("sentence_lm")
class SentenceLanguageModel(BaseFairseqModel):
    """Word vectors and the context of a sentence encoder, and the words that they make probable.

    Its weights have the names of ``sentence_encoder``'s, which takes them over with
    ``--finetune-from-model``. The scores of words are products with their vectors (Press and Wolf
    2017) of ``act(W h + b)``, where h is a token's context.
    """

    def __init__(
        self,
        encoder: SentenceEncoder,
        symbols: Sequence[str],
        padding_index: int,
        activation_name: str,
    ) -> None:
        super().__init__()
        width = encoder.context.embed_dim
        self.network = _Trunk(WordTable(len(symbols), width), encoder)
        self.symbols, self.padding = _Symbols(symbols), padding_index
        self.map = nn.Sequential(xavier_linear(encoder.out_dim, width), activation(activation_name))
        self.bias = nn.Parameter(torch.zeros(len(symbols)))

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        """Add the flags of ``sentence_encoder`` that matter to the context."""
        add_context_args(parser)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> SentenceLanguageModel:
        """Build the model for a task that masks words.

        Raises:
            UserError: if the flags do not fit each other, the context gives a sentence one vector,
                or task or criterion is another one.
        """
        if not hasattr(task, "mask_idx"):
            raise UserError(f"--arch sentence_lm needs --task masked_lm, not {type(task).__name__}")
        if getattr(args, "criterion", None) == "cross_entropy":  # fairseq's default
            raise UserError(
                "--criterion cross_entropy does not fit --arch sentence_lm; give --criterion "
                "masked_lm"
            )
        dictionary = task.source_dictionary
        set_defaults(args, embed_dim=300, activation_fn="relu")
        switches = {"activation": args.activation_fn} | context_switches(args, task)
        encoder = SentenceEncoder(
            args.embed_dim,
            context=args.context,
            hidden_size=args.hidden_size,
            dropout=args.dropout,
            **switches,
        )
        if encoder.context.pools:
            raise UserError(
                f"--context {args.context} gives a sentence one vector; a language model needs one "
                "for each word"
            )
        if args.context in mechanisms():  # as it is: what was given does not make it again
            layer: Any = encoder.context.layer
            store_switches(args, layer.config)
        return cls(encoder, dictionary.symbols, dictionary.pad(), args.activation_fn)

    def forward(
        self, src_tokens: Tensor, masked_tokens: Tensor | None = None, **others: Any
    ) -> tuple[Tensor, dict[str, Any]]:
        """fairseq's hook.

        Args:
            src_tokens: ``(B, T)``, numbers of the dictionary.
            masked_tokens: bool ``(B, T)``, what to predict; None is all.
            **others: what fairseq gives beside them.

        Returns:
            Logits ``(B, T, words)``, or ``(N, words)`` of the N masked tokens; nothing more.
        """
        x = self.network.table(src_tokens + FIRST_WORD)
        h = self.network.encoder.context(x, src_tokens == self.padding)
        if masked_tokens is not None:
            h = h[masked_tokens]
        return self.map(h) @ self.network.table.trained.weight.T + self.bias, {}


# The sizes of ``sentence_encoder``.
register_model_architecture("sentence_lm", "sentence_lm")(sentence_encoder)
