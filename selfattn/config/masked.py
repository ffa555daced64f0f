"""What the configurations of all mechanisms with positional masks share."""

from dataclasses import dataclass

from ..masks import MASK_LAYOUTS, head_masks
from .base import DISTANCES, AttentionConfig, switch


@dataclass(frozen=True)
class MaskedConfig(AttentionConfig):
    """Positional masks, windows and the distance penalty.

    Raises:
        UserError: if a switch has a value that is not allowed.
    """

    masks: str = switch(
        "forward_backward",
        "positional masks of the heads; forward_backward gives half of them to each direction",
        MASK_LAYOUTS,
    )
    include_self: bool = switch(False, "let a token see itself under a directional mask")
    window: int | tuple[int, ...] | None = switch(
        None,
        "see only keys within this distance in tokens: one value for all heads, or one for each",
    )
    distance: str = switch(
        "none",
        "penalty on the score of a key t tokens away, with a learned slope for each head: linear: "
        "slope * t, log: slope * log(1 + t)",
        DISTANCES,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        windows = self.window if isinstance(self.window, (list, tuple)) else (self.window,)
        # An even number of heads always fits: this checks the names and the windows' sizes only.
        found = [head_masks(self.masks, 2, self.include_self, w)[0].window for w in windows]
        # Python's numbers, also of numpy's.
        object.__setattr__(self, "window", tuple(found) if windows is self.window else found[0])
