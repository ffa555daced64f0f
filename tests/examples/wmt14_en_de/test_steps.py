"""A step is done once, and again when what it depends on changes."""

import pytest

from selfattn_tasks.progress import SECONDS_BETWEEN_LINES, Progress, clock
from wmt14.steps import made_of, run_step


@pytest.fixture
def step(tmp_path):
    """Runs a step that writes its option; ``step.said`` holds its lines, ``step.runs`` a count."""

    def run(option="a", fail=False):
        def make(folder):
            run.runs += 1
            (folder / "sub").mkdir()
            (folder / "sub" / "file").write_text(option)
            if fail:
                raise KeyboardInterrupt
            return {"count": 1}

        return run_step(tmp_path / "text", {"option": (option,)}, make, run.said.append)

    run.runs, run.said = 0, []
    return run


def test_done_once(step, tmp_path):
    first = step()
    assert step() == first and step.runs == 1
    assert step.said == ["text: done before"]
    assert first["counts"] == {"count": 1}
    assert made_of(first) != made_of(step("b"))
    assert step.said[-1] == "text: made again, because option is another than before"
    (tmp_path / "text" / "sub" / "file").write_text("longer")
    assert step("b")["counts"] == {"count": 1} and step.runs == 3
    assert "sub/file is missing or has another size" in step.said[-1]


def test_an_interruption_leaves_what_was_there(step, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        step(fail=True)
    assert list(tmp_path.iterdir()) == []
    step()
    with pytest.raises(KeyboardInterrupt):
        step("b", fail=True)
    assert (tmp_path / "text" / "sub" / "file").read_text() == "a"
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_progress_counts_what_is_left(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("tqdm.std.time", lambda: now[0])
    said = []
    progress = Progress(said.append, "copying", 1000, "bytes", start=100)
    progress.update(50)
    now[0] = SECONDS_BETWEEN_LINES
    progress.update(50)
    progress.update(1)
    assert said == ["copying:  20%|##        | 200/1.00k [00:10<01:20, 10.0 bytes/s]"]
    assert [clock(s) for s in (59.6, 3599, 4000)] == ["01:00", "59:59", "1:06:40"]
