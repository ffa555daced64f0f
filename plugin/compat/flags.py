"""Flags that a command needs and does not ask for."""

from argparse import ArgumentParser
from typing import Any

from fairseq import options

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
