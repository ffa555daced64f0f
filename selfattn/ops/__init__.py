"""Operators: the mathematics of the mechanisms, each beside a slow and obvious reference."""

from selfattn.ops.common.dispatch import backends
from selfattn.ops.disa import disa
from selfattn.ops.mtsa import mtsa

__all__ = ["backends", "disa", "mtsa"]
