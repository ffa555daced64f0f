"""How many tokens a block of Bi-BloSA should have (Bi-BloSAN, appendix A)."""

import math

from .errors import UserError, check_integer


def block_length(tokens: float, extra: int = 0) -> int:
    """The cube-root rule, eq. 19: blocks of ``r = ceil((2 n)^(1/3))`` tokens cost least memory.

    m = n / r blocks of r x r scores and one of m x m hold ``r^2 m + m^2`` scores.

    Args:
        tokens: length n of a sentence in tokens, above 0; may be a mean.
        extra: added to r, at least 0.

    Returns:
        r in tokens, at least 1.

    Raises:
        UserError: if n is not a finite number above 0, or ``extra`` below it.

    Differs:
        The authors' code takes ``extra=1`` for blocks from statistics, the paper nothing.

    Example:
        >>> block_length(64)
        6
    """
    if not (tokens > 0 and math.isfinite(tokens)):
        raise UserError(
            f"a length of {tokens} tokens is not allowed; it must be a finite number above 0"
        )
    volume = 2 * tokens
    root = round(volume ** (1 / 3))  # exact where 2 n is a cube: a power may come out just above
    return root + (root**3 < volume) + check_integer("extra", extra, 0)


def longest_of_a_batch(mean: float, deviation: float, sentences: float) -> float:
    """Length n to expect of the longest sentence of a batch, eq. 20-23.

    Args:
        mean: mean length mu of the training sentences in tokens.
        deviation: their standard deviation sigma in tokens, that of the population.
        sentences: sentences B of a batch, at least 1.

    Returns:
        ``sigma sqrt(2 ln B) + mu`` in tokens: a bound on the expected maximum of B normal draws.

    Raises:
        UserError: if a batch has fewer than 1 sentence.
    """
    if not sentences >= 1:
        raise UserError(f"a batch of {sentences} sentences is not allowed; it needs at least 1")
    return deviation * math.sqrt(2 * math.log(sentences)) + mean
