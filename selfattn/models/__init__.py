"""Encoders of sentences and heads on top of them, on torch alone."""

from selfattn.models.base import Context
from selfattn.models.class_head import ClassHead
from selfattn.models.context import CONTEXTS, build_context
from selfattn.models.encoder import SentenceEncoder
from selfattn.models.pair_head import PairHead
from selfattn.models.relatedness_head import RelatednessHead
from selfattn.models.selection_head import SelectionHead

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
