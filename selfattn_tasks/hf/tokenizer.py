"""The fast tokenizer of taggers and models of sentences: one number for each word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from transformers import BatchEncoding, PreTrainedTokenizerFast

from selfattn.errors import UserError, needed

from ..sentences.tokens import Tokens
from ..words.vocabulary import FIRST_WORD, PADDING, UNKNOWN, Vocabulary


class WordTokenizer(PreTrainedTokenizerFast):  # type: ignore[misc]
    """Words with the numbers of ``Vocabulary.encode``, of texts or (``is_split_into_words``) words.

    The word-level model of ``tokenizers`` knows a word as it stands alone, and no rule of
    :class:`Tokens`. Both are done here, before it. A text without words is one padding token.

    Args:
        tokens: fields of ``Tokens``; None where words have spaces between them.
        **kwargs: as for ``PreTrainedTokenizerFast``.
    """

    model_input_names = ("input_ids", "attention_mask")

    # No __init__, as in selfattn.hf.SelfattnTokenizer.

    @classmethod
    def build(
        cls, vocabulary: Vocabulary, tokens: Mapping[str, Any] | None = None, pairs: bool = False
    ) -> WordTokenizer:
        """The tokenizer of a model.

        Args:
            vocabulary: of the model.
            tokens: as for the class.
            pairs: the model reads two sentences, told apart by ``token_type_ids``.
        """
        t = needed("tokenizers", "selfattn[hf]")
        known = (*vocabulary.words, *vocabulary.frozen)
        # Without words that are looked up in lower case, the rule is: as it stands, or lower case.
        rows = enumerate(zip(known, vocabulary.encode(known), strict=True), FIRST_WORD)
        numbers = {word: row for row, (word, found) in rows if found == row}
        text = "\n".join(known)
        special = [_unlike(name, text) for name in ("<pad>", "<unk>")]
        numbers |= dict(zip(special, (PADDING, UNKNOWN), strict=True))
        # A number without a name would go to the next token that is added. No word has a space.
        free = set(range(FIRST_WORD + len(known))).difference(numbers.values())
        numbers |= {f"unused {number}": number for number in free}
        backend = t.Tokenizer(t.models.WordLevel(numbers, unk_token=special[1]))
        if (tokens or {}).get("lowercase") or text == text.lower():
            backend.normalizer = t.normalizers.Lowercase()
        names = ["input_ids", *(["token_type_ids"] if pairs else []), "attention_mask"]
        return cls(
            tokenizer_object=backend,
            tokens=tokens,
            pad_token=special[0],
            unk_token=special[1],
            model_input_names=names,
        )

    def _encode_plus(
        self,
        text: Any,
        text_pair: Any = None,
        *args: Any,
        is_split_into_words: bool = False,
        **kwargs: Any,
    ) -> BatchEncoding:
        if kwargs.get("return_offsets_mapping"):
            raise UserError("return_offsets_mapping=True: words of this tokenizer have no offsets")
        split = is_split_into_words
        if "token_type_ids" not in self.model_input_names and (
            text_pair is not None or _depth(text) > 1 + split
        ):
            raise UserError(
                "this model reads one text, but is given a pair of texts, or words without "
                "is_split_into_words=True"
            )
        pair = None if text_pair is None else self._words(text_pair, split)
        text = self._words(text, split)
        return super()._encode_plus(text, pair, *args, is_split_into_words=True, **kwargs)

    def _words(self, text: Any, split: bool) -> Any:
        """Known forms of the words of a text, or of nested lists and tuples of texts."""
        fields = self.init_kwargs.get("tokens")
        if isinstance(text, str):
            return self._known(text.split() if fields is None else Tokens(**fields)(text))
        if split and all(isinstance(word, str) for word in text):
            return self._known(text if fields is None else Tokens(**fields).of_words(list(text)))
        return type(text)(self._words(part, split) for part in text)

    def _known(self, words: Sequence[str]) -> list[str]:
        return [self._form(word) for word in words] or [str(self.pad_token)]

    def _form(self, word: str) -> str:
        for form in (word, word.lower()):
            if (self.backend_tokenizer.token_to_id(form) or UNKNOWN) > UNKNOWN:
                return form
        return str(self.unk_token)


def _depth(text: Any) -> int:
    """0 for a text, 1 for a list of texts, 2 for a list of pairs or of lists of words."""
    return 0 if isinstance(text, str) else 1 + max(map(_depth, text), default=0)


def _unlike(name: str, text: str) -> str:
    """The name, changed until it is no part of a word: special tokens are found within words."""
    while name in text:
        name = f"<{name}>"
    return name
