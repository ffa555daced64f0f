"""The encoder as a classifier of sequences."""

from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput

from ..layers.dropout import Dropout
from ..models.pool import build_pool
from .base import padding_of
from .config import SelfattnConfig
from .head import SelfattnWithHead


class SelfattnForSequenceClassification(SelfattnWithHead):
    """Classes or scores of a sequence, from a pool over its tokens (source2token by default).

    ``labels`` are ``(B,)``: classes, or scores where ``num_labels`` is 1; ``logits``
    ``(B, num_labels)``; ``loss`` is that of ``config.problem_type``.

    Args:
        config: sizes, switches, ``pool`` and ``num_labels``.
    """

    output = SequenceClassifierOutput
    loss_type = "ForSequenceClassification"

    def __init__(self, config: SelfattnConfig) -> None:
        super().__init__(config)
        self.pool = build_pool(config.pool, config.hidden_size)
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def logits(self, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor:
        """See ``SelfattnWithHead``."""
        padding = padding_of(input_ids, attention_mask, self.config.pad_token_id, x)
        y: Tensor = self.classifier(self.dropout(self.pool(x, padding)))
        return y
