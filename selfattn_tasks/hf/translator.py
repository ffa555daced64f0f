"""Translate text in Python, with one call."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from selfattn.errors import UserError, check_integer

from .. import saved
from ..devices import find_device
from ..model_folder import WEIGHTS
from .translation import Search, read_folder, read_model, set_search

# So many batches are sorted by length at a time: the memory and the delay of a stream.
_SORTED = 16


class Translator:
    """A translation model with its tokenizer and its search.

    Args:
        model: a ``SelfattnForConditionalGeneration``.
        tokenizer: of the same folder.
        batch_size: texts at a time.

    Example:
        >>> translate = Translator.from_pretrained("translation-en-de-small")  # doctest: +SKIP
        >>> translate("Turn off the light.")  # doctest: +SKIP
        'Schalte das Licht aus.'
    """

    def __init__(self, model: Any, tokenizer: Any, batch_size: int = 32) -> None:
        check_integer("batch_size", batch_size)
        self.model, self.tokenizer, self.batch_size = model.eval(), tokenizer, batch_size

    @classmethod
    def from_pretrained(cls, path: str | os.PathLike[str], device: str = "cpu") -> Translator:
        """A Hugging Face folder, a checkpoint of fairseq, or a model that comes with the package.

        Args:
            path: the folder, the checkpoint or a run's folder, or the model's name.
            device: where it computes.

        Raises:
            UserError: if there is no translation model or no such device, or its dictionaries are
                not found.
        """
        where = find_device(device)
        found = saved.find_checkpoint(Path(path))
        if found.name == WEIGHTS:
            model, tokenizer = read_folder(found.parent)
        else:
            model, tokenizer, _ = read_model(found)
            set_search(model.generation_config, Search())
        return cls(model.to(where, torch.float32), tokenizer)

    def __call__(self, text: str) -> str:
        """The translation of one text; see :meth:`stream` for many."""
        return next(self.stream([text]))

    def stream(self, texts: Iterable[str]) -> Iterator[str]:
        """Translations in the order of the texts, of any number of them in bounded memory.

        Args:
            texts: sentences, or one alone; an empty one has an empty translation.

        Raises:
            UserError: if a text is longer than the model can read.
        """
        rest = iter([texts] if isinstance(texts, str) else texts)
        while window := list(islice(rest, _SORTED * self.batch_size)):
            numbers = self.encode(window)["input_ids"]
            order = sorted(range(len(window)), key=lambda i: len(numbers[i]))
            order = [i for i in order if len(numbers[i]) > 1]  # the end of sentence alone is empty
            said = [""] * len(window)
            for start in range(0, len(order), self.batch_size):
                places = order[start : start + self.batch_size]
                for place, words in zip(places, self._batch(places, numbers), strict=True):
                    said[place] = words
            yield from said

    def encode(self, texts: list[str]) -> Any:
        """A ``BatchEncoding`` of texts, without padding; an empty text has its end alone.

        Raises:
            UserError: if a text is longer than the model can read.
        """
        batch = self.tokenizer(texts, verbose=False, split_special_tokens=True)
        for text, ids in zip(texts, batch["input_ids"], strict=True):
            if len(ids) > (most := self.model.config.max_position_embeddings):
                raise UserError(
                    f"the text {text[:40]!r}... has {len(ids)} pieces; the model takes {most}"
                )
        return batch

    @torch.inference_mode()
    def _batch(self, places: list[int], numbers: list[list[int]]) -> list[str]:
        rows = {"input_ids": [numbers[place] for place in places]}
        batch = self.tokenizer.pad(rows, return_tensors="pt").to(self.model.device)
        found = self.model.generate(batch["input_ids"], attention_mask=batch["attention_mask"])
        # As fairseq-generate prints it, with <unk>: without, a word would be missing unnoticed.
        ends = {*self.tokenizer.all_special_ids} - {self.tokenizer.unk_token_id}
        kept = [[token for token in row if token not in ends] for row in found.tolist()]
        return self.tokenizer.batch_decode(kept)
