"""The models of sentences as models of transformers."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from transformers import PreTrainedConfig
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils import can_return_tuple

from selfattn.errors import UserError
from selfattn.hf import SelfattnPreTrainedModel
from selfattn.hf.base import check_types, refuse_types
from selfattn.masks import padding_from_attention_mask
from selfattn.models.relatedness_head import distribution

from ..model_folder import KINDS, LACKS, check_labels
from ..sentences.model.network import SentenceModel, pad
from ..sentences.model.state import KEY, SentenceState
from ..sentences.record import HIGHEST, LOWEST, SCORES, Kind
from ..words.vocabulary import PADDING


class SentencesConfig(PreTrainedConfig):  # type: ignore[misc]
    """``config.json`` of a model of sentences; see ``selfattn_tasks.model_folder``."""

    model_type = KINDS[KEY][0]


class SentencesForSequenceClassification(SelfattnPreTrainedModel):
    """Classes, scores or a choice of sentences (``sentences.model.network.SentenceModel``).

    The loss is the mean cross-entropy in nats; that of a score has the score's distribution as
    target, and differs from the published divergence (Bi-BloSAN eq. 26) by a constant.

    Args:
        config: what ``selfattn export --to hf`` wrote.

    Attributes:
        state: words, labels, and how texts become words.
    """

    config_class = SentencesConfig
    supports_gradient_checkpointing = False
    _lacks = LACKS

    def __init__(self, config: SentencesConfig) -> None:
        super().__init__(config)
        self.state = SentenceState.load(config.task_state, config.name_or_path)
        assert self.state.config is not None
        check_labels(config, len(self.state.vocabulary.labels or SCORES))
        self.network = SentenceModel(self.state.config)
        self.post_init()

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
        missing: Tensor | None = None,
        **unused: Any,
    ) -> SequenceClassifierOutput:
        """Logits, and the loss of labels.

        Args:
            input_ids: ``(B, S, T)`` of S sentences per example, or ``(B, T)`` of one; numbers of
                ``state.vocabulary.encode``, 0 at padding.
            attention_mask: of the same shape, 1 for words to keep, 0 for padding.
            token_type_ids: ``(B, T)``, where both sentences of a pair stand in one row: 0 at the
                words of the first, 1 at those of the second.
            labels: ``(B,)``: classes, scores, or numbers of candidates.
            missing: as for ``SentenceModel.forward``.
            **unused: what trainers pass on.

        Returns:
            ``logits`` as of ``SentenceModel.forward`` and, with labels, ``loss``.

        Raises:
            UserError: if the mask is wrong or has another name, there are too few sentences or too
                many, a score is outside of the scale, or attention weights or hidden states are
                asked for.
        """
        self.refuse(unused)
        if self.state.kind.shape == "single":
            refuse_types(token_type_ids)
        if attention_mask is not None and input_ids.dim() > 1:
            if attention_mask.shape != input_ids.shape:
                raise UserError(
                    f"attention_mask has shape {tuple(attention_mask.shape)}; it must be that of "
                    f"input_ids, {tuple(input_ids.shape)}"
                )
            padding = padding_from_attention_mask(attention_mask.flatten(0, -2))
            input_ids = input_ids.masked_fill(padding.view_as(input_ids), PADDING)
        words = input_ids[:, None] if input_ids.dim() == 2 else input_ids
        if self.state.kind.shape == "pair" and input_ids.dim() == 2:
            words = _pairs(input_ids, token_type_ids)
        if words.dim() != 3 or not self.state.kind.accepts(words.shape[1]):
            raise UserError(
                f"input_ids has shape {tuple(input_ids.shape)}; this model reads "
                f"{self.state.kind.takes} per example, (B, S, T)"
            )
        logits = self.network(words, missing)
        loss = None
        if labels is not None:
            if self.state.kind is Kind.RELATEDNESS:
                if not ((labels >= LOWEST) & (labels <= HIGHEST)).all():
                    raise UserError(
                        f"labels lie between {labels.min()} and {labels.max()}; scores from "
                        f"{LOWEST:g} to {HIGHEST:g} are allowed"
                    )
                labels = distribution(labels.to(logits.device).float())
            loss = F.cross_entropy(logits.float(), labels)  # as of the other heads
        return SequenceClassifierOutput(loss=loss, logits=logits)


def _pairs(input_ids: Tensor, token_type_ids: Tensor | None) -> Tensor:
    """The sentences of pairs ``(B, T)`` apart ``(B, 2, T')``; see ``forward``."""
    # The tokenizer gives an empty second sentence one padding token, of type 1.
    if token_type_ids is None or not token_type_ids.any(-1).all():
        raise UserError(
            "this model compares two sentences: give input_ids of 3 dimensions, or token_type_ids "
            "that are 1 at the second; if truncation cut it off, a larger max_length"
        )
    check_types(token_type_ids, input_ids)
    rows = [
        [row[(kinds == side) & (row != PADDING)].cpu().numpy() for side in (0, 1)]
        for row, kinds in zip(input_ids, token_type_ids, strict=True)
    ]
    if not rows:  # from which their number cannot be told
        return input_ids.new_zeros(0, 2, 1)
    return pad(rows)[0].to(input_ids.device)
