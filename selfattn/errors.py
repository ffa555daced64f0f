"""The one exception for mistakes that a user can mend."""

import re

# A word of a file may have a million characters; paths have less.
_LONG_WORD = re.compile(r"\S{1000,}")
_LONGEST = 4000


class UserError(ValueError):
    """A mistake in a flag, a file or an argument.

    The message is one sentence that names the thing, its value and what is allowed. Commands print
    it without a traceback and exit with a code that is not 0. What a bad file made endless in it
    is shortened.
    """

    def __init__(self, message: str = "") -> None:
        text = _LONG_WORD.sub(lambda word: shortened(word[0], 60), message)
        super().__init__(shortened(text, _LONGEST))


def shortened(text: str, length: int) -> str:
    """Beginning and end of a text that is longer than that."""
    if len(text) <= 2 * length:
        return text
    return f"{text[:length]} ... ({len(text):,} characters) ... {text[-length:]}"
