"""The switches of all mechanisms as typed keywords, for type checkers and editors alone.

A switch is described in its configuration; a test holds these names and values to those. What a
mechanism does not have is found where its configuration is made.
"""

from collections.abc import Sequence
from typing import Literal, TypedDict

Activation = Literal["none", "relu", "elu", "gelu", "tanh"]


class LayerSwitches(TypedDict, total=False):
    """All switches whose name is no argument of ``selfattn.models.EncoderLayer``."""

    attention_dropout: float
    backend: Literal["auto", "fused", "eager", "reference"]
    between: Literal["gate", "disa"]
    block_length: int
    block_length_extra: int
    c: float
    contexts: Literal["both", "global", "local", "none"]
    dense_dropout: float
    distance: Literal["none", "linear", "log"]
    fusion_gate: bool
    gate_biases: int
    head_dim: int | None
    heads: int
    include_self: bool
    input_map: bool
    key_dim: int | None
    masks: Literal["none", "forward", "backward", "forward_backward"]
    output_activation: Activation
    output_bias: bool
    output_projection: bool
    positions: Literal["none", "relative", "rotary", "alibi"]
    qk_bias: bool
    qk_input: Literal["input", "value"]
    qkv_init_gain: float
    relative_clip: int
    s2t_activation: Activation
    s2t_bias_init: float
    s2t_hidden: int | None
    s2t_input: Literal["key", "value", "input"]
    s2t_layers: int
    s2t_sharing: Literal["per_head", "shared", "joint"]
    sampler: Literal["parallel", "iterative", "none"]
    sampler_activation: Activation
    sampler_bias_init: float
    sampler_hidden: int | None
    sampler_lr_scale: float
    scores: Literal["both", "token2token", "source2token", "none"]
    shared_selection: bool
    sigma_s: Literal["identity", "logsigmoid", "scaled_logsigmoid"]
    sigma_t: Literal["identity", "logsigmoid"]
    soft_attention: bool
    test_seed: int | None
    test_selection: Literal["threshold", "sample"]
    unselected: Literal["dependents", "others", "all", "nothing"]
    value_activation: Activation
    value_bias: bool
    window: int | Sequence[int] | None
    zero_padding: bool


class Switches(LayerSwitches, total=False):
    """All switches."""

    activation: Activation
    bias: bool
