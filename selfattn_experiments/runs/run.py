"""One run in its folder: what is done in it, and what is left to do."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from selfattn.errors import UserError
from selfattn_tasks import checkpoints
from selfattn_tasks.cli import fairseq_command
from selfattn_tasks.files import read_json, write_json
from selfattn_tasks.folder import digest_of, sha256_of
from selfattn_tasks.task import Scores

from ..process import again
from .execution.child import Attempts, Step, now, tail
from .execution.follow import Follower
from .execution.slots import Slot
from .flags import number, spelt_out
from .identity import Identity, digest, refuse_other_files, refuse_to_mix

# What is read of trained.json, and of run.json beside it.
_TRAINED = ("updates", "best_valid", "parameters", "gpu")
_RECORD = ("identity", "hypotheses", "scores", "seconds", "commits", "attempts")


def _is_whole(record: dict[str, Any]) -> bool:
    """Whether a record, which anybody may have edited, holds what is read of it."""

    def numbers(found: Any) -> bool:
        values = found.values() if isinstance(found, dict) else [None]
        return all(isinstance(value, int | float) for value in values)

    scores, best, attempts = (record[name] for name in ("scores", "best_valid", "attempts"))
    return (
        isinstance(scores, dict)
        and all(map(numbers, scores.values()))
        and numbers(record["seconds"])
        and all(isinstance(record.get(name, []), list) for name in ("commits", "warnings"))
        and (
            best is None or isinstance(best, dict) and best.keys() >= {"metric", "update", "value"}
        )
        and isinstance(attempts, list)
        and all(isinstance(one, dict) and one.keys() >= {"step", "cpu"} for one in attempts)
    )


class Run:
    """One system with one seed.

    The folder's ``run.json`` is written last, atomically: a run without it is not done, nor is one
    whose hypotheses are not the file that it was written for.

    Args:
        identity: of the grid.
        system: a name from the grid.
        seed: of fairseq-train.
        fold: the part that training holds out, in a folder of its own; None: there are none.
    """

    def __init__(self, identity: Identity, system: str, seed: int, fold: int | None = None) -> None:
        self.grid, self.system, self.seed = identity.grid, system, seed
        self.name = f"{system}-{seed}" + ("" if fold is None else f"/fold{fold}")
        self.folder = self.grid.output / self.name
        self.log = self.folder / "train.log"
        self.attempts = Attempts(self.folder / "attempts.json", self.grid.user_dir)
        self.follower = Follower(self.log, self.grid.flags(system))
        self._training = identity.training(system, seed, fold)
        self._files = identity.files(self.grid.flags(system))
        self._test = identity.test()
        self._scores: dict[str, Scores] = {}
        self._fold_flags: Sequence[str] = ()

    def check(self) -> None:
        """Refuse a folder that holds something else.

        Raises:
            UserError: if it was trained with other flags or data, or is not a run at all.
        """
        known = read_json(self.folder / "config.json")
        if known is not None:
            files = known.pop("files", {})
            refuse_to_mix(self.folder, self.grid.file, known, self._training)
            if isinstance(files, dict):  # anybody may have edited it
                refuse_other_files(self.folder, files, self._files)
        elif self.folder.is_dir() and any(self.folder.glob("[!.]*")):
            raise UserError(
                f"{self.folder} exists, but does not hold a run (no readable config.json): "
                "choose another `output`, or remove that folder"
            )

    def record(self) -> dict[str, Any] | None:
        """What ``run.json`` says; None as long as the run is not done."""
        record = read_json(self.folder / "run.json", *_RECORD, *_TRAINED)
        expected = {"training": digest(self._training), "test": digest(self._test)}
        if record is None or record["identity"] != expected or not _is_whole(record):
            return None
        if record["scores"].keys() != set(self.grid.tests):
            return None
        return record if record["hypotheses"] == self._found_hypotheses() else None

    def _found_hypotheses(self) -> dict[str, dict[str, str]]:
        """Name and hash of the files that are there, by test set."""
        paths = {test: self.hypotheses(test) for test in self.grid.tests}
        return {
            test: {"file": path.name, "sha256": sha256_of(path)}
            for test, path in paths.items()
            if path.is_file()
        }

    def hypotheses(self, test: str) -> Path:
        """What comparisons read of a test set."""
        return self.folder / f"{test}.{self.grid.task.hypotheses}"

    def state(self) -> str:
        """``done``, ``failed`` (its last process or scoring), ``unfinished`` or ``not started``."""
        if self.record() is not None:
            return "done"
        attempts = self.attempts.read()
        if attempts and (attempts[-1]["code"] or "error" in attempts[-1]):
            return "failed"
        return "unfinished" if (self.folder / "config.json").is_file() else "not started"

    def prepare(self) -> None:
        """Make the folder and say in it what it is for."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "config.json").is_file():
            files = {"files": self._files} if self._files else {}
            write_json(self.folder / "config.json", self._training | files)
        if not self._is_marked() and self._is_trained():
            self._mark_trained()  # stopped between its last update and this

    def steps(self, slot: Slot) -> list[Step]:
        """What is left to do, in order; the last step writes ``run.json``.

        Raises:
            UserError: if the last checkpoint cannot be read.
        """
        steps = []
        if not self._is_trained():
            command = self.train_command(slot)
            steps.append(Step("train", "fairseq-train", command, self.log, done=self._mark_trained))
        if self.grid.average is not None:
            steps.append(self._average())
        self._scores = {}
        steps += [self._apply(slot, test) for test in self.grid.tests]
        return steps

    def _average(self) -> Step:
        by = "update" if self.grid.saves_by_update(self.system) else "epoch"
        command = again(
            "average", "--dir", str(self.folder / "checkpoints"), "--by", by,
            "--last", str(self.grid.average), "--output", str(self.checkpoint),
        )  # fmt: skip
        return Step("average", "selfattn average", command, self.folder / "average.log")

    @property
    def checkpoint(self) -> Path:
        """The checkpoint that is tested."""
        if self.grid.average is not None:
            return self.folder / "average.pt"
        return self.folder / "checkpoints" / f"checkpoint_{self.grid.checkpoint}.pt"

    def output(self, test: str) -> Path:
        """What the model makes of a test set, as its command writes it."""
        return self.folder / f"{test}.{self.grid.task.output}"

    def train_command(self, slot: Slot) -> list[str]:
        """fairseq-train; when started again, it resumes from its last checkpoint."""
        grid, folder = self.grid, self.folder
        return fairseq_command(
            "train", str(grid.data),
            "--user-dir", str(grid.user_dir), *grid.task.train_flags, *grid.systems[self.system],
            *self._fold_flags, "--seed", str(self.seed), "--save-dir", str(folder / "checkpoints"),
            "--tensorboard-logdir", str(folder / "tensorboard"), "--log-format", "json",
            *([] if slot.gpus else ["--cpu"]),
        )  # fmt: skip

    def generate_command(self, slot: Slot, test: str) -> list[str]:
        """fairseq-generate: what a model makes of a test set, to standard output."""
        grid, flags, words = self.grid, spelt_out(self.grid.flags(self.system)), []
        for name in ("--source-lang", "--target-lang"):
            if name in flags and name not in grid.generate:
                words += [name, *flags[name]]
        return fairseq_command(
            "generate", str(grid.data),
            "--user-dir", str(grid.user_dir), "--path", str(self.checkpoint),
            "--gen-subset", test, *words, *grid.generate, "--seed", str(self.seed),
            *([] if slot.gpus else ["--cpu"]),
        )  # fmt: skip

    def predict_command(self, slot: Slot, test: str) -> list[str]:
        """The project's own command of a task: what a model makes of a test set, into a file."""
        task = self.grid.task
        return again(
            *(task.predictor or "").split(), str(self.checkpoint),
            "--input", str(self.grid.tests[test]), "--output", str(self.output(test)),
            *task.predict_flags, *self.grid.generate, *(["--device", "cuda"] if slot.gpus else []),
        )  # fmt: skip

    def _is_marked(self) -> bool:
        return read_json(self.folder / "trained.json", *_TRAINED) is not None

    def _is_trained(self) -> bool:
        if self._is_marked():
            return True
        last = self.folder / "checkpoints" / "checkpoint_last.pt"
        goal = number(self.grid.flags(self.system), "--max-update")
        # At its last update, if it was stopped before that was marked: fairseq would do one more.
        return goal is not None and last.is_file() and checkpoints.updates(last) >= goal

    def _mark_trained(self) -> None:
        follower = self.follower
        follower.read()
        best = follower.best
        write_json(
            self.folder / "trained.json",
            {
                "updates": follower.update,
                "best_valid": best
                and {"metric": follower.metric, "update": best[0], "value": best[1]},
                "parameters": follower.parameters,
                "gpu": " and ".join(follower.gpus) or None,
            },
        )

    def _apply(self, slot: Slot, test: str) -> Step:
        """Apply the checkpoint to a test set."""
        done, log = partial(self._score, test), self.folder / f"{test}.log"
        predictor = self.grid.task.predictor
        if predictor is None:
            command, output = self.generate_command(slot, test), self.output(test)
            return Step("test", "fairseq-generate", command, log, output, done)
        command = self.predict_command(slot, test)
        return Step("test", f"selfattn {predictor}", command, log, done=done)

    def _score(self, test: str) -> None:
        grid = self.grid
        self._scores[test] = grid.task.score(
            self.output(test), grid.tests[test], self.hypotheses(test), grid.lowercase
        )
        if len(self._scores) == len(self.grid.tests):
            # The time of scoring is the last process's, too.
            self.attempts.end(0)
            write_json(self.folder / "run.json", self._new_record())

    def _new_warnings(self) -> list[str]:
        lines = [] if self.grid.average is None else tail(self._average())
        found = [("average", line[9:]) for line in lines if line.startswith("warning: ")]
        found += [(test, said) for test, s in self._scores.items() for said in s.warnings]
        return [f"{where}: {warning}" for where, warning in found]

    def _new_record(self) -> dict[str, Any]:
        attempts = self.attempts.read()
        return {
            "run": self.name,
            "system": self.system,
            "seed": self.seed,
            "finished": now(),
            "scores": {
                test: {name: round(value, 6) for name, value in scores.figures.items()}
                for test, scores in self._scores.items()
            },
            "signatures": next(iter(self._scores.values())).signatures,
            "protocol": self.grid.task.protocol(self.grid.data),
            "warnings": self._new_warnings(),
            "gold": {
                test: digest_of(self.grid.task.read_gold(path))
                for test, path in self.grid.tests.items()
            },
            "hypotheses": self._found_hypotheses(),
            **(read_json(self.folder / "trained.json", *_TRAINED) or {}),
            "seconds": self.attempts.seconds(),
            "commits": sorted({attempt["commit"] for attempt in attempts}),
            "identity": {"training": digest(self._training), "test": digest(self._test)},
            "training": self._training,
            "test": self._test,
            "attempts": attempts,
        }
