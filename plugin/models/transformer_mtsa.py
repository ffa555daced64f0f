"""``--arch transformer_mtsa``: fairseq's Transformer with a choice of encoder self-attention."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from functools import partial
from pathlib import Path
from typing import Any

from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer.transformer_legacy import (
    base_architecture,
    tiny_architecture,
    transformer_iwslt_de_en,
    transformer_vaswani_wmt_en_de_big,
    transformer_wmt_en_de,
)
from torch import nn

from selfattn.layers import build_attention

from .. import hub
from ..args import add_attention_args, attention_config, check_heads
from ..modules.encoder import AttentionEncoder


@register_model("transformer_mtsa")
class TransformerMTSAModel(TransformerModel):
    """The Transformer of the MTSA paper's translation experiments (section 4.4).

    ``--encoder-attention`` names the attention of the encoder: ``mtsa``, or ``multihead`` for
    fairseq's own, which makes this model fairseq's ``transformer``. The decoder is fairseq's.

    Differs:
        tensor2tensor, which the paper used, has no biases in its attention and a target-space
        embedding; here both encoders have fairseq's biases (``--mtsa-projections preset`` takes the
        published ones) and no such embedding.
    """

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        """Add fairseq's Transformer flags and those of the attentions."""
        TransformerModel.add_args(parser)
        add_attention_args(parser)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> TransformerMTSAModel:
        """Build the model; old arguments get today's defaults.

        Raises:
            UserError: if the arguments do not fit each other.
        """
        _resolve(args)
        model: TransformerMTSAModel = super().build_model(args, task)
        return model

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Any, embed_tokens: nn.Module) -> nn.Module:
        """fairseq's hook for the encoder; ``args`` is its Transformer configuration here."""
        config = attention_config(args)
        if config is None:
            encoder: nn.Module = super().build_encoder(args, src_dict, embed_tokens)
            return encoder
        make = partial(build_attention, config)
        return AttentionEncoder(args, src_dict, embed_tokens, make, config.name)

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str,
        checkpoint_file: str | None = None,
        data_name_or_path: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """A translator from a training's folder: ``from_pretrained("runs/x").translate("A dog.")``.

        Args:
            model_name_or_path: the training's ``--save-dir``, or whatever fairseq takes.
            checkpoint_file: file in that folder; default: the best, else the last checkpoint.
            data_name_or_path: folder of the dictionaries; default: see ``hub.find_parts``.
            **kwargs: flags to change, e.g. ``beam=4``.

        Raises:
            UserError: if the checkpoint or its dictionaries are not found.
        """
        found: dict[str, Any] = {"checkpoint_file": checkpoint_file or "model.pt"}
        if data_name_or_path is not None:
            found["data_name_or_path"] = data_name_or_path
        if Path(model_name_or_path).is_dir():
            folder = Path(model_name_or_path)
            found = hub.find_parts(folder, checkpoint_file, data_name_or_path)
        return super().from_pretrained(model_name_or_path, **{**found, **kwargs})


def _resolve(args: Namespace) -> None:
    """Fill in what the attention needs, and refuse what it cannot have before anything is built."""
    args.encoder_attention = getattr(args, "encoder_attention", "mtsa")
    base_architecture(args)
    check_heads(args.encoder_embed_dim, args.encoder_attention_heads)
    attention_config(args)


@register_model_architecture("transformer_mtsa", "transformer_mtsa")
def transformer_mtsa(args: Namespace) -> None:
    """Transformer-base sizes; MTSA as in the paper's equations."""
    args.mtsa_preset = getattr(args, "mtsa_preset", "paper")
    _resolve(args)


@register_model_architecture("transformer_mtsa", "transformer_mtsa_tiny")
def transformer_mtsa_tiny(args: Namespace) -> None:
    """fairseq's ``transformer_tiny`` sizes, for tests."""
    tiny_architecture(args)
    transformer_mtsa(args)


@register_model_architecture("transformer_mtsa", "transformer_mtsa_iwslt_de_en")
def transformer_mtsa_iwslt_de_en(args: Namespace) -> None:
    """fairseq's ``transformer_iwslt_de_en`` sizes."""
    transformer_iwslt_de_en(args)
    transformer_mtsa(args)


@register_model_architecture("transformer_mtsa", "transformer_mtsa_wmt_en_de")
def transformer_mtsa_wmt_en_de(args: Namespace) -> None:
    """The published translation model: Transformer-base, layer norm first, preset ``nmt``."""
    _published(args)
    transformer_wmt_en_de(args)
    transformer_mtsa(args)


@register_model_architecture("transformer_mtsa", "transformer_mtsa_wmt_en_de_big")
def transformer_mtsa_wmt_en_de_big(args: Namespace) -> None:
    """Transformer-big sizes, otherwise as ``transformer_mtsa_wmt_en_de``."""
    _published(args)
    transformer_vaswani_wmt_en_de_big(args)
    transformer_mtsa(args)


def _published(args: Namespace) -> None:
    """tensor2tensor 1.9's Transformer as the authors trained it."""
    args.mtsa_preset = getattr(args, "mtsa_preset", "nmt")
    args.encoder_normalize_before = getattr(args, "encoder_normalize_before", True)
    args.decoder_normalize_before = getattr(args, "decoder_normalize_before", True)
    args.attention_dropout = getattr(args, "attention_dropout", 0.1)
    args.activation_dropout = getattr(args, "activation_dropout", 0.1)
