"""Layers with attention dropout, for ``bench_attention.py --methods-module``; see run.sh.

They are checked in inference, where nothing is dropped.
"""

from dataclasses import replace
from typing import Any

from torch import nn

from benchmarks.kinds import LayerMethod
from benchmarks.method import Setup
from benchmarks.rivals.dot_product import TorchMultiHead
from selfattn.layers import build_attention

RATE = 0.1


class Dropping(LayerMethod):
    """A layer whose results are random in training."""

    def check(self, setup: Setup, length: int, *, against_reference: bool = True) -> None:
        """See ``Method.check``."""
        inference = replace(setup, mode="inference")
        super().check(inference, length, against_reference=against_reference)


def torch_layer(setup: Setup) -> nn.Module:
    """``nn.MultiheadAttention``."""
    layer = TorchMultiHead(setup.embed_dim, setup.heads)
    layer.attention.dropout = RATE
    return layer


def own(name: str, label: str, mechanism: str, **switches: Any) -> Dropping:
    """A layer of this project."""
    return Dropping(
        f"dropout:{name}",
        f"{label}, dropout",
        lambda s: build_attention(
            mechanism, s.embed_dim, s.heads, attention_dropout=RATE, **switches
        ),
    )


METHODS = [
    Dropping("dropout", "multi-head, torch, dropout", torch_layer),
    own("multihead", "multi-head layer", "multihead"),
    own("masks", "multi-head layer, masks", "multihead", masks="forward_backward"),
    own("srl", "MTSA (srl)", "mtsa", preset="srl"),
    own("paper", "MTSA (paper)", "mtsa", preset="paper"),
]
