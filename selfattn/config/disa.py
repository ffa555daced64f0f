"""Configuration of DiSA and its published forms."""

from dataclasses import dataclass

from ..errors import UserError
from ..masks import head_masks
from .base import ACTIVATIONS, BACKENDS, switch
from .masked import MaskedConfig


@dataclass(frozen=True)
class DiSAConfig(MaskedConfig):
    """Directional self-attention (Shen et al. 2018): multi-dimensional, masked, gated.

    Each head has parameters and a mask of its own; the papers have one head for each direction.
    Dropout is 0 in every preset; the published recipes drop 0.25 (SNLI) to 0.4 on the input of
    every linear map and no attention weights.

    Raises:
        UserError: if a switch has a value that is not allowed, or the masks do not fit the heads.
    """

    name = "disa"
    default_preset = "paper"

    heads: int = switch(
        2,
        "number of heads, each with its own parameters and mask (published: one per direction); 0: "
        "as many as the encoder's attention heads",
        least=0,
    )
    head_dim: int | None = switch(
        None, "width of a head (default: embedding width / number of heads)"
    )
    c: float = switch(5.0, "bound of the scores: they lie between -c and c")
    input_map: bool = switch(
        True,
        "project the input to each head's features; without it each head attends over its own "
        "slice of the input's features",
    )
    activation: str = switch("none", "activation of the input map", ACTIVATIONS)
    fusion_gate: bool = switch(True, "gate between each head's value and its context")
    gate_biases: int = switch(1, "number of biases of the fusion gate: 1, or 3 that are summed")
    output_projection: bool = switch(False, "linear map after the heads are concatenated")
    output_bias: bool = switch(False, "bias on the output projection")
    zero_padding: bool = switch(False, "set the output to 0 at padded positions")
    dense_dropout: float = switch(0.0, "dropout on the input of every linear map")
    backend: str = switch("auto", "how the operator is computed", BACKENDS)

    presets = {
        # Equations 9 and 10 of the Bi-BloSAN paper, a linear map for each direction, DiSAN's gate.
        "paper": {},
        # The authors' code: an activated map, three biases in the gate, outputs 0 at padding.
        "code": {"activation": "elu", "gate_biases": 3, "zero_padding": True},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gate_biases not in (1, 3):
            raise UserError(f"gate_biases {self.gate_biases} is not allowed; it must be 1 or 3")
        if self.activation != "none" and not self.input_map:
            raise UserError(f"activation {self.activation!r} needs input_map")
        if self.heads:
            head_masks(self.masks, self.heads, self.include_self, self.window)
