"""Names of one thing in fairseq and in ``selfattn.hf``: weights and flags of translation models."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selfattn.errors import UserError

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
WRAPPED = ".self_attn.attention."  # plugin/modules/encoder_attention.py
# Flags and fields of the same meaning.
FIELDS = {
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

# What is no flag: fairseq's Transformer has these numbers and no other.
_FIXED = {"pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "first_position": 2}
# Activations that both know under one name.
_ACTIVATIONS = ("relu", "gelu", "gelu_fast", "gelu_accurate", "tanh", "linear")


def check_fairseq_has(config: Any, path: Path) -> None:
    """Check that fairseq's Transformer can be like a model of ours.

    Args:
        config: of the model.
        path: where it is from, for messages.

    Raises:
        UserError: if it cannot.
    """
    for name, wanted in _FIXED.items():
        if (found := getattr(config, name)) != wanted:
            raise UserError(f"{path} has {name} {found!r}, but in fairseq it is always {wanted}")
    if config.hidden_act not in _ACTIVATIONS:
        raise UserError(
            f"{path} has hidden_act {config.hidden_act!r}; fairseq has {', '.join(_ACTIVATIONS)}"
        )


def ours_of(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """fairseq's weights under our names, without what is no weight of the model."""
    found = {}
    for name, tensor in weights.items():
        if name.endswith((".version", "._float_tensor", ".embed_positions.weights")):
            continue
        new = name.replace(WRAPPED, ".self_attn.")
        for theirs, ours in _NAMES:
            new = new.replace(theirs, ours)
        found[new] = tensor
    return found


def fairseqs_of(weights: Mapping[str, Tensor], wrapped: str) -> dict[str, Tensor]:
    """Our weights under fairseq's names.

    Args:
        weights: by name.
        wrapped: ``WRAPPED`` if the encoder's attention is the plugin's, else empty.
    """
    found = {}
    for name, tensor in weights.items():
        old = name
        for theirs, ours in _NAMES:
            old = old.replace(ours, theirs)
        if wrapped and old.startswith("encoder."):
            old = old.replace(".self_attn.", wrapped)
        found[old] = tensor
    version = torch.tensor([3.0])
    return {"encoder.version": version, "decoder.version": version.clone(), **found}
