"""The MTSA layer: projections and gates around the operator."""

from typing import ClassVar

import torch
from torch import Tensor, nn

from ..config import MTSAConfig
from ..errors import UserError
from ..masks import head_masks, visible_pairs
from ..ops import mtsa
from ..ops.common.distance import by_position
from ..ops.mtsa.reference import log_sigmoid
from .base import (
    SelfAttention,
    activation,
    join_heads,
    output_map,
    scaled_products,
    split_heads,
    working,
    xavier_linear,
    zero_padding,
)
from .distance import distance_bias
from .dropout import Dropout
from .fusion_gate import FusionGate
from .inspection import Inspection, looking_into, mask_names, visible_softmax
from .linear import PerHeadLinear, is_plain, map_heads
from .selection import real_tokens
from .source2token_scores import Source2TokenScores


class MTSA(SelfAttention):
    """Multi-mask tensorized self-attention (Shen et al. 2019, eq. 7-13).

    A score for each feature of each pair of tokens: what both say, and what the key alone says.
    Half of the heads see only what is before a token, half what is after it.
    ``MTSAConfig.make(preset)`` has four published forms:

    - ``paper``: the equations as printed; masks forward and backward.
    - ``nmt``: what the authors translate with; no masks, fewer parameters.
    - ``srl``: what they label semantic roles with; masks, scores from the layer's input, biases.
    - ``sentence``: what they encode sentences with; masks, a gate instead of an output map.

    Each switch of ``MTSAConfig`` changes one setting: ``MTSAConfig.make("nmt", window=5)``. Tokens
    ``(B, T, C)`` go in and come out; in ``padding_mask``, bool ``(B, T)``, True is padding.

    Args:
        config: the switches; ``MTSAConfig.make("paper")`` is the paper's form.
        embed_dim: width C of the input.
        num_heads: number of heads H.

    Raises:
        UserError: if the heads do not divide the width, or the masks do not fit the heads.

    Differs:
        The authors' code holds five variants that depart from the paper; see ``MTSAConfig``.
        Dropout on the input is drawn once for all heads, in the code of sentences for each.

    Example:
        >>> import torch
        >>> from selfattn.config import MTSAConfig
        >>> from selfattn.masks import padding_from_lengths
        >>> layer = MTSA(MTSAConfig.make("nmt"), embed_dim=64, num_heads=4)
        >>> layer(torch.randn(2, 7, 64), padding_from_lengths([7, 5])).shape
        torch.Size([2, 7, 64])
    """

    config_class: ClassVar[type[MTSAConfig]] = MTSAConfig

    def __init__(self, config: MTSAConfig, embed_dim: int, num_heads: int) -> None:
        super().__init__(embed_dim, num_heads)
        self.config = self.config_class.checked(config)
        self.masks = head_masks(config.masks, num_heads, config.include_self, config.window)
        attends = config.scores != "none"
        self.distance = distance_bias(self.masks, config.distance) if attends else None
        width = self.head_width(config.head_dim)
        key_width = width if config.key_dim is None else config.key_dim
        self.output_dim = embed_dim if config.output_projection else num_heads * width
        gain = config.qkv_init_gain

        self.dropout = Dropout(config.dense_dropout)
        parts = num_heads if config.qk_input == "value" else 1  # there a map for each head
        self.v_proj = xavier_linear(embed_dim, num_heads * width, config.value_bias, gain, parts)
        self.value_activation = activation(config.value_activation)
        pairs = config.scores in ("both", "token2token")
        keys = pairs or (config.scores == "source2token" and config.s2t_input == "key")
        self.q_proj = self._key_projection(width, key_width) if pairs else None
        self.k_proj = self._key_projection(width, key_width) if keys else None
        own = config.scores in ("both", "source2token")
        self.source2token = self._scores(width, key_width) if own else None
        gated = config.fusion_gate and attends
        self.gate = FusionGate(num_heads, width, config.dense_dropout) if gated else None
        self.out_proj = output_map(config, num_heads * width, embed_dim)
        self.output_activation = activation(config.output_activation)

    def _key_projection(self, width: int, key_width: int) -> nn.Module:
        """That of queries or of keys (eq. 7)."""
        heads, bias, gain = self.num_heads, self.config.qk_bias, self.config.qkv_init_gain
        if self.config.qk_input == "input":
            return xavier_linear(self.embed_dim, heads * key_width, bias, gain)
        return PerHeadLinear(heads, width, key_width, bias, gain)

    def _scores(self, width: int, key_width: int) -> Source2TokenScores:
        """The source2token network (eq. 9)."""
        config = self.config
        inputs = {"key": key_width, "value": width, "input": self.embed_dim}[config.s2t_input]
        if config.s2t_sharing == "joint" and config.s2t_input != "input":
            inputs *= self.num_heads
        return Source2TokenScores(
            self.num_heads,
            inputs,
            width,
            layers=config.s2t_layers,
            hidden=config.s2t_hidden,
            sharing=config.s2t_sharing,
            activation_name=config.s2t_activation,
            bias_init=config.s2t_bias_init,
            dropout=config.dense_dropout,
        )

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """See ``SelfAttention.forward``."""
        q, k, v, s = self._project(x, padding_mask)
        context = self._attend(q, k, v, s, padding_mask)
        if self.gate is not None:
            context = self.gate(v, context)
        y = join_heads(context)  # (B, T, H * D)
        if self.out_proj is not None:
            y = self.output_activation(self.out_proj(self.dropout(y)))  # eq. 13
        return zero_padding(y, padding_mask) if self.config.zero_padding else y

    def inspect(self, x: Tensor, padding_mask: Tensor | None = None) -> Inspection:
        """See ``SelfAttention.inspect``; weights by equation 11, feature after feature."""
        if self.config.scores == "none":
            raise UserError("scores 'none' leaves no attention to look at")
        with looking_into(self):
            q, k, v, s = self._project(x, padding_mask)
            visible = visible_pairs(self.masks, x.shape[1], padding_mask, x.device)
            pair = scaled_products(q, k)  # eq. 8
            if self.config.sigma_t == "logsigmoid":
                pair = log_sigmoid(pair)
            if self.distance is not None:
                pair = pair + by_position(self.distance(x))
            weights = working(torch.zeros_like(pair))
            for feature in s.unbind(-1):  # eq. 11; all at once would be T x T x D
                weights += visible_softmax(pair + feature[:, :, None], visible)
            source = gate = None
            if self.source2token is not None:
                real = real_tokens(x, padding_mask)[:, None, None]
                source = visible_softmax(s.transpose(-1, -2), real).mean(-2)  # (B, H, T)
            if self.gate is not None:
                context = self._attend(q, k, v, s, padding_mask)
                gate = self.gate(v, context, share_only=True).mean(-1)
        return Inspection(mask_names(self.masks), weights / s.shape[-1], source, gate)

    def _project(
        self, x: Tensor, padding_mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries, keys ``(B, H, T, key_dim)``; values ``(B, H, T, D)``; scores, D or 1 of them."""
        x = self.check_input(x, padding_mask)
        v = split_heads(self.value_activation(self.v_proj(self.dropout(x))), self.num_heads)
        q, k = self._queries_and_keys(x, v)  # eq. 7
        s = None
        if self.source2token is not None:
            source = {"key": k, "value": v, "input": x}[self.config.s2t_input]
            s = self._sigma_s(self.source2token(source))  # eq. 9
        if q is None:  # all scores of pairs are alike
            k = torch.zeros_like(v) if k is None else k
            q = torch.zeros_like(k)
        assert k is not None
        if s is None:  # one score for all features costs less; dropout has a factor for each
            drops = self.training and self.config.attention_dropout > 0
            s = v.new_zeros(*v.shape[:-1], v.shape[-1] if drops else 1)
        return q, k, v, s

    def _queries_and_keys(self, x: Tensor, v: Tensor) -> tuple[Tensor | None, Tensor | None]:
        """Queries and keys ``(B, H, T, key_dim)``, or what has the same products of both."""
        q, k = self.q_proj, self.k_proj
        if self.source2token is not None and self.config.s2t_input == "key":
            return self._map(q, x, v), self._map(k, x, v)  # the scores need k itself
        if isinstance(q, PerHeadLinear) and isinstance(k, PerHeadLinear) and _is_longer(v, q, k):
            # (v Wq) (v Wk)^T = (v Wq Wk^T) v^T takes one product with all tokens less.
            both = torch.bmm(q.weight, k.weight.transpose(1, 2))  # (H, D, D)
            return map_heads(self.dropout(v), both), self.dropout(v)
        return self._map(q, x, v), self._map(k, x, v)

    def _map(self, projection: nn.Module | None, x: Tensor, v: Tensor) -> Tensor | None:
        """Queries or keys ``(B, H, T, key_dim)``, if there is a projection."""
        if projection is None:
            return None
        if self.config.qk_input == "input":
            return split_heads(projection(self.dropout(x)), self.num_heads)
        y: Tensor = projection(self.dropout(v))
        return y

    def _attend(
        self, q: Tensor, k: Tensor, v: Tensor, s: Tensor, padding_mask: Tensor | None
    ) -> Tensor:
        """Contexts ``(B, H, T, D)`` (eq. 10-12)."""
        if self.config.scores == "none":
            return v
        return mtsa(
            q,
            k,
            v,
            s,
            masks=self.masks,
            padding_mask=padding_mask,
            sigma_t=self.config.sigma_t,
            dropout_p=self.config.attention_dropout if self.training else 0.0,
            distance_bias=None if self.distance is None else self.distance(q),
            backend=self.config.backend,
        )

    def _sigma_s(self, s: Tensor) -> Tensor:
        """sigma_s of eq. 10."""
        if self.config.sigma_s == "identity":
            return s
        if self.config.sigma_s == "scaled_logsigmoid":
            s = s * s.shape[-1] ** -0.5  # the bias is inside of the scaling, as in the code
        return log_sigmoid(s)


def _is_longer(v: Tensor, q: PerHeadLinear, k: PerHeadLinear) -> bool:
    """Whether a product with the batch's tokens costs more than one of both projections does."""
    if torch.compiler.is_compiling() or q.bias is not None or not (is_plain(q) and is_plain(k)):
        return False  # a graph is to hold for every number of tokens
    _, width, key_width = q.weight.shape
    exact = v.dtype is q.weight.dtype and v.dtype.itemsize >= 4  # no sum of halves more
    return exact and key_width == width and v.shape[0] * v.shape[2] >= 2 * width
