"""The screen on which the demo ends."""

import shutil
import textwrap
from collections.abc import Mapping, Sequence

from selfattn_tasks.progress import clock
from selfattn_tasks.translation.metrics import Score

EXAMPLES = 3
_LABEL = 14


def examples(sources: Sequence[str], longest: int = 60) -> list[int]:
    """The first test sentences of four words or more that fit on one line.

    Chosen by their source side only, so that they are neither the best nor the worst.
    """
    fitting = [i for i, s in enumerate(sources) if len(s) <= longest and len(s.split()) >= 4]
    return (fitting or list(range(len(sources))))[:EXAMPLES]


def closing_screen(
    title: str,
    scores: Mapping[str, Score],
    shown: Sequence[tuple[str, str, str]],
    places: Mapping[str, str],
) -> str:
    """The text of the last screen, at most as wide as the terminal.

    Args:
        title: what was trained and tested.
        scores: by name of the run, this one's first.
        shown: source, translation and reference of some test sentences.
        places: label to path, command or time.
    """
    width = min(100, shutil.get_terminal_size(fallback=(90, 24)).columns)
    rule = "─" * width
    name, own = next(iter(scores.items()))
    lines = [rule, title, _row("BLEU", f"{own.bleu:.1f}  {name}", width)]
    lines += [_row("", f"{s.bleu:.1f}  {n}", width) for n, s in list(scores.items())[1:]]
    lines += [_row("signature", own.signature, width)]
    for source, translation, reference in shown:
        lines += [
            "",
            _row("source", source, width),
            # An untrained model repeats itself without end.
            _row("translation", _cut(translation, 2 * (width - _LABEL)), width),
            _row("reference", reference, width),
        ]
    lines.append("")
    lines += [_row(label, place, width) for label, place in places.items()]
    return "\n".join(lines)


def times(seconds: Mapping[str, float]) -> str:
    """One line that says how long everything took, and each part."""
    parts = ", ".join(f"{step} {clock(value)}" for step, value in seconds.items())
    return f"{clock(sum(seconds.values()))} ({parts})"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _row(label: str, text: str, width: int) -> str:
    # Paths and commands are copied from here: they are broken at spaces only.
    long_word = label == "translation"
    wrapped = textwrap.wrap(
        text, max(20, width - _LABEL), break_long_words=long_word, break_on_hyphens=False
    )
    return f"\n{' ' * _LABEL}".join([f"{label:<{_LABEL}}{(wrapped or [''])[0]}", *wrapped[1:]])
