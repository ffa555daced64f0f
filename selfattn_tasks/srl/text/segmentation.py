"""From a text to sentences and words, as the Penn Treebank has them, with their characters."""

import re
from collections.abc import Container, Iterator, Sequence
from itertools import zip_longest

from selfattn.errors import needed

from ...text import clean_line

# The first and last (exclusive) character of a word or sentence.
Range = tuple[int, int]

# Longer sentences are cut: no sentence of prose is, and time and memory grow with the square.
LONGEST = 2000

_EMPTY_LINES = re.compile(r"\n\s*\n|\Z")
_WORD = re.compile(r"\S+")
# Where NLTK has no answer, words are runs of letters and digits, and single other characters.
_PIECE = re.compile(r"\w+|[^\w\s]")
_HYPHENATED = re.compile(r"[^\W_]+(?:-[^\W_]+)+")
_HYPHEN_OR_NOT = re.compile(r"-|[^-]+")
# Addresses of the web and of mail are one word.
_ADDRESS = re.compile(r"(?:https?://|www\.)\S*[\w/]|[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
# What also ends sentences, but none if a small letter follows; and, before a digit, numbers.
_ABBREVIATED = re.compile(r"(?:^|[\s(])(?:(?:[A-Za-z]\.){2,}|(?:Ph\.D|etc|Inc|al|approx)\.)$")
_NUMBER = re.compile(r"(?:^|[\s(])(?:No|Art|pp)\.$")
# As many characters: the offsets stay. The last three: an apostrophe that is a letter, and the
# hyphens of Unicode, of which web pages and PDFs have the one that does not break.
_PLAIN = str.maketrans("’‘“”\u02bc\u2010\u2011", "''\"\"'--")
# NLTK's rules take the square of the time for words without end, such as encoded pictures.
_LONGEST_WORD = 200
# NLTK gives up after 5 seconds in one text.
_LONGEST_BLOCK = 20_000

# What corpora write for a character: training data has one of them.
_FORMS = {
    "(": ("-LRB-",), ")": ("-RRB-",), "[": ("-LSB-",), "]": ("-RSB-",), "{": ("-LCB-",),
    "}": ("-RCB-",), "“": ('"', "``"), "”": ('"', "''"), "‘": ("'", "`"), "’": ("'",),
}  # fmt: skip


class Segmenter:
    """Finds the sentences and words of English text by NLTK's Punkt and Treebank tokenizers.

    Punkt gets the abbreviations that Moses knows. A sentence goes on after others, such as U.S. and
    etc., if a small letter follows. Empty lines end a sentence, other ends of lines do not. Any
    other script is split at spaces and punctuation.

    Args:
        hyphens: split ``well-known`` into three words, as the English Web Treebank and OntoNotes
            do, and the Wall Street Journal of the Penn Treebank does not.

    Raises:
        UserError: if NLTK or sacremoses is not installed.

    Example:
        >>> text = "She didn't pay $5.50. (No!)"
        >>> [[text[a:b] for a, b in words] for words in Segmenter()(text)]
        [['She', 'did', "n't", 'pay', '$', '5.50', '.'], ['(', 'No', '!', ')']]
    """

    def __init__(self, hyphens: bool = False) -> None:
        punkt = needed("nltk.tokenize.punkt", "nltk")
        parameters = punkt.PunktParameters()
        prefixes = needed("sacremoses.corpus", "sacremoses").NonbreakingPrefixes()
        parameters.abbrev_types = {prefix.lower() for prefix in prefixes.words("en")}
        self._punkt = punkt.PunktSentenceTokenizer(parameters)
        self._treebank = needed("nltk.tokenize", "nltk").NLTKWordTokenizer()
        self._hyphens = hyphens

    def __call__(self, text: str, whole: bool = False) -> list[list[Range]]:
        """The ranges of the words of each sentence; with ``whole``, the text is one sentence."""
        return [
            part
            for start, end in ([(0, len(text))] if whole else self._sentences(text))
            for part in cut([(start + a, start + b) for a, b in self._words(text[start:end])])
        ]

    def _sentences(self, text: str) -> Iterator[Range]:
        start = 0
        for gap in _EMPTY_LINES.finditer(text):
            paragraph = text[start : gap.start()].translate(_PLAIN)
            yield from ((start + a, start + b) for a, b in self._sentences_of(paragraph))
            start = gap.end()

    def _sentences_of(self, paragraph: str) -> Iterator[Range]:
        start = 0
        while start < len(paragraph):
            block = paragraph[start : start + _LONGEST_BLOCK]
            # At once: NLTK counts whatever is done between two sentences.
            found = _joined(block, list(self._punkt.span_tokenize(block)))
            end = len(block)
            if start + end < len(paragraph) and found:
                if len(found) > 1:
                    found.pop()  # it may go on behind the block
                    end = found[-1][1]
                else:
                    end = block.rfind(" ") + 1 or end
                    found = [(0, end)]
            yield from ((start + a, start + b) for a, b in found)
            start += end

    def _words(self, sentence: str) -> Iterator[Range]:
        for start, end in _runs(sentence):
            run = sentence[start:end].translate(_PLAIN)
            run = _ADDRESS.sub(lambda address: len(address[0]) * "x", run)
            try:
                found = list(self._treebank.span_tokenize(run))
            except (ValueError, TimeoutError):  # it loses its way among some quotes
                found = [piece.span() for piece in _PIECE.finditer(run)]
            for a, b in found:
                if self._hyphens and _HYPHENATED.fullmatch(run, a, b):
                    pieces = _HYPHEN_OR_NOT.finditer(run, a, b)
                    yield from ((start + p.start(), start + p.end()) for p in pieces)
                else:
                    yield start + a, start + b


def _joined(block: str, sentences: Sequence[Range]) -> list[Range]:
    """Sentences without the ends that abbreviations make."""
    found: list[Range] = []
    for start, end in sentences:
        last = block[max(found[-1][0], found[-1][1] - 30) : found[-1][1]] if found else ""
        goes_on = _ABBREVIATED if block[start].islower() else _NUMBER
        if (block[start].islower() or block[start].isdigit()) and goes_on.search(last):
            start = found.pop()[0]
        found.append((start, end))
    return found


def at_spaces(text: str) -> list[list[Range]]:
    """The ranges of the words of one sentence, which have spaces between them."""
    return list(cut([word.span() for word in _WORD.finditer(text)]))


def cut(words: Sequence[Range]) -> Iterator[list[Range]]:
    """A sentence in pieces of ``LONGEST`` words; nothing if it has no word."""
    for start in range(0, len(words), LONGEST):
        yield list(words[start : start + LONGEST])


def treebank_forms(
    words: Sequence[str], known: Container[str], text: str = "", ranges: Sequence[Range] = ()
) -> tuple[str, ...]:
    """Words as the training data writes them: brackets, quotes, apostrophes, hyphens.

    What nobody sees, such as a soft hyphen or an accent apart from its letter, makes no other word.

    Args:
        words: of one sentence.
        known: the words of the training data.
        text: where the words are from: a quote opens or closes by what it touches there; one that
            touches nothing, and each without a text, closes what is open.
        ranges: of the words in the text.

    Returns:
        for each word the first of its forms that is known, or the word.

    >>> treebank_forms(('"', "No", '"', "(", "isn’t"), {"``", "''", "-lrb-"})
    ('``', 'No', "''", '-LRB-', "isn't")
    """
    found = []
    is_open = False
    for word, place in zip_longest(words, ranges):
        forms: tuple[str, ...] = _FORMS.get(word, ())
        if word == '"':
            is_open = _opens(text, place, not is_open)
            forms = ("``",) if is_open else ("''",)
        plain = word if word in _FORMS else clean_line(word.translate(_PLAIN)) or word
        tried = (word, plain, *forms)
        found.append(next((f for f in tried if f in known or f.lower() in known), plain))
    return tuple(found)


def _opens(text: str, quote: Range | None, otherwise: bool) -> bool:
    if quote is None:
        return otherwise
    before, after = text[max(quote[0] - 1, 0) : quote[0]], text[quote[1] : quote[1] + 1]
    ends = bool(before.strip(" \t\n([{<"))
    begins = after.isalnum()
    return begins if begins != ends else otherwise


def _runs(sentence: str) -> Iterator[Range]:
    """The sentence, cut around words of absurd length."""
    start = 0
    for word in _WORD.finditer(sentence):
        if word.end() - word.start() > _LONGEST_WORD:
            yield start, word.start()
            yield from ((i, min(i + _LONGEST_WORD, word.end()))
                        for i in range(word.start(), word.end(), _LONGEST_WORD))  # fmt: skip
            start = word.end()
    yield start, len(sentence)
