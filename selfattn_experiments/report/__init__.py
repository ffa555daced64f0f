"""What a training log says, and pictures of it."""

from .curves import Curves, parse_line, plot, read_curves

__all__ = ["Curves", "parse_line", "plot", "read_curves"]
