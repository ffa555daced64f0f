"""Flags that a command or a checkpoint needs, without the user giving them."""

import sys
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


def complete_help() -> None:
    """Let ``--help`` show the flags of the architecture, the task and the criterion that are named.

    Break: fairseq/options.py, parse_args_and_arch, parses once to learn these names, and a parser
    that meets ``--help`` prints what it knows so far and exits. Fix: it is left out at first.
    """

    @wrap(options, "parse_args_and_arch")
    def parse_args_and_arch(
        original: Any, parser: ArgumentParser, input_args: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        given = sys.argv[1:] if input_args is None else list(input_args)
        rest = [word for word in given if word not in ("-h", "--help")]
        if len(rest) == len(given):
            return original(parser, input_args, *args, **kwargs)
        parse = parser.parse_known_args

        def first(_: Any = None, namespace: Any = None) -> Any:
            parser.parse_known_args = parse  # type: ignore[method-assign]
            return parse(rest, namespace)

        parser.parse_known_args = first  # type: ignore[assignment, method-assign]
        return original(parser, given, *args, **kwargs)


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
