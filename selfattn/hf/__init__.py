"""Models for Hugging Face transformers: the encoders of this project with the usual heads.

Importing this package registers the classes with transformers' Auto classes. It is the only part
of the core that needs transformers: ``pip install selfattn[hf]``.
"""
# ruff: noqa: E402

from ..errors import needed

# Of it a part that loads torchaudio, too, where there is one.
needed("transformers.modeling_layers", "selfattn[hf]")

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from .base import SelfattnPreTrainedModel
from .config import SelfattnConfig
from .encoder import SelfattnModel
from .heads import (
    SelfattnForMaskedLM,
    SelfattnForSequenceClassification,
    SelfattnForTokenClassification,
)
from .tokenizer import SelfattnTokenizer
from .translation import SelfattnForConditionalGeneration

__all__ = [
    "SelfattnConfig",
    "SelfattnForConditionalGeneration",
    "SelfattnForMaskedLM",
    "SelfattnForSequenceClassification",
    "SelfattnForTokenClassification",
    "SelfattnModel",
    "SelfattnPreTrainedModel",
    "SelfattnTokenizer",
]

AutoConfig.register(SelfattnConfig.model_type, SelfattnConfig)
AutoTokenizer.register(SelfattnConfig, fast_tokenizer_class=SelfattnTokenizer)
for _auto, _model in (
    (AutoModel, SelfattnModel),
    (AutoModelForMaskedLM, SelfattnForMaskedLM),
    (AutoModelForSeq2SeqLM, SelfattnForConditionalGeneration),
    (AutoModelForSequenceClassification, SelfattnForSequenceClassification),
    (AutoModelForTokenClassification, SelfattnForTokenClassification),
):
    _auto.register(SelfattnConfig, _model)
