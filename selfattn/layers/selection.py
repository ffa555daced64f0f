"""Hard selections of tokens, and what a policy gradient needs to know of them."""

import math
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ..errors import UserError
from ..masks import check_padding_mask
from ..ops.common.autograd import is_exporting
from .base import activation, xavier_linear
from .dropout import Dropout

# The authors' code clips probabilities at 1e-10 before their logarithm.
SMALLEST_LOG = math.log(1e-10)


class Selection(NamedTuple):
    """Tokens that a sampler selected in a batch of sentences; padding is never selected."""

    selected: Tensor  # bool (B, T)
    probability: Tensor  # (B, T), of being selected; 0 at padding
    log_probability: Tensor  # (B,), of the whole selection, in nats; differentiable
    entropy: Tensor  # (B,), mean over the real tokens, in nats
    share: Tensor  # (B,), selected / real tokens; 0 for a sentence of padding only

    @classmethod
    def everything(cls, real: Tensor) -> "Selection":
        """All real tokens ``(B, T)``, without a choice."""
        zeros = torch.zeros(real.shape[0], device=real.device)  # len() would fix an export's B
        return cls(real, real.float(), zeros, zeros, real.any(1).float())

    @classmethod
    def of(cls, selected: Tensor, logits: Tensor, real: Tensor) -> "Selection":
        """A choice with the logits ``(B, T)`` of being selected that it was made with."""
        log_p, log_not = (F.logsigmoid(t).clamp_min(SMALLEST_LOG) for t in (logits, -logits))
        p = torch.sigmoid(logits).masked_fill(~real, 0.0)
        chosen = torch.where(selected, log_p, log_not).masked_fill(~real, 0.0)
        with torch.no_grad():
            count = real.sum(1).clamp_min(1)
            entropy = -(p * log_p + (1 - p) * log_not).masked_fill(~real, 0.0).sum(1) / count
            share = selected.sum(1) / count
        return cls(selected, p.detach(), chosen.sum(1), entropy, share)


class Sampler(nn.Module, ABC):
    """Selects tokens; a subclass says how probable each is.

    The input is detached: what is learned from a selection reaches the sampler alone.

    Args:
        width: width C of the input.
        hidden: width of the hidden layer.
        activation_name: a name in ``selfattn.config.ACTIVATIONS``.
        dropout: dropout on the input of both linear maps.
        bias_init: initial value of the last bias.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        activation_name: str = "elu",
        dropout: float = 0.0,
        bias_init: float = 0.0,
    ) -> None:
        super().__init__()
        inputs = self.features(width, hidden)
        self.network = nn.Sequential(
            Dropout(dropout),
            xavier_linear(inputs, hidden),
            activation(activation_name),
            Dropout(dropout),
            last := xavier_linear(hidden, 1),
        )
        nn.init.constant_(last.bias, bias_init)

    @abstractmethod
    def features(self, width: int, hidden: int) -> int:
        """Width of what ``network`` turns into the logit of a token; arguments as of the class."""

    def kept_parameters(self) -> list[nn.Parameter]:
        """What an initialiser of the whole model leaves as it is."""
        return list(self.parameters())

    def forward(
        self,
        x: Tensor,
        padding_mask: Tensor | None = None,
        how: str = "sample",
        generator: torch.Generator | None = None,
    ) -> "Selection":
        """Select.

        Args:
            x: ``(B, T, C)``.
            padding_mask: bool ``(B, T)``, True = padding.
            how: ``"sample"``, or ``"threshold"``: probability of at least 0.5.
            generator: source of the samples; None takes torch's own.

        Returns:
            The selection, its numbers in float32 or, for float64 inputs, float64.
        """
        x = x.detach()
        real = real_tokens(x, padding_mask)
        noise = None
        if how == "sample":
            if is_exporting() and torch.onnx.is_in_onnx_export():
                raise UserError(
                    "a sampled selection cannot be exported to ONNX; use eval() and test_selection "
                    "'threshold'"
                )
            # Named, even None breaks a graph of torch.compile.
            own: dict[str, Any] = {} if generator is None else {"generator": generator}
            noise = torch.rand(x.shape[:2], device=x.device, **own)
        selected, logits = self.choose(x.masked_fill(~real[..., None], 0.0), real, noise)
        return Selection.of(selected, logits, real)

    @abstractmethod
    def choose(self, x: Tensor, real: Tensor, noise: Tensor | None) -> tuple[Tensor, Tensor]:
        """Selected, bool ``(B, T)``, and logits of being selected ``(B, T)``.

        By x ``(B, T, C)``, 0 where not real, and by noise ``(B, T)``, uniform in [0, 1); without
        noise by the threshold.
        """


class _Scaled(nn.Module):
    """A parameter that is stored divided by ``scale``."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, stored: Tensor) -> Tensor:
        return stored * self.scale

    def right_inverse(self, value: Tensor) -> Tensor:
        return value / self.scale


def scale_learning_rate(module: nn.Module, scale: float) -> None:
    """Let an optimizer that normalises gradients move a module's weights ``scale`` times as far.

    The weights keep their values and are stored divided by the scale. A step of Adam does not
    depend on the size of gradients, so its step on what is stored is ``scale`` times as long for
    the weight itself (an "equalized learning rate": Karras et al. 2018). Any engine, precision and
    checkpoint of weights takes it, where two optimizers or two rates are not to be had; torch
    cannot pickle the module itself. A scale of 1 changes nothing, not even the names of the
    parameters.
    """
    if scale == 1:
        return
    for part in list(module.modules()):
        for name, _ in list(part.named_parameters(recurse=False)):
            parametrize.register_parametrization(part, name, _Scaled(scale))


def real_tokens(x: Tensor, padding_mask: Tensor | None) -> Tensor:
    """Bool ``(B, T)``, False = padding; of x ``(B, T, C)`` only shape and device count."""
    check_padding_mask(padding_mask, x.shape[:2])
    if padding_mask is None:
        return torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)
    return ~padding_mask


def decide(logits: Tensor, real: Tensor, noise: Tensor | None) -> Tensor:
    """Where the noise is below the probability, or that at least 0.5 without; never padding."""
    p = torch.sigmoid(logits.detach())
    return real & (p >= 0.5 if noise is None else noise < p)
