"""A run of a corpus that is cut into folds: each in turn is held out while the others train."""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import mean, stdev
from typing import Any

from selfattn_tasks.files import read_json
from selfattn_tasks.task import Folds

from .execution.child import Step
from .execution.follow import Follower
from .execution.slots import Slot
from .identity import Identity
from .run import Run


class Fold(Run):
    """Training that holds one part out, and the test on that part: ``SYSTEM-SEED/foldN``."""

    def __init__(self, identity: Identity, system: str, seed: int, folds: Folds, fold: int) -> None:
        super().__init__(identity, system, seed, fold)
        self._folds, self._fold = folds, fold
        self._fold_flags = folds.flags(fold)
        (test,) = self.grid.tests
        self._part = self.folder / f"{test}.part.jsonl"
        self._checkpoints = self.folder / "checkpoints"
        self.grid = replace(self.grid, tests={test: self._part})

    def prepare(self) -> None:
        """Make the folder, with the part that is held out."""
        super().prepare()
        if not self._part.is_file():
            self._folds.write_part(self._fold, self._part)
        if not self._checkpoints.is_dir():
            # Its checkpoints were dropped; if it is trained again and killed, it is not done.
            (self.folder / "trained.json").unlink(missing_ok=True)

    def drop_checkpoints(self) -> None:
        """Remove what takes most of the space: the predictions are what counts of a fold."""
        shutil.rmtree(self._checkpoints, ignore_errors=True)
        (self.folder / "average.pt").unlink(missing_ok=True)

    def _is_trained(self) -> bool:
        # Tested, and then something of its record was changed or removed: what tests it is gone.
        return self._checkpoints.is_dir() and super()._is_trained()


class FoldedRun(Run):
    """One system with one seed, trained once for each fold, and all outputs in one file.

    A fold has a record of its own as soon as it is tested, so a killed run resumes at the first
    fold that has none. Its checkpoints are then removed, those of the last fold excepted, unless
    the grid says ``keep_checkpoints``. The scores of ``run.json`` are those of the joined outputs;
    mean and standard deviation over folds stand beside them.
    """

    def __init__(self, identity: Identity, system: str, seed: int) -> None:
        super().__init__(identity, system, seed)
        folds = self.grid.task.folds(self.grid.data)
        assert folds is not None
        self._folds = folds
        self._parts = [Fold(identity, system, seed, folds, i) for i in range(folds.count)]
        self.follower = Followers([part.follower for part in self._parts])
        self._go_on()

    def _go_on(self) -> None:
        """Processes are counted by the first fold that is not done; if all are, by the last."""
        left = [part for part in self._parts if part.record() is None]
        self.attempts = (left or self._parts[-1:])[0].attempts

    def check(self) -> None:
        """Refuse a folder that holds something else, of a fold, too."""
        super().check()
        for part in self._parts:
            part.check()

    def prepare(self) -> None:
        """Make the folders and say in them what they are for."""
        super().prepare()
        self._after_fold()  # a kill may have come before it
        for part in self._parts:
            part.prepare()

    def steps(self, slot: Slot) -> list[Step]:
        """What is left to do, fold by fold; the last step joins the outputs.

        If nothing but that is left, the last fold is tested again.
        """
        self._go_on()
        self._scores = {}
        *others, last = self._parts
        steps: list[Step] = []
        for part in [*(part for part in others if part.record() is None), last]:
            steps += part.steps(slot)
            ended = self._join if part is last else self._after_fold
            steps[-1] = replace(steps[-1], done=partial(_both, steps[-1].done, ended))
        return steps

    def _after_fold(self) -> None:
        self._go_on()
        if not self.grid.keep_checkpoints:
            for part in self._parts[:-1]:
                if part.record() is not None:
                    part.drop_checkpoints()

    def _join(self) -> None:
        (test,) = self.grid.tests
        outputs = [part.hypotheses(test) for part in self._parts]
        self._folds.join(outputs, self.output(test))
        self._score(test)

    def _new_record(self) -> dict[str, Any]:
        parts = [read_json(part.folder / "run.json") or {} for part in self._parts]
        record = super()._new_record() | _over_folds(self._folds, parts)
        for fold, part in enumerate(parts):
            record["warnings"] += [f"fold {fold}, {warning}" for warning in part["warnings"]]
        return record


def _both(first: Callable[[], None], second: Callable[[], None]) -> None:
    first()
    second()


def _over_folds(folds: Folds, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the record of a run says of its folds, from theirs."""
    seconds: Counter[str] = Counter()
    for part in parts:
        seconds.update(part["seconds"])
    best = [part["best_valid"] for part in parts if part["best_valid"]]
    gpus = [name for part in parts if part["gpu"] for name in part["gpu"].split(" and ")]
    figures = [next(iter(part["scores"].values())) for part in parts]
    scores = {name: [f[name] for f in figures] for name in figures[0]}
    return {
        "updates": sum(part["updates"] for part in parts),
        "best_valid": best
        and {
            "metric": best[0]["metric"],
            "update": round(mean(one["update"] for one in best)),
            "value": mean(one["value"] for one in best),
        }
        or None,
        "parameters": parts[0]["parameters"],
        "gpu": " and ".join(dict.fromkeys(gpus)) or None,
        "seconds": {step: round(value, 1) for step, value in seconds.items()},
        "commits": sorted({commit for part in parts for commit in part["commits"]}),
        "attempts": [attempt for part in parts for attempt in part["attempts"]],
        "folds": {
            "count": folds.count,
            "seed": folds.seed,
            "scores": {
                name: {"mean": mean(values), "sd": stdev(values), "values": values}
                for name, values in scores.items()
            },
            "updates": [part["updates"] for part in parts],
            "best_valid": [part["best_valid"] for part in parts],
        },
    }


class Followers(Follower):
    """The training logs of several folds, one after the other, as one."""

    def __init__(self, followers: Sequence[Follower]) -> None:
        self._all = followers
        self.metric = followers[0].metric
        self._sum()

    def _sum(self) -> None:
        started = [i for i, follower in enumerate(self._all) if follower.update]
        self._at = started[-1] if started else 0
        self._current = self._all[self._at]
        self.update = sum(follower.update for follower in self._all)
        self.loss, self.best = self._current.loss, self._current.best

    def begin_attempt(self) -> None:
        """Read what earlier attempts wrote; the speed is measured from here on."""
        for follower in self._all:
            follower.begin_attempt()
        self._sum()

    def read(self) -> None:
        """Take the lines that were completed since the last call."""
        for follower in self._all:
            follower.read()
        self._sum()

    def total(self) -> int | None:
        """Updates of all folds, if those to come train as long as the current one."""
        one = self._current.total()
        before = sum(follower.update for follower in self._all[: self._at])
        return None if one is None else before + one * (len(self._all) - self._at)

    def seconds_an_update(self) -> float | None:
        """Of the last fold that says so; None before two records."""
        known = [speed for f in self._all if (speed := f.seconds_an_update()) is not None]
        return known[-1] if known else None
