"""What mixes the words in a layer of the tagger: self-attention, or one of table 4's baselines."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from selfattn.config import CONFIGS, AttentionConfig
from selfattn.layers import build_attention
from selfattn.models import build_context


@dataclass(frozen=True)
class BiLSTMConfig(AttentionConfig):
    """The row Bi-LSTM of table 4 of Shen et al. (2019).

    ``attention_dropout`` is on the input of each layer's LSTM.
    """

    name: ClassVar[str] = "bilstm"
    context: ClassVar[str] = "lstm"
    switches: ClassVar[Mapping[str, Any]] = {}


@dataclass(frozen=True)
class CNNConfig(AttentionConfig):
    """The row Multi-CNN of table 4 of Shen et al. (2019): windows of 3, 4 and 5 words.

    ``attention_dropout`` is on the input of each layer's convolutions.
    """

    name: ClassVar[str] = "cnn"
    context: ClassVar[str] = "multi_cnn"
    switches: ClassVar[Mapping[str, Any]] = {"per_token": True}


# The baselines by the name that --encoder-attention takes, and everything a layer may hold.
BASELINES: Mapping[str, Any] = {config.name: config for config in (BiLSTMConfig, CNNConfig)}
SUBLAYERS: Mapping[str, type[AttentionConfig]] = {**CONFIGS, **BASELINES}


class ContextSublayer(nn.Module):
    """A baseline in the place of self-attention; all else in the layer stays.

    Half of the width goes to each direction of the Bi-LSTM, a third to each window of the
    Multi-CNN; a linear map follows where this does not add up to the width.

    Differs:
        The paper gives neither baseline's sizes for this task, and its code has neither. Here they
        replace the attention in each layer of Tan et al.'s network, at about its number of
        parameters. As with MTSA there is no timing signal, since both know the order of words.

    Args:
        config: which baseline.
        width: of the model, in features.
    """

    def __init__(self, config: BiLSTMConfig | CNNConfig, width: int) -> None:
        super().__init__()
        self.output_dim = width
        self.context = build_context(
            config.context, width, width // 2, dropout=config.attention_dropout, **config.switches
        )
        found = self.context.out_dim
        self.project = nn.Identity() if found == width else nn.Linear(found, width)

    def kept_parameters(self) -> list[nn.Parameter]:
        """The context's, which start as Glorot has it for gates and windows, with biases of 0."""
        return list(self.context.parameters())

    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """``(B, T, C)`` -> ``(B, T, C)``; padding, True in the mask ``(B, T)``, is not read."""
        return self.project(self.context(x, padding_mask))


def build_sublayer(config: AttentionConfig, width: int, heads: int) -> nn.Module:
    """The self-attention or the baseline that ``config`` asks for.

    Raises:
        UserError: if the sizes do not fit.
    """
    if isinstance(config, BiLSTMConfig | CNNConfig):
        return ContextSublayer(config, width)
    return build_attention(config, width, heads)
