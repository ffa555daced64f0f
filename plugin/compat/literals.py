"""Values of flags, which are literals and never evaluated as code.

Break: fairseq hands flags such as ``--adaptive-softmax-cutoff`` and ``--model-overrides``, from a
command line or out of a checkpoint, to Python's ``eval`` in three dozen places. Fix: ``eval`` means
:func:`literal` in all its modules, in its commands as soon as they import ``--user-dir``.
"""

import ast
import os
import sys
from typing import Any

import fairseq
import fairseq_cli
from fairseq import utils

from selfattn.errors import UserError

from ._patch import wrap
from .checkpoint_errors import stored_flag

_MOST_ITEMS = 10_000  # of a list that * repeats


@wrap(utils, "import_user_module")
def import_user_module(original: Any, args: Any) -> None:
    """Replace ``eval`` in what has been imported since, such as the command."""
    original(args)
    evaluate_nothing()


def evaluate_nothing() -> None:
    """Replace ``eval`` in all modules of fairseq that are imported."""
    roots = tuple(
        os.path.join(os.path.dirname(str(package.__file__)), "")
        for package in (fairseq, fairseq_cli)
    )
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if str(names.get("__file__")).startswith(roots):
            names["eval"] = literal


def literal(text: Any) -> Any:
    """The value of a literal, where ``+`` may join lists and ``*`` may repeat them.

    Raises:
        TypeError: *text* is not a string; so does Python's ``eval``.
        UserError: it is anything else.
    """
    if not isinstance(text, str):
        raise TypeError(f"a literal is text, not {type(text).__name__}")
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        shown = repr(text if len(text) <= 80 else text[:80] + "...")
        raise UserError(
            f"{_flag_of(text)} is {shown}, but must be a number, a text in quotes, or a list, "
            "tuple or dictionary of these; nothing else is evaluated"
        ) from None


def _value(node: ast.expr) -> Any:
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mult)):
        return ast.literal_eval(node)
    # fairseq's own defaults have it: "[(512, 3)] * 20", "[(512, 10, 5)] + [(512, 3, 2)] * 4".
    left, right = _value(node.left), _value(node.right)
    if isinstance(node.op, ast.Add) and isinstance(left, list) and isinstance(right, list):
        return left + right
    if not (isinstance(node.op, ast.Mult) and isinstance(left, list) and isinstance(right, int)):
        raise ValueError
    if len(left) * right > _MOST_ITEMS:
        raise ValueError
    return left * right


def _flag_of(text: str) -> str:
    """The flag, or other source, of a value that fairseq passes on without its name."""
    words = sys.argv[1:]
    for flag, value in zip(words, words[1:], strict=False):
        if value == text:
            return flag
    joined = (word.partition("=")[0] for word in words if word.endswith("=" + text))
    return next(joined, None) or stored_flag(text) or "a flag"
