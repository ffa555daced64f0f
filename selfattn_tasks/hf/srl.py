"""The tagger of semantic roles as a model of transformers."""

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.modeling_outputs import TokenClassifierOutput
from transformers.utils import can_return_tuple

from selfattn.errors import UserError
from selfattn.hf import SelfattnPreTrainedModel
from selfattn.hf.base import check_types, padding_of, token_loss

from ..model_folder import KINDS, LACKS, check_labels
from ..srl.tagger.network import Tagger
from ..srl.tagger.state import KEY, TaggerState
from ..words.vocabulary import PADDING

# Inputs of words' characters and pieces.
_MORE = ("spellings", "places", "pieces", "firsts")


class SRLConfig(PreTrainedConfig):  # type: ignore[misc]
    """``config.json`` of a tagger; see ``selfattn_tasks.model_folder``."""

    model_type = KINDS[KEY][0]


class SRLForTokenClassification(SelfattnPreTrainedModel):
    """BIO labels of the words of a sentence for one predicate (``srl.tagger.network.Tagger``).

    Decoding and predicate identification are ``SRL.from_pretrained``'s, which reads the same
    folder. The loss is the mean cross-entropy of words in nats, after ``bio_crf``, too.

    Args:
        config: what ``selfattn export --to hf`` wrote.

    Attributes:
        vocabulary: words and labels and their numbers.
    """

    config_class = SRLConfig
    supports_gradient_checkpointing = False
    _lacks = LACKS

    def __init__(self, config: SRLConfig) -> None:
        super().__init__(config)
        state = TaggerState.load(config.task_state, config.name_or_path)
        assert state.config is not None
        check_labels(config, len(state.vocabulary.labels))
        self.vocabulary = state.vocabulary
        self.tagger = Tagger(state.config)
        self.post_init()

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        **others: Any,
    ) -> TokenClassifierOutput:
        """Logits, and the loss of labels.

        Args:
            input_ids: ``(B, T)``, of ``vocabulary.encode`` or the tokenizer; 0 is padding.
            attention_mask: ``(B, T)``, 1 for words to keep, 0 for padding.
            token_type_ids: ``(B, T)``, 1 at the predicate and 0 elsewhere; without it no word is
                marked, with which a tagger finds predicates.
            labels: ``(B, T)``, -100 where none is asked for.
            **others: ``spellings`` and ``places``, ``pieces`` and ``firsts`` where the tagger reads
                them (``Tagger.forward``); the rest, which trainers pass on, is not used.

        Returns:
            ``logits`` ``(B, T, labels)`` and, with labels, ``loss``.

        Raises:
            UserError: if the tagger reads characters or pieces and has none, the mask has another
                name, or attention weights or hidden states are asked for.
        """
        self.refuse(others)
        config = self.tagger.config
        for name, needed in (("spellings", config.characters), ("pieces", config.features)):
            if needed and name not in others:
                raise UserError(
                    f"this tagger reads {name}, too, which neither its tokenizer nor a pipeline "
                    "gives it; use selfattn_tasks.srl.SRL.from_pretrained"
                )
        padding = padding_of(input_ids, attention_mask, PADDING, input_ids[..., None])
        marked = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        check_types(marked, input_ids)
        more = {name: others[name] for name in _MORE if name in others}
        logits = self.tagger(input_ids, marked, padding, **more)
        loss = token_loss(logits, labels)
        return TokenClassifierOutput(loss=loss, logits=logits)
