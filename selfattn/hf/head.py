"""What the models have in common that put a head on the encoder."""

from abc import abstractmethod
from typing import Any, ClassVar

from torch import Tensor
from transformers.modeling_outputs import ModelOutput
from transformers.utils import can_return_tuple

from .base import SelfattnPreTrainedModel
from .config import SelfattnConfig
from .encoder import SelfattnModel


class SelfattnWithHead(SelfattnPreTrainedModel):
    """The encoder, logits of its output, and a loss where there are labels.

    Args:
        config: sizes and switches.
    """

    output: ClassVar[type[ModelOutput]]
    loss_type: str  # transformers' name of the loss

    def __init__(self, config: SelfattnConfig) -> None:
        super().__init__(config)
        self.loss_type = type(self).loss_type  # transformers has set what the class's name says
        self.encoder = SelfattnModel(config)

    @abstractmethod
    def logits(self, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor:
        """What the head makes of the encoder's output ``(B, T, C)``; the rest as for forward."""

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        **others: Any,
    ) -> ModelOutput:
        """Logits, and the loss of labels.

        Args:
            input_ids: tokens ``(B, T)``.
            attention_mask: see ``SelfattnModel.forward``.
            labels: as the class says.
            **others: see ``SelfattnModel.forward``.

        Returns:
            ``logits`` as the class says, ``hidden_states`` and, with labels, ``loss``.
        """
        encoded = self.encoder(input_ids, attention_mask, return_dict=True, **others)
        logits = self.logits(encoded.last_hidden_state, input_ids, attention_mask)
        loss = None
        if labels is not None:  # transformers' for this kind of model, which takes what it needs
            sizes = {"config": self.config, "vocab_size": self.config.vocab_size}
            loss = self.loss_function(logits=logits, pooled_logits=logits, labels=labels, **sizes)
        return self.output(loss=loss, logits=logits, hidden_states=encoded.hidden_states)
