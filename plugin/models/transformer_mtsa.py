"""The model of :mod:`.transformer` under the name that it had in version 0.1."""

from .transformer import AttentionTransformerModel as TransformerMTSAModel

__all__ = ["TransformerMTSAModel"]
