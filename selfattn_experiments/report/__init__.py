"""What a training's log says, and pictures of it."""

from .curves import Curves, Points, Record, add_point, parse_line, plot, read_curves

__all__ = ["Curves", "Points", "Record", "add_point", "parse_line", "plot", "read_curves"]
