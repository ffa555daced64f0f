"""Encoders of sentences and heads on top of them, on torch alone; one class a file."""

from .base import Context
from .class_head import ClassHead
from .context import CONTEXTS, build_context
from .encoder import SentenceEncoder
from .pair_head import PairHead
from .relatedness_head import RelatednessHead
from .selection_head import SelectionHead

__all__ = [
    "CONTEXTS",
    "ClassHead",
    "Context",
    "PairHead",
    "RelatednessHead",
    "SelectionHead",
    "SentenceEncoder",
    "build_context",
]
