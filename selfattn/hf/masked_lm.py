"""The encoder with a language model's head."""

from typing import Any

from torch import Tensor, nn
from transformers.modeling_outputs import MaskedLMOutput
from transformers.utils import can_return_tuple

from .base import SelfattnPreTrainedModel
from .config import SelfattnConfig
from .encoder import SelfattnModel


class SelfattnForMaskedLM(SelfattnPreTrainedModel):
    """Guesses masked tokens; the output matrix is that of the embeddings unless config says no.

    Args:
        config: sizes and switches.
    """

    _tied_weights_keys = {"lm_head.weight": "encoder.embeddings.tokens.weight"}  # noqa: RUF012

    def __init__(self, config: SelfattnConfig) -> None:
        super().__init__(config)
        self.encoder = SelfattnModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def get_output_embeddings(self) -> nn.Module:
        """See ``PreTrainedModel``."""
        return self.lm_head

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **others: Any,
    ) -> MaskedLMOutput:
        """Logits of each token.

        Args:
            input_ids: tokens ``(B, T)``.
            attention_mask: see ``SelfattnModel.forward``.
            labels: ``(B, T)``, -100 where none is asked for.
            **others: see ``SelfattnModel.forward``.

        Returns:
            ``logits`` ``(B, T, vocab_size)`` and, with labels, the mean cross-entropy in nats.
        """
        encoded = self.encoder(input_ids, attention_mask, **others)
        logits = self.lm_head(encoded.last_hidden_state)
        loss = None
        if labels is not None:
            loss = self.loss_function(logits, labels, vocab_size=self.config.vocab_size)
        return MaskedLMOutput(loss=loss, logits=logits, hidden_states=encoded.hidden_states)
