"""The encoder with a language model's head."""

from torch import Tensor, nn
from transformers.modeling_outputs import MaskedLMOutput

from .config import SelfattnConfig
from .head import SelfattnWithHead


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
