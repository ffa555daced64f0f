"""What a training's log says, and pictures of it."""

from .curves import plot
from .fairseq_log import Curves, Record, parse_line, read_curves

__all__ = ["Curves", "Record", "parse_line", "plot", "read_curves"]
