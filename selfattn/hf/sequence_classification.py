"""The encoder as a classifier of sequences."""

from typing import Any

from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import can_return_tuple

from ..layers.dropout import Dropout
from ..models.pool import build_pool
from .base import SelfattnPreTrainedModel, padding_of
from .config import SelfattnConfig
from .encoder import SelfattnModel


class SelfattnForSequenceClassification(SelfattnPreTrainedModel):
    """Classes or scores of a sequence, from a pool over its tokens (source2token by default).

    Args:
        config: sizes, switches, ``pool`` and ``num_labels``.
    """

    def __init__(self, config: SelfattnConfig) -> None:
        super().__init__(config)
        self.encoder = SelfattnModel(config)
        self.pool = build_pool(config.pool, config.hidden_size)
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **others: Any,
    ) -> SequenceClassifierOutput:
        """Logits of each sequence.

        Args:
            input_ids: tokens ``(B, T)``.
            attention_mask: see ``SelfattnModel.forward``.
            labels: ``(B,)`` classes, or scores where ``num_labels`` is 1.
            **others: see ``SelfattnModel.forward``.

        Returns:
            ``logits`` ``(B, num_labels)`` and, with labels, the loss of ``config.problem_type``.
        """
        encoded = self.encoder(input_ids, attention_mask, **others)
        x = encoded.last_hidden_state
        padding = padding_of(input_ids, attention_mask, self.config.pad_token_id, x)
        logits = self.classifier(self.dropout(self.pool(x, padding)))
        loss = None
        if labels is not None:
            loss = self.loss_function(labels=labels, pooled_logits=logits, config=self.config)
        return SequenceClassifierOutput(
            loss=loss, logits=logits, hidden_states=encoded.hidden_states
        )
