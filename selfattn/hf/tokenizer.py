"""The fast tokenizer of translation models."""

from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizerFast


class SelfattnTokenizer(PreTrainedTokenizerFast):  # type: ignore[misc]
    """SentencePiece's pieces with the numbers of fairseq's dictionary.

    The dictionary lacks pieces that never occur in the training text. They must be known here,
    since SentencePiece builds others of them and may yield them for new text; their numbers begin
    at ``known``, and come out as the unknown token, as in fairseq. Tokens that a user adds come
    behind them.

    Args:
        known: size of the dictionary; without it, all numbers stay.
        **kwargs: as for ``PreTrainedTokenizerFast``.
    """

    model_input_names = ("input_ids", "attention_mask")

    # No __init__: transformers would build another tokenizer than tokenizer.json says.

    @property
    def known(self) -> int | None:
        """Size of the dictionary."""
        size: int | None = self.init_kwargs.get("known")
        return size

    def train_new_from_iterator(self, *args: Any, **kwargs: Any) -> "SelfattnTokenizer":
        """See ``PreTrainedTokenizerFast``; all new pieces are known."""
        new: SelfattnTokenizer = super().train_new_from_iterator(*args, **kwargs)
        new.init_kwargs["known"] = None
        return new

    def convert_tokens_to_ids(self, tokens: Any) -> Any:
        """See ``PreTrainedTokenizerFast``."""
        return self._dictionary(super().convert_tokens_to_ids(tokens))

    def _encode_plus(self, *args: Any, **kwargs: Any) -> BatchEncoding:
        found = super()._encode_plus(*args, **kwargs)
        found["input_ids"] = self._dictionary(found["input_ids"])
        return found

    def _dictionary(self, ids: Any) -> Any:
        known = self.known
        if known is None or ids is None:
            return ids
        if isinstance(ids, list):
            return [self._dictionary(i) for i in ids]
        if isinstance(ids, int):
            return self.unk_token_id if known <= ids < self.vocab_size else ids
        unknown = (ids >= known) & (ids < self.vocab_size)  # a tensor or an array
        return ids * ~unknown + unknown * self.unk_token_id
