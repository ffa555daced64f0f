"""The encoder as a tagger."""

from torch import Tensor, nn
from transformers.modeling_outputs import TokenClassifierOutput

from ..layers.dropout import Dropout
from .config import SelfattnConfig
from .head import SelfattnWithHead


class SelfattnForTokenClassification(SelfattnWithHead):
    """A label for each token.

    ``labels`` are ``(B, T)``, -100 where none is asked for; ``logits`` ``(B, T, num_labels)``;
    ``loss`` is the mean cross-entropy in nats.

    Args:
        config: sizes, switches and ``num_labels``.
    """

    output = TokenClassifierOutput
    loss_type = "ForTokenClassification"

    def __init__(self, config: SelfattnConfig) -> None:
        super().__init__(config)
        self.dropout = Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def logits(self, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor:
        """See ``SelfattnWithHead``."""
        y: Tensor = self.classifier(self.dropout(x))
        return y
