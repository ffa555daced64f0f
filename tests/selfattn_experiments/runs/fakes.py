"""A run whose steps are short shell commands."""

from functools import partial

from selfattn_experiments.runs.execution.child import Attempts, Step
from selfattn_experiments.runs.execution.follow import Follower
from selfattn_experiments.runs.flags import parse


class FakeRun:
    """As ``run.Run``: each step runs once, is marked, and then done for good.

    Args:
        folder: for logs and marks.
        name: SYSTEM-SEED.
        commands: name of a step to a shell command.
    """

    def __init__(self, folder, name, max_update=10, **commands):
        self.name, self.folder, self.commands = name, folder, commands
        self.system = name.partition("-")[0]
        self.attempts = Attempts(folder / f"{name}.json")
        flags = parse(["--max-update", str(max_update)], "")
        self.follower = Follower(folder / f"{name}.train", flags)
        self.slots = []

    def mark(self, step):
        return self.folder / f"{self.name}.{step}.done"

    def record(self):
        if not self.commands or not all(self.mark(step).exists() for step in self.commands):
            return None
        return {"updates": 10, "seconds": self.attempts.seconds(), "scores": {"test": {"F1": 1.0}}}

    def prepare(self):
        pass

    def steps(self, slot):
        self.slots.append(slot)
        return [
            Step(step, step, ["sh", "-c", command], self.folder / f"{self.name}.{step}",
                 done=partial(self.done, step))
            for step, command in self.commands.items() if not self.mark(step).exists()
        ]  # fmt: skip

    def done(self, step):
        self.mark(step).touch()
