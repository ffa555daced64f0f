"""From raw text to semantic roles, in Python."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, overload

from selfattn.errors import UserError

from ...progress import Progress
from ...saved import Paths
from ..propositions import Sentence, unlabelled
from .documents import Document, Text, TextSentence, names_in, positions_of
from .segmentation import Range, Segmenter, at_spaces, treebank_forms

if TYPE_CHECKING:
    import torch

    from ..tagger.predictor import Predictor

# Words that are labelled at a time: enough that sentences of equal length meet in a batch.
WINDOW = 20_000

# A text and the words of its sentences.
_Split = tuple[Text, list[list[Range]]]


class SRL:
    """Labels semantic roles in raw English text, or in text that is split at spaces.

    Args:
        predictor: the trained networks.
        decoder: one of ``selfattn_tasks.srl.tags.DECODERS``; the default is the best.
        window: words that are labelled, and documents held in memory, at a time.

    Attributes:
        known: words of the networks' training data.

    Example: this prints "A0 The cat", "V chased" and "A1 a mouse" with a trained model::

        from selfattn_tasks.srl import SRL

        model = SRL.from_pretrained("runs/srl")
        document = model("The cat chased a mouse.")
        for proposition in document.propositions:
            for span in proposition.spans:
                print(span.label, span.text, span.start, span.end)
    """

    def __init__(
        self, predictor: Predictor, decoder: str = "structured", window: int = WINDOW
    ) -> None:
        self.predictor = predictor
        self.decoder = decoder
        self.window = window
        self.known = frozenset(
            word for _, vocabulary in predictor.members for word in vocabulary.words
        )

    @cached_property
    def _segmenter(self) -> Segmenter:
        """Made where a text needs it: NLTK may be missing."""
        return Segmenter(hyphens="-" in self.known)

    @classmethod
    def from_pretrained(
        cls,
        where: Paths,
        *,
        device: torch.device | str = "cpu",
        decoder: str = "structured",
        bf16: bool = False,
    ) -> SRL:
        """Load a model.

        Args:
            where: a checkpoint, a folder with one (the best, else the last), a Hugging Face
                folder, or the name of a model that comes with the package (``srl-en-small``);
                several are an ensemble, whose probabilities are averaged.
            device: where to run.
            decoder: as for the class.
            bf16: multiply matrices in bfloat16, which is faster on many CPUs; a few answers differ.

        Raises:
            UserError: if there is none or no such device, or a file is missing, broken or not a
                tagger.
        """
        from ..tagger.predictor import Predictor

        return cls(Predictor.load(where, device, bf16), decoder)

    @overload
    def __call__(
        self,
        text: str | Text,
        *,
        predicates: Sequence[str | int] = (),
        tokenized: bool = False,
        confidence: bool = False,
    ) -> Document: ...

    @overload
    def __call__(
        self,
        text: list[str] | tuple[str, ...],
        *,
        predicates: Sequence[str | int] = (),
        tokenized: bool = False,
        confidence: bool = False,
    ) -> list[Document]: ...

    def __call__(
        self,
        text: str | Text | Sequence[str | Text],
        *,
        predicates: Sequence[str | int] = (),
        tokenized: bool = False,
        confidence: bool = False,
    ) -> Document | list[Document]:
        """Label a text, or several.

        Args:
            text: one, or any number; use :meth:`stream` for more than fit into memory.
            predicates: as in :class:`Text`, where they occur. Default: the model finds them.
            tokenized: each text is one sentence, whose words have spaces between them.
            confidence: compute the probabilities of spans and propositions.

        Returns:
            a document, or one for each text.

        Raises:
            UserError: if the predicates of a single text are not in it, if the model cannot find
                predicates and none is given, or if NLTK is needed and not installed.
        """
        if isinstance(text, str):
            text = Text(text)
        if isinstance(text, Text) and not text.predicates:
            text = replace(text, predicates=tuple(names_in(predicates)))
        found = list(
            self.stream(text, predicates=predicates, tokenized=tokenized, confidence=confidence)
        )
        return found[0] if isinstance(text, Text) else found

    def stream(
        self,
        texts: str | Text | Iterable[str | Text],
        *,
        predicates: Sequence[str | int] = (),
        tokenized: bool = False,
        whole: bool = False,
        confidence: bool = False,
        progress: bool = False,
    ) -> Iterator[Document]:
        """Label any number of texts, in order, with the memory of one window.

        Args:
            texts: read as they are needed; one alone is a text, too.
            predicates: words that are the predicates of all texts without their own; those that
                a text lacks do not matter.
            tokenized: as for the call.
            whole: each text is one sentence.
            confidence: as for the call.
            progress: show on stderr how many texts are done.

        Raises:
            UserError: as for the call, and if a text's own predicates are not in it.
        """
        texts = [texts] if isinstance(texts, str | Text) else texts
        total = len(texts) if isinstance(texts, Sequence) else None
        with Progress(
            None, "labelling", total, "texts", stream=sys.stderr, disable=not progress
        ) as bar:
            for group in self._windows(texts, tokenized, whole):
                for document in self._label(group, predicates, confidence):
                    yield document
                    bar.update()

    def words(self, sentence: str) -> tuple[str, ...]:
        """The words of one sentence, as the model reads it.

        Raises:
            UserError: if NLTK or sacremoses is not installed.
        """
        return tuple(sentence[a:b] for part in self._segmenter(sentence, True) for a, b in part)

    def _windows(
        self, texts: Iterable[str | Text], tokenized: bool, whole: bool
    ) -> Iterator[list[_Split]]:
        """Texts with their sentences, as many at a time as one window holds."""
        group: list[_Split] = []
        size = 0
        for item in texts:
            text = item if isinstance(item, Text) else Text(item)
            sentences = at_spaces(text.text) if tokenized else self._segmenter(text.text, whole)
            group.append((text, sentences))
            size += 1 + sum(map(len, sentences))
            if size >= self.window:
                yield group
                group, size = [], 0
        if group:
            yield group

    def _label(
        self, group: Sequence[_Split], predicates: Sequence[str | int], confidence: bool
    ) -> Iterator[Document]:
        words = [
            [tuple(text.text[a:b] for a, b in ranges) for ranges in sentences]
            for text, sentences in group
        ]
        forms = [
            treebank_forms(sentence, self.known, text.text, place)
            for (text, places), rows in zip(group, words, strict=True)
            for place, sentence in zip(places, rows, strict=True)
        ]
        places: list[Sequence[int] | None] = []  # None: the model finds them
        for (text, _), rows in zip(group, words, strict=True):
            if named := text.predicates or predicates:
                places += named_places(named, rows, must=bool(text.predicates), flag=text.flag)
            else:
                places += [None] * len(rows)
        asked = [
            Sentence(sentence, unlabelled(sentence, row or ()))
            for sentence, row in zip(forms, places, strict=True)
        ]
        find = {i for i, row in enumerate(places) if row is None}
        predicted = iter(
            self.predictor.predict(asked, self.decoder, find=find, confidence=confidence)
        )
        for (text, sentences), rows in zip(group, words, strict=True):
            found = tuple(
                TextSentence(text.text, replace(next(predicted), words=row), tuple(ranges))
                for row, ranges in zip(rows, sentences, strict=True)
            )
            yield Document(text.text, found, text.start)


def named_places(
    predicates: Iterable[str | int],
    sentences: Sequence[Sequence[str]],
    *,
    must: bool = True,
    flag: str = "predicates",
) -> list[Sequence[int]]:
    """The positions of the predicates that the user named in each sentence of a text.

    Args:
        predicates: as in :class:`.documents.Text`; commas separate several in one.
        sentences: the words of each.
        must: refuse a predicate that is in no sentence.
        flag: where the predicates are named, for messages.

    Raises:
        UserError: if there is such a predicate.
    """
    places: list[set[int]] = [set() for _ in sentences]
    for name in names_in(predicates):
        hits = [positions_of(name, words, may_count=len(sentences) == 1) for words in sentences]
        for found, hit in zip(places, hits, strict=True):
            found.update(hit)
        if must and not any(hits):
            numbered = " ".join(
                f"{i}:{word}" for words in sentences for i, word in enumerate(words)
            )
            raise UserError(
                f"{flag} {name} is neither a word of the text nor, where that is one "
                f"sentence, a position in it; its words are {numbered}"
            )
    return [sorted(found) for found in places]
