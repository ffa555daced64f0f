"""Models of the tasks as Hugging Face folders; importing it registers the Auto classes."""

import selfattn.hf  # noqa: F401 - says what to install, and registers its own

from transformers import (  # isort: skip
    AutoConfig,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from .sentences import SentencesConfig, SentencesForSequenceClassification
from .srl import SRLConfig, SRLForTokenClassification
from .tokenizer import WordTokenizer

__all__ = [
    "SRLConfig",
    "SRLForTokenClassification",
    "SentencesConfig",
    "SentencesForSequenceClassification",
    "WordTokenizer",
]

for _auto, _config, _model in (
    (AutoModelForTokenClassification, SRLConfig, SRLForTokenClassification),
    (AutoModelForSequenceClassification, SentencesConfig, SentencesForSequenceClassification),
):
    AutoConfig.register(_config.model_type, _config)
    AutoTokenizer.register(_config, fast_tokenizer_class=WordTokenizer)
    _auto.register(_config, _model)
