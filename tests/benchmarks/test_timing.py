"""How samples are taken and summed up; no test depends on how long something takes."""

import time
from types import SimpleNamespace

import pytest

from benchmarks import sweep, timing
from benchmarks.timing import Effort, summary


def test_medians_and_quartiles_of_the_ratios_of_pairs():
    # The machine is twice as slow during the last two pairs: the ratios do not notice.
    found = summary([(2.0, 1.0), (2.2, 1.0), (1.8, 1.0), (4.0, 2.0), (4.4, 2.0)])
    assert found.ratio == pytest.approx(2.0)
    assert (found.ratio_low, found.ratio_high) == (pytest.approx(2.0), pytest.approx(2.2))
    assert (found.seconds, found.reference_seconds, found.pairs) == (2.2, 1.0, 5)


def test_one_pair_has_no_spread():
    found = summary([(3.0, 2.0)])
    assert found.ratio_low == found.ratio == found.ratio_high == 1.5


def test_method_and_reference_take_turns_and_change_places(monkeypatch):
    order = []
    clock = timing.clock

    def noted(step, *given):
        order.append(step)
        return clock(step, *given)

    monkeypatch.setattr(timing, "clock", noted)
    effort = Effort(seconds=0.0, sample=1e-9, least=4, most=9)

    def mine():
        return None

    def reference():
        return None

    found = timing.compare(mine, reference, "cpu", effort)
    assert found.pairs == 4
    turns = order[2:]  # the first two tell how often to repeat
    assert turns == [mine, reference, reference, mine] * 2


def test_a_clock_counts_steps():
    done = []
    assert timing.clock(lambda: done.append(1), 5, "cpu") >= 0
    assert len(done) == 5


def test_waiting_takes_time_on_the_wall_alone():
    def wait():
        time.sleep(0.05)

    assert timing.clock(wait, 1, "cpu", wall=True) >= 0.05
    assert timing.clock(wait, 1, "cpu") < 0.05


def test_a_worker_that_hangs_is_killed_and_its_lengths_are_refused(tmp_path, monkeypatch):
    (tmp_path / "python").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "python").chmod(0o755)
    monkeypatch.setattr(sweep.sys, "executable", str(tmp_path / "python"))
    plan = SimpleNamespace(threads=1, shapes=[(16, 4), (64, 1)], give_up=0.2)
    found = sweep._worker(plan, "time", "mtsa")
    reason = "its process was killed after 0.2 s"
    assert found == {
        n: {"length": n, "status": "refused", "reason": reason} for n, _ in plan.shapes
    }
