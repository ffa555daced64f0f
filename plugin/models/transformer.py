"""``--arch transformer_<mechanism>``: fairseq's Transformer with another encoder self-attention."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable
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

from selfattn.config import MultiHeadConfig
from selfattn.layers import build_attention
from selfattn_tasks.text import clean_line
from selfattn_tasks.translation import parts
from selfattn_tasks.translation.prepare import lowercased

from ..args import (
    add_attention_args,
    attention_config,
    check_heads,
    choose_presets,
    mechanisms,
    set_defaults,
)
from ..block_length import resolve_block_length
from ..compat import warm_start
from ..modules.encoder import AttentionEncoder, build_multihead

MODEL = "attention_transformer"
Sizes = Callable[[Namespace], None]


@register_model(MODEL)
class AttentionTransformerModel(TransformerModel):
    """The Transformer of the MTSA paper's translation experiments (section 4.4), for any mechanism.

    ``--encoder-attention`` names the attention of the encoder; ``multihead`` is fairseq's own,
    which makes this model fairseq's ``transformer``; with a ``--multihead`` switch it is ours, with
    the weights that fairseq would draw. The decoder is fairseq's.

    Differs:
        tensor2tensor, which the paper used, has no biases in its attention and a target-space
        embedding; here both encoders have fairseq's biases (``--mtsa-projections preset`` takes the
        published ones) and no such embedding.
    """

    # For plugin/compat/warm_start.py: load_state_dict calls its fit.
    starts_from_other_attentions = True

    @staticmethod
    def add_args(parser: ArgumentParser) -> None:
        """Add fairseq's Transformer flags and those of the attentions to ``parser``."""
        TransformerModel.add_args(parser)
        add_attention_args(parser)

    @classmethod
    def build_model(cls, args: Namespace, task: Any) -> AttentionTransformerModel:
        """Build the model; arguments of old checkpoints get today's defaults.

        Raises:
            UserError: if the arguments contradict each other.
        """
        _resolve(args)
        resolve_block_length(args, task)
        return super().build_model(args, task)

    @classmethod
    def build_encoder(cls, args: Any, src_dict: Any, embed_tokens: nn.Module) -> nn.Module:
        """fairseq's hook for the encoder; ``args`` is its Transformer configuration here."""
        config = attention_config(args)
        if config is None:
            return super().build_encoder(args, src_dict, embed_tokens)
        make = partial(build_attention, config)
        if isinstance(config, MultiHeadConfig):
            make = partial(build_multihead, config)
        return AttentionEncoder(args, src_dict, embed_tokens, make, config.name)

    def load_state_dict(self, state_dict: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        """fairseq's hook; ``--finetune-from-model`` may name a model with another attention."""
        return super().load_state_dict(warm_start.fit(self, state_dict), *args, **kwargs)

    @classmethod
    def from_pretrained(
        cls,
        model_name_or_path: str,
        checkpoint_file: str | None = None,
        data_name_or_path: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """A translator from a run's folder: ``from_pretrained("runs/x").translate("A dog.")``.

        Args:
            model_name_or_path: the run's ``--save-dir``, or whatever fairseq takes.
            checkpoint_file: file in that folder; default: the best, else the last checkpoint.
            data_name_or_path: folder of the dictionaries; default: see ``parts.find_parts``.
            **kwargs: flags to change, e.g. ``lenpen=0.6``; ``beam`` is an argument of
                ``translate`` alone.

        Raises:
            UserError: if the checkpoint or its dictionaries are not found, or a ``prepared.json``
                beside these does not say how the text was cleaned.
        """
        found: dict[str, Any] = {"checkpoint_file": checkpoint_file or "model.pt"}
        if data_name_or_path is not None:
            found["data_name_or_path"] = data_name_or_path
        if Path(model_name_or_path).is_dir():
            folder = Path(model_name_or_path)
            found = parts.find_parts(folder, checkpoint_file, data_name_or_path)
        hub = super().from_pretrained(model_name_or_path, **{**found, **kwargs})
        lowercase = lowercased(Path(hub.cfg.task.data))
        if lowercase is not None:  # as `selfattn prepare translation` cleaned the training text
            hub.tokenize = partial(_cleaned, hub.tokenize, lowercase)
        return hub


def _cleaned(tokenize: Callable[[str], str], lowercase: bool, sentence: str) -> str:
    return tokenize(clean_line(sentence, lowercase))


def _resolve(args: Namespace) -> None:
    """Fill in what the attention needs, and refuse what it cannot use, before building it."""
    args.encoder_attention = getattr(args, "encoder_attention", "mtsa")  # as the oldest checkpoints
    base_architecture(args)
    for side in ("encoder", "decoder"):
        sizes = getattr(args, f"{side}_embed_dim"), getattr(args, f"{side}_attention_heads")
        check_heads(*sizes, side)
    attention_config(args)


def _tensor2tensor(sizes: Sizes) -> Sizes:
    """tensor2tensor 1.9's Transformer as the MTSA authors trained it: layer norm first."""

    def published(args: Namespace) -> None:
        choose_presets(args, "nmt")
        set_defaults(args, encoder_normalize_before=True, decoder_normalize_before=True)
        set_defaults(args, attention_dropout=0.1, activation_dropout=0.1)
        sizes(args)

    return published


# fairseq's sizes by the end of the architecture's name.
SIZES: dict[str, Sizes] = {
    "": base_architecture,
    "_tiny": tiny_architecture,
    "_iwslt_de_en": transformer_iwslt_de_en,
    "_wmt_en_de": _tensor2tensor(transformer_wmt_en_de),
    "_wmt_en_de_big": _tensor2tensor(transformer_vaswani_wmt_en_de_big),
}


def _architecture(mechanism: str, sizes: Sizes, args: Namespace) -> None:
    """``--arch transformer_<mechanism>`` in some size; ``--encoder-attention`` overrides it."""
    set_defaults(args, encoder_attention=mechanism)
    sizes(args)
    choose_presets(args)
    _resolve(args)


for _mechanism in mechanisms():
    for _end, _sizes in SIZES.items():
        _register = register_model_architecture(MODEL, f"transformer_{_mechanism}{_end}")
        _register(partial(_architecture, _mechanism, _sizes))
