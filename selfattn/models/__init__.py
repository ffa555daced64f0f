"""torch's encoder with other attentions, encoders of sentences and their heads; on torch alone."""

from .as_multihead import AsMultihead
from .base import Context
from .class_head import ClassHead
from .context import CONTEXTS, build_context
from .encoder import SentenceEncoder
from .encoder_layer import EncoderLayer
from .pair_head import PairHead
from .relatedness_head import RelatednessHead
from .selection_head import SelectionHead
from .swapping import SwapReport, swap
from .torch_encoder import Encoder

__all__ = [
    "CONTEXTS",
    "AsMultihead",
    "ClassHead",
    "Context",
    "Encoder",
    "EncoderLayer",
    "PairHead",
    "RelatednessHead",
    "SelectionHead",
    "SentenceEncoder",
    "SwapReport",
    "build_context",
    "swap",
]
