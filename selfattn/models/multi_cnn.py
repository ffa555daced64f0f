"""Multi-CNN: convolutions of several windows side by side."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import UserError, check_integer
from ..layers.base import zero_padding
from ..layers.dropout import Dropout
from .base import Context
from .conv import SameConv


class MultiCNN(Context):
    """Convolutions of several windows, ReLU, and the maximum over time (Kim 2014).

    Args:
        embed_dim: width of the input.
        hidden_size: half of the output's width, which the windows share.
        dropout: on the input of the convolutions.
        windows: their widths in tokens.
        filters: of each window (default: the share of the output; published: 3 x 200).
        per_token: give each token the windows around it instead of the maximum over time: what the
            papers put in front of source2token pooling, and a tagger's context.

    Raises:
        UserError: if there is no window, or one is no whole number of at least 1.

    Differs:
        The maximum is over windows that lie within the sentence, wherever it is padded; in the
        authors' code padding takes part in it. A sentence shorter than a window, which has no
        output there, is filled up with zeros. One draw of dropout serves all windows, as there. In
        the code Glorot's rule takes the features for places of a window: its weights are 11 times
        smaller at the published sizes, and its biases are drawn, where ours are 0.
    """

    def __init__(
        self,
        embed_dim: int,
        hidden_size: int,
        *,
        dropout: float = 0.0,
        windows: tuple[int, ...] = (3, 4, 5),
        filters: int | None = None,
        per_token: bool = False,
    ) -> None:
        if not isinstance(windows, (list, tuple)) or not windows:
            raise UserError(f"windows {windows!r} is not allowed; it must list at least one width")
        for window in windows:
            check_integer("windows", window)
        filters = max(1, 2 * hidden_size // len(windows)) if filters is None else filters
        super().__init__(embed_dim, filters * len(windows))
        self.pools = not per_token
        self.dropout = Dropout(dropout)
        self.convs = nn.ModuleList(
            SameConv(embed_dim, filters, window, ahead=self.pools) for window in windows
        )

    def encode(self, x: Tensor, padding_mask: Tensor | None) -> Tensor:
        x = self.dropout(x)
        if not self.pools:
            y = torch.relu(torch.cat([conv(x) for conv in self.convs], -1))
            return zero_padding(y, padding_mask)
        real = x.new_ones(x.shape[:2], dtype=torch.bool) if padding_mask is None else ~padding_mask
        first = real & (real.cumsum(1) == 1)
        found = []
        for conv in self.convs:
            assert isinstance(conv, SameConv)
            # A window that begins at a token and ends at one, or the only one of a short sentence.
            inside = real & F.pad(real, (0, conv.window - 1))[:, conv.window - 1 :] | first
            y = torch.relu(conv(x))  # at least 0, so that 0 is the maximum of nothing
            found.append(y.masked_fill(~inside[..., None], 0.0).amax(1))
        return torch.cat(found, -1)
