"""Models for Hugging Face transformers: the encoders of this project with the usual heads.

Importing this package registers the classes with transformers' Auto classes. It is the only part
of the core that needs transformers: ``pip install selfattn[hf]``.
"""

from ..errors import needed

# Of it a part that loads torchaudio, too, where there is one.
needed("transformers.modeling_layers", "selfattn[hf]")

from transformers import (  # noqa: E402
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from .base import SelfattnPreTrainedModel  # noqa: E402
from .config import SelfattnConfig  # noqa: E402
from .encoder import SelfattnModel  # noqa: E402
from .masked_lm import SelfattnForMaskedLM  # noqa: E402
from .sequence_classification import SelfattnForSequenceClassification  # noqa: E402
from .token_classification import SelfattnForTokenClassification  # noqa: E402
from .tokenizer import SelfattnTokenizer  # noqa: E402
from .translation import SelfattnForConditionalGeneration  # noqa: E402

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
