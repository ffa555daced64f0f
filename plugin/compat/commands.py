"""How fairseq's commands end: one sentence for a user's mistake, a traceback only for a bug."""

import re
import sys
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import Any

from fairseq.models import BaseFairseqModel

from selfattn.errors import UserError
from selfattn_tasks.cli import disk_full_sentence, is_disk_full

from ._patch import wrap
from .batches import EMPTY

_CLI = "fairseq_cli"  # the folder of fairseq's commands
# How a spawned process's exception looks in its parent: as text.
_FROM_WORKER = re.compile(r"^selfattn\.errors\.UserError: (.+?)\s*\Z", re.MULTILINE | re.DOTALL)
# What fairseq/registry.py says of a choice without a default, and hydra of a number without one.
_MISSING = re.compile(r"(\w+) is required!|Error merging override (?:\w+\.)?(\w+)=null")
_OWN = re.compile(r"^--|requires a FairseqMultiModel architecture")
# What fairseq asserts of flags, by how it begins: the sentence for it.
_ASSERTED = {
    "Must specify batch size": "a batch size is missing: give --max-tokens or --batch-size",
    "--temperature must": "--temperature must be greater than 0",
    "min_len cannot be larger": (
        "--min-len is more than --max-len-a and --max-len-b allow for a sentence: lower it, or "
        "raise them"
    ),
}
# What only models of one kind have: the kind.
_KINDS = {
    "supported_targets": "a language model (such as --arch transformer_lm)",
    "forward_encoder": "a non-autoregressive model (such as --arch cmlm_transformer)",
}
# How gloo says that the process at the other end of a connection is gone.
_LOST = re.compile(r"gloo/transport/.*(?:[Cc]onnection|Broken pipe)", re.DOTALL)


def _command(argv0: Path) -> str | None:
    """The name of the fairseq command that *argv0* runs, or None for another program."""
    if argv0.parent.name == _CLI:  # python -m fairseq_cli.train
        return "fairseq-" + argv0.stem.replace("_", "-")
    return argv0.stem if argv0.name.startswith("fairseq-") else None


_PROGRAM = _command(Path(sys.argv[0]))


@wrap(sys, "excepthook")
def end_with_one_sentence(
    original: Any,
    exctype: type[BaseException],
    value: BaseException,
    traceback: TracebackType | None,
) -> None:
    """Print a UserError of fairseq-train and its siblings without its traceback; exit code 1.

    Break: fairseq_cli/*.py let every exception through. Fix: one sentence, but only if the program
    is one of fairseq's commands, so that notebooks and users' scripts are left alone.
    """
    sentence = explain(value) if _PROGRAM else None
    if sentence is None:
        original(exctype, value, traceback)
    else:
        print(f"{_PROGRAM}: error: {sentence}", file=sys.stderr)


def explain(error: BaseException) -> str | None:
    """The sentence for an ``error`` that the user can fix, or None for any other."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError) and is_disk_full(error):
        return disk_full_sentence(error)
    if isinstance(error, RuntimeError) and _LOST.search(str(error)):
        return (
            "another process of this run has ended, and its own output says why; the same "
            "command for each process resumes from the last checkpoint"
        )
    if str(error).startswith("The dataset is empty."):  # with --required-batch-size-multiple 1
        return EMPTY
    if isinstance(error, AttributeError):
        return _other_kind(error)
    if isinstance(error, KeyError):
        return _unknown_metric(error)
    if isinstance(error, AssertionError):
        return _assertion(str(error), _raised_by(error)[0])
    if missing := _MISSING.fullmatch(str(error)):
        flag = (missing[1] or missing[2]).replace("_", "-")
        return f"--{flag} is missing: fairseq has no default for it"
    if isinstance(error, ValueError) and _OWN.search(str(error)):  # fairseq's, of its flags
        return str(error)
    if isinstance(error, ImportError) and "Please install" in str(error):  # fairscale
        return " ".join(str(error).split())
    if type(error).__name__ == "ProcessRaisedException":  # torch.multiprocessing.spawn
        match = _FROM_WORKER.search(str(error))
        return match.group(1) if match else None
    return None


def _assertion(said: str, file: Path) -> str | None:
    """The sentence for what is asserted of flags, as all is that fairseq's commands assert."""
    for beginning, sentence in _ASSERTED.items():
        if said.startswith(beginning):
            return sentence
    return said if said and file.parent.name == _CLI else None


def _other_kind(error: AttributeError) -> str | None:
    """The sentence for a task or command that is for models of another kind."""
    if error.name not in _KINDS or not isinstance(error.obj, BaseFairseqModel):
        return None
    return f"this task needs {_KINDS[error.name]}, and {type(error.obj).__name__} is not one"


def _unknown_metric(error: KeyError) -> str | None:
    """The sentence for a ``--best-checkpoint-metric`` that validation does not log."""
    file, found = _raised_by(error)
    stats = found.get("stats")
    if not (stats and file.parts[-2:] == (_CLI, "train.py")):
        return None
    return (
        f"--best-checkpoint-metric {error.args[0]} is not logged by this validation, which has "
        f"{', '.join(stats)}"
    )


def _raised_by(error: BaseException) -> tuple[Path, dict[str, Any]]:
    """The file of the code that raised an error, and its local variables."""
    file, found = "", {}
    for frame, _ in walk_tb(error.__traceback__):
        file, found = frame.f_code.co_filename, frame.f_locals
    return Path(file), found
