"""The ReSA layer: DiSA among tokens that two samplers select."""

import functools
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..config.resa import ReSAConfig
from ..errors import UserError
from ..ops.common.autograd import is_exporting
from .base import working
from .disa import DiSA
from .inspection import Inspection, looking_into
from .iterative_sampling import IterativeSampling
from .rss import RSS
from .selection import Sampler, Selection, real_tokens, scale_learning_rate

logger = logging.getLogger(__name__)
_SAMPLERS: Mapping[str, type[Sampler]] = {"parallel": RSS, "iterative": IterativeSampling}


class Choice(NamedTuple):
    """What a layer selected in one batch."""

    heads: Selection
    dependents: Selection

    @property
    def log_probability(self) -> Tensor:
        """Of both together ``(B,)``; a shared selection counts once."""
        log_p = self.heads.log_probability
        return log_p if self.heads is self.dependents else log_p + self.dependents.log_probability


def _attended(config: ReSAConfig) -> ReSAConfig:
    """The configuration of the layer that attends; without one, of the smallest that there is."""
    if config.soft_attention:
        return config
    bare = {"input_map": False, "activation": "none", "fusion_gate": False, "head_dim": None}
    return config.with_switches(heads=1, masks="none", window=None, **bare)


@functools.cache
def _warn_once() -> None:
    logger.warning(
        "attention 'resa' selects every token, as 'disa' does: its samplers are trained only by "
        "--criterion policy_gradient, or in Python by select_all = False and take_choice()"
    )


@functools.cache
def _warn_of_no_graph_once() -> None:
    logger.warning(
        "attention 'resa' selects in training without gradients, so take_choice() has none: with "
        "gradient checkpointing, give use_reentrant=False"
    )


