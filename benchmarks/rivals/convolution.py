"""Multi-window and hierarchical CNN, the convolutional rivals of the papers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from selfattn.layers.base import zero_padding


class SameConv(nn.Module):
    """A convolution over tokens that keeps the length, ``(B, T, C)`` -> ``(B, T, E)``."""

    def __init__(self, inputs: int, outputs: int, window: int) -> None:
        super().__init__()
        # Even windows see one token more after than before, as in the published code.
        self.pad = nn.ConstantPad1d(((window - 1) // 2, window // 2), 0.0)
        self.conv = nn.Conv1d(inputs, outputs, window)

    def forward(self, x: Tensor) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, E)``."""
        y: Tensor = self.conv(self.pad(x.transpose(1, 2))).transpose(1, 2)
        return y


class MultiWindowCNN(nn.Module):
    """Convolutions of several windows side by side, then ReLU (Kim 2014, for each token).

    Args:
        embed_dim: width C of the input.
        windows: their widths in tokens.
        filters: of each window; default: about ``2 C`` features in all (published: 3 x 200 for
            C = 300).
    """

    def __init__(
        self, embed_dim: int, windows: tuple[int, ...] = (3, 4, 5), filters: int | None = None
    ) -> None:
        super().__init__()
        filters = max(1, 2 * embed_dim // len(windows)) if filters is None else filters
        self.convs = nn.ModuleList(SameConv(embed_dim, filters, window) for window in windows)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, windows * filters)``."""
        x = zero_padding(x, padding_mask)
        return torch.relu(torch.cat([conv(x) for conv in self.convs], -1))


class HierarchicalCNN(nn.Module):
    """Gated convolutions on top of each other, with residual connections (Gehring et al. 2017).

    Args:
        embed_dim: width C of the input and of each layer.
        window: of each convolution in tokens.
        layers: number of convolutions; 3 come nearest to the published number of parameters.

    Differs:
        Padded positions are set to 0 before each layer, not only before the first one, so that a
        sentence's output does not depend on its batch mates.
    """

    def __init__(self, embed_dim: int, window: int = 5, layers: int = 3) -> None:
        super().__init__()
        self.convs = nn.ModuleList(
            SameConv(embed_dim, 2 * embed_dim, window) for _ in range(layers)
        )

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, C)``."""
        for depth, conv in enumerate(self.convs):
            value, gate = torch.relu(conv(zero_padding(x, padding_mask))).chunk(2, -1)
            y = value * torch.sigmoid(gate)
            x = x + y if depth else y
        return x
