"""Configuration of dot-product multi-head attention."""

from dataclasses import dataclass

from ..errors import UserError
from ..masks import MASK_LAYOUTS
from .base import switch
from .masked import MaskedConfig


@dataclass(frozen=True)
class MultiHeadConfig(MaskedConfig):
    """Dot-product multi-head attention (Vaswani et al. 2017), the baseline of all papers.

    With ``masks`` it is that baseline under MTSA's positional masks, with nothing else changed;
    with ``positions`` it knows them by other ways than what is added to the embeddings.

    Raises:
        UserError: if a switch has a value that is not allowed, or two switches exclude each other.
    """

    name = "multihead"

    masks: str = switch(
        "none",
        "positional masks of the heads, as MTSA has them; forward_backward gives half of them to "
        "each direction",
        MASK_LAYOUTS,
    )
    bias: bool = switch(True, "biases on the query, key, value and output projections")
    positions: str = switch(
        "none",
        "positions inside the attention: relative (Shaw et al. 2018), rotary (RoFormer) or alibi "
        "(Press et al. 2022, the same cost before and after the query); sinusoids in the "
        "embeddings stay unless they are switched off (--no-token-positional-embeddings, which "
        "removes them from the decoder, too; --no-timing-signal)",
        ("none", "relative", "rotary", "alibi"),
    )
    relative_clip: int = switch(
        16, "positions relative does not distinguish distances beyond this many tokens"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.positions == "alibi" and self.distance != "none":
            raise UserError(
                f"distance {self.distance!r} and positions 'alibi' both penalise distance; take one"
            )
        if self.relative_clip != type(self).relative_clip and self.positions != "relative":
            raise UserError(f"relative_clip {self.relative_clip} needs positions 'relative'")
