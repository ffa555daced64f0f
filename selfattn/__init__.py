"""Self-attention with a score per feature and a positional mask per head, for PyTorch.

The core of the project: operators, masks and layers, on torch alone. The fairseq plugin is a thin
layer on top of it and never the other way round.
"""

__version__ = "0.1.0"
