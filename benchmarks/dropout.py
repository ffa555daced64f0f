"""Layers with attention dropout, for ``bench_attention.py --methods-module``; see run.sh.

They are built in ``eval()``, in which they are checked, and timed in training.
"""

from typing import Any

from torch import nn

from benchmarks.kinds import LayerMethod
from benchmarks.method import Setup
from benchmarks.rivals.dot_product import TorchMultiHead
from selfattn.layers import build_attention

RATE = 0.1


def torch_layer(setup: Setup) -> nn.Module:
    """``nn.MultiheadAttention``."""
    layer = TorchMultiHead(setup.embed_dim, setup.heads)
    layer.attention.dropout = RATE
    return layer.eval()


def own(name: str, label: str, mechanism: str, **switches: Any) -> LayerMethod:
    """A layer of this project."""
    return LayerMethod(
        f"dropout:{name}",
        f"{label}, dropout",
        lambda s: build_attention(
            mechanism, s.embed_dim, s.heads, attention_dropout=RATE, **switches
        ).eval(),
    )


METHODS = [
    LayerMethod("dropout", "multi-head, torch, dropout", torch_layer),
    own("multihead", "multi-head layer", "multihead"),
    own("masks", "multi-head layer, masks", "multihead", masks="forward_backward"),
    own("srl", "MTSA (srl)", "mtsa", preset="srl"),
    own("paper", "MTSA (paper)", "mtsa", preset="paper"),
]
