"""The encoder with a head: a language model, a classifier and a tagger."""

from abc import abstractmethod
from typing import Any, ClassVar

from torch import Tensor, nn
from transformers.modeling_outputs import (
    MaskedLMOutput,
    ModelOutput,
    SequenceClassifierOutput,
    TokenClassifierOutput,
)
from transformers.utils import can_return_tuple

from ..layers.dropout import Dropout
from ..models.pool import build_pool
from .base import SelfattnPreTrainedModel, padding_of
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


class SelfattnForMaskedLM(SelfattnWithHead):
    """Guesses masked tokens; the output matrix is that of the embeddings unless config says no.

    ``labels`` are ``(B, T)``, -100 where none is asked for; ``logits`` ``(B, T, vocab_size)``;
    ``loss`` is the mean cross-entropy in nats.

    Args:
        config: sizes and switches.
    """

    _tied_weights_keys = {"lm_head.weight": "encoder.embeddings.tokens.weight"}
    output = MaskedLMOutput
    loss_type = "ForMaskedLM"

    def __init__(self, config: SelfattnConfig) -> None:
        super().__init__(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def logits(self, x: Tensor, input_ids: Tensor | None, attention_mask: Tensor | None) -> Tensor:
        """See ``SelfattnWithHead``."""
        y: Tensor = self.lm_head(x)
        return y


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
