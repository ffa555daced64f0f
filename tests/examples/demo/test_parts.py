"""Subprocesses, progress and the closing screen of the demo."""

import io
import subprocess
import sys
import time
from pathlib import Path

import pytest

from selfattn.errors import UserError
from selfattn_experiments.report import Record
from selfattn_tasks.translation.outputs import Score
from tour.process import run_logged
from tour.progress import Stopwatch, TrainingProgress
from tour.screen import closing_screen, examples


def python(code):
    return [sys.executable, "-c", code]


def test_output_goes_to_the_log_and_to_the_listener(tmp_path):
    log, lines = tmp_path / "a.log", []
    for word in ("eins", "zwölf"):
        run_logged("it", python(f"print('{word}')"), log, on_line=lines.append)
    assert lines == ["eins", "zwölf"]
    text = log.read_text(encoding="utf-8")
    assert text.count("$ ") == 2
    assert "zwölf" in text


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("print('oh no'); raise SystemExit(3)", r"training ended with code 3 \(oh no\)"),
        ("raise SystemExit(1)", r"training ended with code 1 \(no output\)"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
            "training was killed by signal 9, perhaps because the memory was full",
        ),
    ],
)
def test_a_failed_command_is_one_sentence_with_its_log(tmp_path, code, words):
    with pytest.raises(UserError, match=words + r".*its log is .*a\.log") as caught:
        run_logged("training", python(code), tmp_path / "a.log")
    assert "\n" not in str(caught.value)


def test_a_full_disk_in_a_command_is_a_full_disk(tmp_path):
    code = "print('x' * 9999, file=open('/dev/full', 'w'))"
    with pytest.raises(OSError, match="No space left"):
        run_logged("training", python(code), tmp_path / "a.log")


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel")
def test_a_killed_parent_takes_its_command_along(tmp_path, repo_root):
    code = (
        "import sys; sys.path[:0] = {!r}\n"
        "from pathlib import Path\n"
        "from tour.process import run_logged\n"
        "child = 'import os, time; print(os.getpid(), flush=True); time.sleep(60)'\n"
        "run_logged('it', [sys.executable, '-c', child], Path({!r}))"
    ).format([str(repo_root), str(repo_root / "examples" / "demo")], str(tmp_path / "a.log"))
    parent = subprocess.Popen(python(code))
    log = tmp_path / "a.log"
    while not (log.exists() and log.read_text().count("\n") == 2):
        assert parent.poll() is None
        time.sleep(0.02)
    child = int(log.read_text().split("\n")[1])
    assert Path(f"/proc/{child}").exists()
    parent.kill()
    parent.wait()
    patience = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and _state(child) != "Z":
        assert time.monotonic() < patience
        time.sleep(0.02)


def _state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


class Terminal(io.StringIO):
    def isatty(self):
        return True


RECORDS = [
    Record("train_inner", 10, {"loss": 9.0}),
    Record("train_inner", 20, {"loss": 8.0}),
    Record("valid", 20, {"bleu": 3.25}),
    Record("train", 20, {"loss": 8.5}),
]


def shown(stream):
    progress = TrainingProgress(40, stream)
    for record in RECORDS:
        progress.show(record)
    progress.close()
    return stream.getvalue()


def test_a_terminal_gets_one_moving_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    text = shown(Terminal())
    assert text.count("\n") == 1
    frames = text.strip("\n").split("\r")[1:]
    assert len(frames) >= 3 and max(map(len, frames)) < 70
    assert "20/40, loss 8.00  valid BLEU 3.2" in frames[-1]
    assert "██████████░░░░░░░░░░" in frames[-1]
    assert frames[-1].rstrip().endswith("left")


def test_elsewhere_lines_come_every_so_often():
    lines = shown(io.StringIO()).splitlines()
    assert len(lines) == 2
    assert "10/40" in lines[0]
    assert "valid BLEU 3.2" in lines[1]


def test_times_add_up_over_attempts(tmp_path):
    watch = Stopwatch(tmp_path / "new" / "seconds.json")
    with pytest.raises(ZeroDivisionError), watch.timed("training"):
        raise ZeroDivisionError
    with watch.timed("translation"):
        pass
    assert list(watch.seconds()) == ["training", "translation"]


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
        {"mtsa": Score(24.35, "nrefs:1"), "multihead": Score(25.0, "nrefs:1")},
        [("a source " * 12, "pic" * 200, "a reference")],
        {"curves": path},
    )
    assert max(len(line) for line in text.splitlines() if path not in line) <= 80
    assert path in text
    assert text.index("mtsa") < text.index("multihead")
