"""Times and the closing screen of the demo."""

import pytest

from selfattn_tasks.translation.metrics import Score
from tour.screen import closing_screen, examples
from tour.stopwatch import seconds, timed


def test_times_add_up_over_attempts(tmp_path):
    path = tmp_path / "new" / "seconds.json"
    with pytest.raises(ZeroDivisionError), timed(path, "text"):
        raise ZeroDivisionError
    with timed(path, "data"):
        pass
    assert list(seconds(path)) == ["text", "data"]


def test_examples_are_the_first_that_fit():
    sources = [
        "two words",
        "a b c d",
        "x " * 60,
        "four words are here",
        "one more of those",
        "e f g h",
    ]
    assert examples(sources) == [1, 3, 4]
    assert examples(["a", "b"]) == [0, 1]


def test_the_screen_fits_the_terminal_and_breaks_no_path(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    path = "demo/" + "a" * 90
    text = closing_screen(
        "title",
        {"mtsa-1": Score(24.35, "nrefs:1"), "multihead-1": Score(25.0, "nrefs:1")},
        [("a source " * 12, "pic" * 200, "a reference")],
        {"curves": path},
    )
    assert max(len(line) for line in text.splitlines() if path not in line) <= 80
    assert path in text
    assert text.index("mtsa") < text.index("multihead")
