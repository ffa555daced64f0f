"""mBloSA: masked self-attention within blocks of a sentence and between them, under one mask."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..config.biblosa import BiBloSAConfig
from ..config.disa import DiSAConfig
from ..masks import PositionalMask, check_padding_mask
from .base import activation, xavier_linear
from .disa import DiSA
from .dropout import Dropout
from .fusion_gate import FusionGate
from .linear import is_plain
from .masked_self_attention import MaskedSelfAttention
from .source2token import Source2Token


class MBloSA(nn.Module):
    """Masked block self-attention (Bi-BloSAN, Shen et al. 2018, section 3.1, eq. 11-18).

    The vector of a block, which source2token makes of all of its tokens, reaches each of them: a
    token depends on those of its block that its mask hides.

    Args:
        config: the switches.
        width: features D of the input and of the output.
        mask: which tokens of its block a token sees, and which blocks a block sees.
        block_length: tokens r of a block.

    Differs:
        A block of padding only is never a key. In the authors' code it is one: a backward
        direction then sees how much is padded. Dropout on the input of eq. 16 and 17 is drawn once
        for the vector E of a block, which its tokens share. The two maps of eq. 11 are one matrix
        in the code, whose Xavier weights are 0.82 times as large.
    """

    def __init__(
        self, config: BiBloSAConfig, width: int, mask: PositionalMask, block_length: int
    ) -> None:
        super().__init__()
        self.mask = mask
        self.activation = activation(config.activation)
        self.dropout = Dropout(config.dense_dropout)
        self.within = MaskedSelfAttention.of(config, [mask], width)  # g^m of eq. 11
        self.local = config.contexts != "global"
        self.block_gate: FusionGate | None = None
        self.source2token: Source2Token | None = None
        if config.contexts != "local":  # what the vectors E of blocks take (eq. 12-15)
            self.source2token = Source2Token(
                width,
                layers=config.s2t_layers,
                activation_name=config.activation,
                dropout=config.dense_dropout,
            )
            # Whatever lies within a window of tokens lies within that many tokens' whole blocks.
            window = None if mask.window is None else -(-mask.window // block_length)
            far = replace(mask, window=window)
            self.between: MaskedSelfAttention | DiSA
            if config.between == "disa":
                self.between = DiSA(_disa(config, far), width, 1)
            else:
                self.between = MaskedSelfAttention.of(config, [far], width)  # g^m of eq. 13
                self.block_gate = FusionGate(1, width, config.dense_dropout, maps=2)
        self.fusion = xavier_linear((3 if config.contexts == "both" else 2) * width, 2 * width)

    def forward(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Attend.

        Args:
            x: blocks of tokens ``(B, m, r, D)``.
            padding: bool ``(B, m, r)``, True = padding.

        Returns:
            ``(B, m, r, D)``.
        """
        fused, share = self.fuse(x, padding)
        return x + share * (fused - x)  # eq. 18

    def fuse(self, x: Tensor, padding: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """F and its share G of the output, ``(B, m, r, D)`` each; arguments as in ``forward``."""
        tokens = _sentences(x, padding)
        h = self.within(x.flatten(0, 1), tokens)  # eq. 11, (B m, r, D)
        e = None if self.source2token is None else self._blocks(h, x, padding)  # (B, m, D)
        parts = [self.dropout(x)]  # of [x; h; E], which eq. 16 and 17 map
        if self.local:
            parts.append(self.dropout(h.unflatten(0, x.shape[:2])))
        if e is not None:
            e = self.dropout(e)
        if not is_plain(self.fusion):  # an adapter or another wrapper stands for the map
            blocks = [] if e is None else [e[:, :, None].expand_as(x)]
            y = self.fusion(torch.cat(parts + blocks, -1))
        else:  # the share of E is computed once for a block
            bias, weights = self.fusion.bias, self.fusion.weight.split(x.shape[-1], dim=1)
            y = F.linear(parts[0], weights[0])  # (B, m, r, 2 D)
            if self.local:
                y = y + F.linear(parts[1], weights[1])
            y = y + (bias if e is None else F.linear(e, weights[-1], bias)[:, :, None])
        fused, gate = y.chunk(2, -1)
        return self.activation(fused), torch.sigmoid(gate)

    def _blocks(self, h: Tensor, x: Tensor, padding: Tensor | None) -> Tensor:
        """E of each block ``(B, m, D)``, from h of its tokens ``(B m, r, D)``."""
        assert self.source2token is not None  # for the type checker
        v = self.source2token(h, _sentences(x, padding)).unflatten(0, x.shape[:2])  # eq. 12
        e: Tensor = self.between(v, None if padding is None else padding.all(2))  # eq. 13
        if self.block_gate is not None:
            e = self.block_gate(e[:, None], v[:, None])[:, 0]  # eq. 14 and 15
        return e

    def weights(self, x: Tensor, padding: Tensor | None = None) -> Tensor:
        """Weights of eq. 11 within blocks, ``(B, m, r, r)``, averaged over features."""
        tokens = _sentences(x, padding)
        return self.within.weights(x.flatten(0, 1), tokens)[:, 0].unflatten(0, x.shape[:2])


def _sentences(x: Tensor, padding: Tensor | None) -> Tensor | None:
    """Padding of blocks as that of sentences, ``(B m, r)``."""
    check_padding_mask(padding, x.shape[:3], "(B, m, r)")
    return None if padding is None else padding.flatten(0, 1)


def _disa(config: BiBloSAConfig, mask: PositionalMask) -> DiSAConfig:
    """The DiSA layer that the authors' code has between blocks."""
    names = "c", "activation", "attention_dropout", "distance", "dense_dropout", "backend"
    return DiSAConfig.make(
        "code",
        heads=1,
        masks=mask.direction,
        include_self=mask.include_self,
        window=mask.window,
        **{name: getattr(config, name) for name in names},
    )
