"""A translation model in fairseq and in ``selfattn.hf``: names of its weights, its flags."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selfattn.config import CONFIGS
from selfattn.errors import UserError
from selfattn.hf import SelfattnConfig

from ..cli import option

# fairseq's names of weights and ours, each a part of the whole name.
_NAMES = (
    (".embed_tokens.", ".embeddings.tokens."),
    (".embed_positions.", ".embeddings.positions."),
    (".layernorm_embedding.", ".embeddings.norm."),
    (".self_attn_layer_norm.", ".self_attn_norm."),
    (".encoder_attn_layer_norm.", ".encoder_attn_norm."),
    (".final_layer_norm.", ".final_norm."),
    (".fc1.", ".feed_forward.fc1."),
    (".fc2.", ".feed_forward.fc2."),
    ("encoder.layer_norm.", "encoder.norm."),
    ("decoder.layer_norm.", "decoder.norm."),
    ("decoder.output_projection.", "lm_head."),
)
_WRAPPED = ".self_attn.attention."  # plugin/modules/encoder_attention.py
# Flags and fields of the same meaning.
_FIELDS = {
    "encoder_embed_dim": "hidden_size",
    "encoder_layers": "num_hidden_layers",
    "encoder_attention_heads": "num_attention_heads",
    "encoder_ffn_embed_dim": "intermediate_size",
    "encoder_normalize_before": "norm_first",
    "decoder_layers": "decoder_layers",
    "decoder_attention_heads": "decoder_attention_heads",
    "decoder_ffn_embed_dim": "decoder_ffn_dim",
    "decoder_normalize_before": "decoder_norm_first",
    "activation_fn": "hidden_act",
    "dropout": "dropout",
    "attention_dropout": "attention_dropout",
    "activation_dropout": "activation_dropout",
    "layernorm_embedding": "embedding_norm",
    "max_target_positions": "max_position_embeddings",
}
# What fairseq's Transformer can be and these models cannot.
_REFUSED = (
    "adaptive_input", "adaptive_softmax_cutoff", "base_layers", "character_embeddings",
    "cross_self_attention", "merge_src_tgt_embed", "no_cross_attention", "no_decoder_final_norm",
    "relu_dropout", "scale_attn", "scale_fc", "scale_heads", "scale_resids",
)  # fmt: skip
# Flags that must have one value, the last two where positions are learned.
_EQUAL = (
    ("encoder_embed_dim", "decoder_embed_dim"),
    ("decoder_embed_dim", "decoder_output_dim"),
    ("encoder_learned_pos", "decoder_learned_pos"),
)
_LENGTHS = ("max_source_positions", "max_target_positions")
# What is no flag: fairseq's Transformer has these numbers and no other.
_FIXED = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "first_position": 2}
# Activations that both know under one name.
_ACTIVATIONS = ("relu", "gelu", "gelu_fast", "gelu_accurate", "tanh", "linear")


def config_of(
    flags: Mapping[str, Any], weights: Mapping[str, Tensor], path: Path
) -> SelfattnConfig:
    """The configuration of the model of the checkpoint ``path``.

    Raises:
        UserError: if these models cannot be like it.
    """
    if "decoder.embed_tokens.weight" not in weights or "encoder_embed_dim" not in flags:
        raise UserError(f"{path} is not a Transformer of fairseq's translation task")
    for name in _REFUSED:
        if flags.get(name):
            raise UserError(f"{path} was trained with {option(name)}, which is not exported")
    learned = bool(flags.get("encoder_learned_pos"))
    for first, second in (*_EQUAL, *([_LENGTHS] if learned else [])):
        one, other = flags.get(first), flags.get(second, flags.get(first))
        if one != other:
            raise UserError(
                f"{path} has {option(first)} {one}, but {option(second)} {other}; only models "
                "where they are equal are exported"
            )
    positions = "learned" if learned else "sinusoidal"
    share = "output" if flags.get("share_decoder_input_output_embed") else "none"
    wrapped = any(_WRAPPED in weight for weight in weights)
    name = flags.get("encoder_attention", "mtsa") if wrapped else "multihead"
    switches = {s: f"{name}_{s}" for s in CONFIGS[name].switch_names()}
    given = {s: flags[flag] for s, flag in switches.items() if flag in flags}
    if wrapped and not given:  # built by somebody's own code, with switches that no flag names
        raise UserError(
            f"{path} has --arch {flags.get('arch')}, which does not store the switches of its "
            "attention; only architectures of this project are exported"
        )
    return SelfattnConfig(
        vocab_size=len(weights["decoder.embed_tokens.weight"]),
        attention=name,
        preset=flags.get(f"{name}_preset"),
        switches={**CONFIGS[name].formerly, **given},
        positions="none" if flags.get("no_token_positional_embeddings") else positions,
        share_embeddings="all" if flags.get("share_all_embeddings") else share,
        scale_embedding=not flags.get("no_scale_embedding"),
        **{field: flags[flag] for flag, field in _FIELDS.items() if flag in flags},
    )


def flags_of(model: Any, path: Path) -> dict[str, Any]:
    """The flags of a ``SelfattnForConditionalGeneration`` that fairseq's Transformer can be like.

    Raises:
        UserError: if fairseq's cannot be like it.
    """
    config = model.config
    for name, wanted in _FIXED.items():
        if (found := getattr(config, name)) != wanted:
            raise UserError(f"{path} has {name} {found!r}, but in fairseq it is always {wanted}")
    if config.hidden_act not in _ACTIVATIONS:
        raise UserError(
            f"{path} has hidden_act {config.hidden_act!r}; fairseq has {', '.join(_ACTIVATIONS)}"
        )
    attention = config.attention
    flags = {
        "arch": f"transformer_{attention if attention != 'multihead' else 'mtsa'}",
        "encoder_attention": attention,
        f"{attention}_preset": config.preset,
        "decoder_embed_dim": config.hidden_size,
        "decoder_input_dim": config.hidden_size,
        "decoder_output_dim": config.hidden_size,
        "encoder_learned_pos": config.positions == "learned",
        "decoder_learned_pos": config.positions == "learned",
        "no_token_positional_embeddings": config.positions == "none",
        "no_scale_embedding": not config.scale_embedding,
        "share_all_embeddings": config.share_embeddings == "all",
        "share_decoder_input_output_embed": config.share_embeddings != "none",
        "max_source_positions": config.max_position_embeddings,
        **{flag: getattr(config, field) for flag, field in _FIELDS.items()},
    }
    if _is_wrapped(config):
        flags |= {f"{attention}_{name}": value for name, value in config.switches.items()}
    if attention == "biblosa":  # 0 would have fairseq derive another number from its data
        for layer in model.encoder.layers:
            flags["biblosa_block_length"] = layer.self_attn.block_length
    return flags


def _is_wrapped(config: Any) -> bool:
    """Whether an encoder's attention is the plugin's in fairseq, not fairseq's own."""
    own = config.attention_config
    plain = type(own).make(attention_dropout=config.attention_dropout)
    return bool(config.attention != "multihead" or own != plain)


def ours_of(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """fairseq's weights under our names, without what is no weight of the model."""
    found = {}
    for name, tensor in weights.items():
        if name.endswith((".version", "._float_tensor", ".embed_positions.weights")):
            continue
        new = name.replace(_WRAPPED, ".self_attn.")
        for theirs, ours in _NAMES:
            new = new.replace(theirs, ours)
        found[new] = tensor
    return found


def fairseqs_of(model: Any) -> dict[str, Tensor]:
    """The weights of a model of ours under fairseq's names."""
    version = torch.tensor([3.0])
    found = {"encoder.version": version, "decoder.version": version.clone()}
    wrapped = _is_wrapped(model.config)
    for name, tensor in model.state_dict().items():
        old = name
        for theirs, ours in _NAMES:
            old = old.replace(ours, theirs)
        if wrapped and old.startswith("encoder."):
            old = old.replace(".self_attn.", _WRAPPED)
        found[old] = tensor
    return found
