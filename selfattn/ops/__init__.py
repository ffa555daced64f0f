"""Operators: the mathematics of the mechanisms, each beside a slow and obvious reference."""

from .common.dispatch import backends
from .disa import disa
from .mtsa import mtsa

__all__ = ["backends", "disa", "mtsa"]