class ReSA(DiSA):
    """Reinforced self-attention (ReSAN, Shen et al. 2018, IJCAI, eq. 8-15).

    Two samplers select heads and dependents. A head attends to the dependents that its mask lets
    it see, as in ``DiSA``; a token that is no head gets a mean. Only selected tokens are projected,
    and the operator's C kernel packs them into short sequences.

    A selection has no derivative: the samplers, ``policy_parameters()``, learn by policy gradient
    from ``take_choice()``. Until ``select_all`` is set to False every token is selected, which
    makes the layer DiSA; this switch is a part of ``state_dict()``. The module keeps what its last
    forward selected: threads that select each need a copy of it.

    Args:
        config: the switches; ``ReSAConfig.make("code")`` is what the authors trained.
        embed_dim: width C of the input.
        num_heads: number of heads where ``config.heads`` is 0.

    Raises:
        UserError: if the heads do not divide the width, or the masks do not fit the heads.

    Attributes:
        select_all: select every token, without the samplers.
        reward_mean: a running mean that training may keep here, in the checkpoint.
        has_policy: set to True by what trains the samplers; else training warns once.

    Differs:
        At test time a token is selected where its probability is at least 0.5; the authors' code
        samples there, too (``test_selection``). It feeds the samplers word vectors, as does this
        layer when it is the first one. A selected head that sees no dependent, such as the first
        token of a forward direction, gets 0, as in the authors' code: by equation 12 its softmax is
        over minus infinity alone, which the paper reads as the mean of the dependents where a token
        is no head.

    Example:
        >>> import torch
        >>> layer = ReSA(ReSAConfig.make("code"), embed_dim=64, num_heads=4)
        >>> layer.select_all = False
        >>> y = layer(torch.randn(2, 7, 64))
        >>> layer.take_choice().log_probability.shape
        torch.Size([2])
    """

    config: ReSAConfig
    config_class = ReSAConfig

    def __init__(self, config: ReSAConfig, embed_dim: int, num_heads: int) -> None:
        super().__init__(_attended(ReSAConfig.checked(config)), embed_dim, num_heads)
        self.config = config
        self.masks = ()  # samplers and means look beyond them
        if not config.soft_attention:
            del self.attention
        hidden, dropout = config.sampler_hidden or embed_dim, config.dense_dropout
        options = (embed_dim, hidden, config.sampler_activation, dropout, config.sampler_bias_init)
        self.head_sampler: Sampler | None = None
        self.dependent_sampler: Sampler | None = None
        if config.sampler != "none":
            self.head_sampler = _SAMPLERS[config.sampler](*options)  # eq. 8
            if config.soft_attention and not config.shared_selection:
                self.dependent_sampler = _SAMPLERS[config.sampler](*options)  # eq. 9
        for sampler in (self.head_sampler, self.dependent_sampler):
            if sampler is not None:
                scale_learning_rate(sampler, config.sampler_lr_scale)
        self.select_all, self.has_policy = True, False
        self.reward_mean: float | None = None
        self._choice: Choice | None = None

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """See ``SelfAttention.forward``."""
        silent = self.has_policy or torch.compiler.is_compiling()  # a logger breaks a graph
        if self.training and self.select_all and self.head_sampler is not None and not silent:
            _warn_once()
        y = super().forward(x, padding_mask)
        dropped = self.dropped()
        if dropped is not None:
            y = y.masked_fill(dropped[..., None], 0.0)
        if self.training and torch.is_grad_enabled():
            # Zeros, so that no process waits for gradients that never come.
            y = y + 0.0 * sum(p.flatten()[0] for p in self.policy_parameters())
        return y

    def take_choice(self) -> Choice | None:
        """What the last forward selected; None if there was none since the last call."""
        choice, self._choice = self._choice, None
        return choice

    def dropped(self) -> Tensor | None:
        """Tokens that the last forward left without an output, bool ``(B, T)``; None: no token."""
        drops = self.config.unselected == "nothing" or not self.config.soft_attention
        if not drops or self._selects_all() or self._choice is None:
            return None
        return ~self._choice.heads.selected

    def _selects_all(self) -> bool:
        return self.select_all or self.head_sampler is None

    def policy_parameters(self) -> list[nn.Parameter]:
        """See ``SelfAttention.policy_parameters``: the samplers'."""
        samplers = (self.head_sampler, self.dependent_sampler)
        return [p for sampler in samplers if sampler is not None for p in sampler.parameters()]

    def inspect(self, x: Tensor, padding_mask: Tensor | None = None) -> Inspection:
        """See ``SelfAttention.inspect``; no probabilities while every token is selected."""
        awaited = self._choice  # by a policy's loss
        if self.config.soft_attention:
            found = super().inspect(x, padding_mask)
        else:
            with looking_into(self):
                self(x, padding_mask)
            found = Inspection(())
        choice = self.take_choice()
        assert choice is not None  # for the type checker
        self._choice = awaited
        found = replace(found, heads=choice.heads.selected, dependents=choice.dependents.selected)
        if self._selects_all():
            return found
        return replace(
            found,
            head_probability=choice.heads.probability,
            dependent_probability=choice.dependents.probability,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Copies take no graph of the last forward along."""
        return {**self.__dict__, "_choice": None}

    def get_extra_state(self) -> Tensor:
        """What ``state_dict`` stores besides the parameters: always as many numbers."""
        mean = [0.0, 0.0] if self.reward_mean is None else [self.reward_mean, 1.0]
        # On the CPU whatever device is the default: "meta" would lose the numbers.
        return torch.tensor([float(self.select_all), *mean], dtype=torch.float64, device="cpu")

    def set_extra_state(self, state: Tensor) -> None:
        """Restore what ``get_extra_state`` stored."""
        select_all, *rest = state.tolist()
        # Earlier checkpoints have nothing behind it, or the mean alone.
        mean, known = rest if len(rest) == 2 else [*rest, 1.0] if rest else [0.0, 0.0]
        self.select_all = select_all > 0.5
        self.reward_mean = mean if known else None

    def _context(self, x: Tensor, h: Tensor, padding_mask: Tensor | None) -> Tensor:
        """Eq. 10-13: attention of the heads, a mean for the other tokens."""
        choice = self._choice = self._choose(x, padding_mask)
        if not self.config.soft_attention:
            return h
        if self._selects_all():
            return super()._context(x, h, padding_mask)
        heads, dependents = choice.heads.selected, choice.dependents.selected
        context = self.attention(h, padding_mask, heads, dependents)
        mean = self._mean(h, dependents, real_tokens(h, padding_mask))
        return torch.where(heads[..., None], context, mean.to(context.dtype))

    def _weights(self, h: Tensor, padding_mask: Tensor | None) -> Tensor:
        assert self._choice is not None  # _context comes first
        heads, dependents = self._choice
        return self.attention.weights(h, padding_mask, heads.selected, dependents.selected)

    def _choose(self, x: Tensor, padding_mask: Tensor | None) -> Choice:
        """Select by the layer's input; padding is never selected."""
        if self.head_sampler is None or self.select_all:
            everything = Selection.everything(real_tokens(x, padding_mask))
            return Choice(everything, everything)
        how, generator = "sample", None
        if not self.training:
            how = self.config.test_selection
            if how == "sample" and self.config.test_seed is not None and not x.is_meta:
                if is_exporting():
                    raise UserError(
                        "attention 'resa' cannot be exported with test_seed "
                        f"{self.config.test_seed}: a graph holds no generator; leave it out"
                    )
                generator = torch.Generator(x.device).manual_seed(self.config.test_seed)
        elif not torch.is_grad_enabled() and not torch.compiler.is_compiling():
            _warn_of_no_graph_once()
        heads = self.head_sampler(x, padding_mask, how, generator)
        if self.dependent_sampler is None:
            return Choice(heads, heads)
        return Choice(heads, self.dependent_sampler(x, padding_mask, how, generator))

    def _mean(self, h: Tensor, dependents: Tensor, real: Tensor) -> Tensor:
        """What a token that is no head gets, ``(B, T or 1, H * D)``; 0 as the mean of nothing.

        Differs: the authors' code takes the mean of all other tokens (``"others"``), the paper
        that of the dependents.
        """
        if self.config.unselected == "nothing":
            return torch.zeros_like(h)
        chosen, h = dependents if self.config.unselected == "dependents" else real, working(h)
        total = h.masked_fill(~chosen[..., None], 0.0).sum(1, keepdim=True)
        count = chosen.sum(1)[:, None, None]
        if self.config.unselected == "others":
            total, count = total - h, count - 1
        return (total / count.clamp_min(1)).masked_fill(count < 1, 0.0)
