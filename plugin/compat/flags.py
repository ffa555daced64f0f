"""Flags that a command or a checkpoint needs, without the user giving them."""

from argparse import ArgumentParser
from typing import Any

from fairseq import options, tasks

from ._patch import wrap


def complete_validation() -> None:
    """Let fairseq-validate do without ``--task`` and a batch size, as fairseq-generate does.

    Break: fairseq/options.py, get_validation_parser, has no default task and ends in ``KeyError:
    None``; fairseq_cli/validate.py then asserts a batch size. Fix: fairseq-generate's defaults. The
    task only decides which flags are known here: the one that runs is the checkpoint's.
    """

    @wrap(options, "parse_args_and_arch")
    def parse_args_and_arch(
        original: Any, parser: ArgumentParser, *args: Any, **kwargs: Any
    ) -> Any:
        # fairseq-validate's is the only parser whose --task has no default.
        if any(a.dest == "task" and a.default is None for a in parser._actions):
            parser.set_defaults(task="translation", max_tokens=12000)
        return original(parser, *args, **kwargs)


def remember_languages() -> None:
    """Store the languages that were inferred from the data's file names in the checkpoint.

    Break: fairseq/tasks/translation.py infers them into a copy of the flags, so that a checkpoint
    does not know its own direction, and loads only beside binarised text. Fix: into the flags that
    are stored as well.
    """

    @wrap(tasks, "setup_task")
    def setup_task(original: Any, cfg: Any, **kwargs: Any) -> Any:
        task = original(cfg, **kwargs)
        for name in ("source_lang", "target_lang"):
            inferred = getattr(getattr(task, "cfg", None), name, None)
            if inferred is not None and getattr(cfg, name, inferred) is None:
                setattr(cfg, name, inferred)
        return task
