"""The model of :mod:`.transformer` under its name in version 0.1."""

from .transformer import AttentionTransformerModel as TransformerMTSAModel

__all__ = ["TransformerMTSAModel"]
