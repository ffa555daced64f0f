"""The encoder as a tagger."""

from typing import Any

from torch import Tensor, nn
from transformers.modeling_outputs import TokenClassifierOutput
from transformers.utils import can_return_tuple

from ..layers.dropout import Dropout
from .base import SelfattnPreTrainedModel
from .config import SelfattnConfig
from .encoder import SelfattnModel


class SelfattnForTokenClassification(SelfattnPreTrainedModel):
    """A label for each token.

    Args:
        config: sizes, switches and ``num_labels``.
    """

    def __init__(self, config: SelfattnConfig) -> None:
        super().__init__(config)
        self.encoder = SelfattnModel(config)
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
    ) -> TokenClassifierOutput:
        """Logits of each token.

        Args:
            input_ids: tokens ``(B, T)``.
            attention_mask: see ``SelfattnModel.forward``.
            labels: ``(B, T)``, -100 where none is asked for.
            **others: see ``SelfattnModel.forward``.

        Returns:
            ``logits`` ``(B, T, num_labels)`` and, with labels, the mean cross-entropy in nats.
        """
        encoded = self.encoder(input_ids, attention_mask, **others)
        logits = self.classifier(self.dropout(encoded.last_hidden_state))
        loss = None if labels is None else self.loss_function(logits, labels, self.config)
        return TokenClassifierOutput(loss=loss, logits=logits, hidden_states=encoded.hidden_states)
