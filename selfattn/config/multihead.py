"""Configuration of dot-product multi-head attention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from selfattn.config.base import switch
from selfattn.config.masked import MaskedConfig
from selfattn.masks import MASK_LAYOUTS


@dataclass(frozen=True)
class MultiHeadConfig(MaskedConfig):
    """Dot-product multi-head attention (Vaswani et al. 2017), the baseline of all papers.

    With ``masks`` it is that baseline under MTSA's positional masks, with nothing else changed.

    Raises:
        UserError: if a switch has a value that is not allowed.
    """

    name: ClassVar[str] = "multihead"

    masks: str = switch(
        "none",
        "positional masks of the heads, as MTSA has them; forward_backward gives half of them to "
        "each direction",
        MASK_LAYOUTS,
    )
    bias: bool = switch(True, "biases on the query, key, value and output projections")
