"""From a text to its words, alike whether the text was tokenised before or not."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache
from sys import intern

from ..text import clean_line

# Quotation marks in one form, and what the Penn Treebank writes for brackets, / and *.
_PLAIN = {
    "``": '"', "''": '"', "\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'",
    "\u2026": "...", "\\/": "/", "\\*": "*", "-lrb-": "(", "-rrb-": ")", "-lsb-": "[",
    "-rsb-": "]", "-lcb-": "{", "-rcb-": "}",
}  # fmt: skip
# What Latin-1 calls control characters are quotation marks and dashes of Windows.
_WINDOWS = {
    number: bytes([number]).decode("cp1252", errors="ignore") or " " for number in range(128, 160)
}
_ODD = re.compile("``|''|[\u2018\u2019\u201c\u201d\u2026]|\\\\[/*]|-[lr][rsc]b-", re.IGNORECASE)
# don't, do n't, don 't and do n 't; the vectors of GloVe know do and n't.
_NOT = re.compile(r"(?:(?<=[^\W\d_])|(?<!\S))n ?'t(?!\w)", re.IGNORECASE)
_CLITIC = re.compile(r"(?<=[\w.])'(?:s|m|d|re|ve|ll)(?!\w)", re.IGNORECASE)
_WORD = re.compile(
    r"""
    (?<!\S)(?:n't|'(?:s|m|d|re|ve|ll))(?!\w)    # parted from their words above
    | (?:[^\W\d_]\.){2,}                        # U.S.
    | \d+(?:[.,:]\d+)+(?:[-/']\w+)*             # 1,000.5 and 3:30
    | \w+(?:[-/'&]\w+)*                         # well-known, and/or, o'clock, 1/2
    | \.{2,} | -{2,}
    | [^\w\s]
    """,
    re.IGNORECASE | re.VERBOSE,
)
_JOINERS = ("\u200c", "\u200d")
# At which the papers' code splits words further.
_INSIDE = re.compile("([-\u2212\u2014\u2013/~\"'\u00b0])")


@dataclass(frozen=True)
class Tokens:
    """How texts become words; a prepared folder and a checkpoint hold it.

    Words are split from punctuation, ``n't``, ``'s`` and the like as in the Penn Treebank and in
    GloVe; hyphens within words stay. Text that was tokenised before (``do n't .``, ``don 't .``)
    gives the same words as the text itself.

    Args:
        lowercase: lower-case all words, as GloVe's are.
        split_words: split words at ``- / ~ " '``, dashes and degree signs too, which stay as
            words. Differs: from the papers' code (SNLI, CR, MPQA, SUBJ, SQuAD), which keeps the
            empty strings between them.
    """

    lowercase: bool = True
    split_words: bool = False

    def __call__(self, text: str) -> tuple[str, ...]:
        """The words of a text; none of an empty one."""
        return _words(text, self.lowercase, self.split_words)

    def of_words(self, words: list[str]) -> tuple[str, ...]:
        """Words that are tokenised already: their case alone is changed."""
        return tuple(intern(word.lower() if self.lowercase else word) for word in words)


def _with_marks(text: str) -> list[str]:
    """The words of a text; vowel signs, accents and joiners belong to theirs."""
    words: list[str] = []
    end, inside = -1, False
    for found in _WORD.finditer(text):
        mark = found[0] in _JOINERS or unicodedata.category(found[0][0]).startswith("M")
        joined = mark or (inside and found[0][0].isalnum())
        if found.start() == end and joined and words[-1][0].isalnum():
            words[-1] += found[0]
        else:
            words.append(found[0])
        end, inside = found.end(), mark
    return words


@lru_cache(maxsize=4096)  # a premise has several hypotheses
def _words(text: str, lowercase: bool, split_words: bool) -> tuple[str, ...]:
    if not (text.isascii() and text.isprintable()):
        text = clean_line(text.translate(_WINDOWS))
    # Not lower(): to IGNORECASE, a long s (\u017f) is an s, too.
    text = _ODD.sub(lambda found: _PLAIN[found[0].casefold()], text)
    if lowercase:
        text = text.lower()
    if "'" in text:
        text = _NOT.sub(lambda found: " " + found[0].replace(" ", ""), text)
        text = _CLITIC.sub(r" \g<0>", text)
    words = _WORD.findall(text) if text.isascii() else _with_marks(text)
    if split_words:
        words = [part for word in words for part in _INSIDE.split(word) if part]
    return tuple(map(intern, words))
