"""Whole training steps of encoder layers: what an attention costs where it is used."""

import copy

from torch import Tensor, nn

from .method import Method, Setup


class PreNormLayer(nn.Module):
    """A Transformer encoder layer, layer norm first, without dropout.

    Args:
        attention: ``(x, padding_mask)`` -> a tensor of the shape of x.
        embed_dim: width C.
        ffn_dim: width of the feed-forward network.
    """

    def __init__(self, attention: nn.Module, embed_dim: int, ffn_dim: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(embed_dim)
        self.attention = attention
        self.ffn_norm = nn.LayerNorm(embed_dim)
        self.ffn = nn.Sequential(
            nn.Linear(embed_dim, ffn_dim), nn.ReLU(), nn.Linear(ffn_dim, embed_dim)
        )

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, C)``."""
        x = x + self.attention(self.attention_norm(x), padding_mask)
        y: Tensor = x + self.ffn(self.ffn_norm(x))
        return y


class Encoder(nn.Module):
    """A stack of encoder layers."""

    def __init__(self, layers: list[PreNormLayer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, C)``."""
        for layer in self.layers:
            x = layer(x, padding_mask)
        return x


class EncoderMethod(Method):
    """Encoder layers with the attention of another method; a step is a whole update with Adam."""

    level = "encoder"
    updates = True

    def __init__(self, attention: Method) -> None:
        super().__init__(attention.name, attention.label)
        self.attention = attention

    def build(self, setup: Setup) -> nn.Module:
        """See ``Method.build``."""
        return Encoder(
            [
                PreNormLayer(self.attention.build(setup), setup.embed_dim, setup.ffn_dim)
                for _ in range(setup.layers)
            ]
        )

    def reference(self, module: nn.Module, setup: Setup) -> nn.Module | None:
        """See ``Method.reference``."""
        slow = copy.deepcopy(module)
        for layer in slow.layers:  # type: ignore[union-attr]
            layer.attention = self.attention.reference(layer.attention, setup)
        return slow
