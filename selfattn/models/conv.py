"""A convolution over tokens."""

from torch import Tensor, nn


class SameConv(nn.Module):
    """A convolution over tokens that keeps the length, ``(B, T, C)`` -> ``(B, T, E)``.

    Args:
        inputs: width C.
        outputs: width E.
        window: in tokens; an even one sees one more after a token than before it, as in the
            published code.
        ahead: let the window begin at its token instead of lying around it.
    """

    def __init__(self, inputs: int, outputs: int, window: int, ahead: bool = False) -> None:
        super().__init__()
        before = 0 if ahead else (window - 1) // 2
        self.window = window
        self.pad = nn.ConstantPad1d((before, window - 1 - before), 0.0)
        self.conv = nn.Conv1d(inputs, outputs, window)
        nn.init.xavier_uniform_(self.conv.weight)
        nn.init.zeros_(self.conv.get_parameter("bias"))

    def forward(self, x: Tensor) -> Tensor:
        """Convolve; padding must be 0."""
        y: Tensor = self.conv(self.pad(x.transpose(1, 2))).transpose(1, 2)
        return y
