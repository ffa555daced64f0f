"""Configuration of Fast-DiSA: MTSA with its own note's inputs, and fewer switches."""

from dataclasses import dataclass

from .base import constant
from .mtsa import MTSAConfig


@dataclass(frozen=True)
class FastDiSAConfig(MTSAConfig):
    """Fast directional self-attention (Shen et al. 2018, arXiv 1805.00912), equations 1-6.

    It is MTSA where queries, keys and scores are computed from each head's values, and the heads
    are joined by plain concatenation. Dropout is 0 in every preset.

    With 300 features and two heads as wide, ``paper`` has 901,200 parameters and ``code``
    1,262,400; the 2.9 million of the published SNLI model are those of ``code``.

    Raises:
        UserError: if a switch has a value that is not allowed.
    """

    name = "fast_disa"
    formerly = {"value_bias": True, "scores": "both"}

    # What the note's equations leave no choice about.
    sigma_s: str = constant("identity")
    s2t_input: str = constant("value")
    s2t_layers: int = constant(2)
    s2t_sharing: str = constant("per_head")
    s2t_bias_init: float = constant(0.0)
    qk_input: str = constant("value")
    qk_bias: bool = constant(False)
    key_dim: int | None = constant(None)
    output_projection: bool = constant(False)
    output_bias: bool = constant(False)
    output_activation: str = constant("none")
    zero_padding: bool = constant(True)
    qkv_init_gain: float = constant(1.0)

    presets = {
        # Equation 6: the value is W x, without bias and activation. Section 3.1: a token attends to
        # itself, too. The activation within source2token is left open; relu is that of the code.
        "paper": {"include_self": True},
        # The authors' code: an activated map with a bias, a strict direction, and a fusion gate for
        # what a token keeps of itself. relu is that of most of its tasks; SNLI has elu.
        "code": {"fusion_gate": True, "value_activation": "relu", "value_bias": True},
    }
