"""Configuration of Bi-BloSA and its published forms."""

from dataclasses import dataclass

from .base import ACTIVATIONS, constant, switch
from .disa import DiSAConfig


@dataclass(frozen=True)
class BiBloSAConfig(DiSAConfig):
    """Bi-directional block self-attention (Shen et al. 2018, ICLR), equations 9-18.

    Each head is an mBloSA with parameters and a mask of its own. What it shares with DiSA has
    DiSA's switches; a window in tokens is, between blocks, rounded up to whole blocks, and a
    distance is one in blocks, with a slope of its own.

    Raises:
        UserError: if a switch has a value that is not allowed, or the masks do not fit the heads.
    """

    name = "biblosa"
    formerly = {"contexts": "both"}

    activation: str = switch(
        "relu",
        "activation of the input map, of F in equation 16 and within source2token",
        ACTIVATIONS,
    )
    block_length: int = switch(
        0,
        "tokens of a block; 0 (in fairseq also auto) applies the cube-root rule (equations 19-23): "
        "where fairseq trains, to the lengths of the training data, elsewhere to 32 tokens, which "
        "gives 4",
        least=0,
    )
    block_length_extra: int = switch(
        0, "tokens to add to a block length from training data; the authors' code adds 1", least=0
    )
    s2t_layers: int = switch(
        2, "layers of the network that scores a block's tokens, 1 or 2", most=2
    )
    between: str = switch(
        "gate",
        "between blocks: attention and the gate of equations 13-15, or a complete DiSA layer with "
        "a map of its input",
        ("gate", "disa"),
    )

    contexts: str = switch(
        "both",
        "what equations 16 and 17 fuse with a token, the paper's ablation: both, global (without "
        "h of its block), local (without E, and all that it takes) or none: no attention and no "
        "map, each token stays as it is",
        ("both", "global", "local", "none"),
    )

    # Equation 18 is the gate, and every head has a map of the input (section 3.2).
    input_map: bool = constant(True)
    fusion_gate: bool = constant(True)
    gate_biases: int = constant(1)

    presets = {
        # Equations 9-18.
        "paper": {},
        # The authors' code for SNLI. Its gate between blocks, a share of the block instead of the
        # context, is the same function with the sign turned.
        "code": {
            "activation": "elu",
            "s2t_layers": 1,
            "between": "disa",
            "block_length_extra": 1,
        },
    }
