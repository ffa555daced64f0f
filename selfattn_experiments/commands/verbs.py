"""The verbs of `selfattn`, grouped by what people do; a verb's module is loaded when it is typed.

A module has a docstring, which is its help, ``add_flags(parser)`` and ``main(args)``.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from selfattn.errors import UserError
from selfattn_tasks.cli import script_parser

_HERE = __name__.rpartition(".")[0]


@dataclass(frozen=True)
class Verb:
    """One command."""

    words: str  # what is typed after `selfattn`
    summary: str  # one line for the overview
    script: str = ""  # the same command in a clone, a file in `scripts/`; empty if there is none
    module: str = ""  # where its code is; empty for the module of this package with its name
    passes_on: bool = False  # whether flags it does not know belong to another program

    def load_parser(self, prog: str, typed: Callable[[str], str] = str) -> argparse.ArgumentParser:
        """Load the module and build its parser.

        The namespace that it returns also holds the module's ``main``, and ``refuse``, which ends
        the process over flags that do not fit.

        Args:
            prog: the name of the command in its messages.
            typed: turns the examples of the help into what this user types.

        Raises:
            UserError: if it is a benchmark, and this is not a clone.
        """
        name = self.module or f"{_HERE}.{self.words.replace(' ', '.')}"
        if name.startswith("benchmarks."):
            _find_benchmarks(self.words)
        module = importlib.import_module(name)
        parser = script_parser(typed(module.__doc__ or ""), prog=prog, allow_abbrev=False)
        module.add_flags(parser)
        parser.set_defaults(main=module.main, refuse=parser.error)
        return parser

    def run(self, parser: argparse.ArgumentParser, words: Sequence[str]) -> int | None:
        """Parse the words after the verb, and do what they say; return the exit code."""
        args, others = parser.parse_known_args(words)
        if self.passes_on:
            args.others = others
        elif others:
            files = all(map(os.path.exists, others))
            hint = "; put a pattern of files in quotes, or the shell replaces it" if files else ""
            parser.error(f"unrecognized arguments: {' '.join(others)}{hint}")
        code: int | None = args.main(args)
        return code


GROUPS = {
    "Set up": (Verb("info", "what is installed, what works, and how to fix the rest"),),
    "Prepare data": (
        Verb("prepare translation", "parallel text, as fairseq reads it", "prepare_translation.py"),
        Verb("prepare srl", "semantic roles, as fairseq reads them", "prepare_srl.py"),
        Verb("prepare sentences", "sentences, pairs, candidates", "prepare_sentences.py"),
        Verb("prepare conll05", "CoNLL-2005, from archives and the Treebank", "prepare_conll05.py"),
    ),
    "Train": (
        Verb("train", "run fairseq-train with this plugin", passes_on=True),
        Verb("average", "average the last checkpoints into one", "average_checkpoints.py"),
        Verb("runs", "a grid of systems and seeds: train, test, record", "run_seeds.py"),
    ),
    "Use a model": (
        Verb("predict sentences", "classes, scores and vectors of sentences",
             "predict_sentences.py", module=f"{_HERE}.predict_sentences"),
        Verb("predict", "label roles, classify, translate", "predict_srl.py"),
        Verb("export", "for transformers, ONNX, torch.export, or fairseq again", "export_model.py"),
        Verb("show", "draw what the attention does with a sentence", "show_attention.py"),
        Verb("page", "try a model in a browser"),
    ),
    "Score and compare": (
        Verb("score translation", "BLEU with its signature", "score_translation.py"),
        Verb("score srl", "F1 as the official script computes it", "score_srl.py"),
        Verb("score srl-table", "Table 4 of the MTSA paper, published rows and ours",
             "srl_table.py", module=f"{_HERE}.score.srl_table"),
        Verb("score sentences", "accuracy, or Pearson, Spearman, MSE", "score_sentences.py"),
        Verb("compare", "significance tests over runs and sentences", "compare_bleu.py"),
        Verb("simulate", "how often these tests are wrong", "simulate_tests.py"),
        Verb("curves", "learning curves from training logs", "plot_curves.py"),
    ),
    # Their code is in no wheel: outside of a clone they end with a sentence.
    "Measure (in a clone)": (
        Verb("bench attention", "time and memory of attention mechanisms", "bench_attention.py",
             module="benchmarks.attention"),
        Verb("bench training", "time and memory of whole training updates", "bench_training.py",
             module="benchmarks.training"),
    ),
}  # fmt: skip
VERBS = {verb.words: verb for group in GROUPS.values() for verb in group}


def run_script(name: str) -> int | None:
    """Run the verb that belongs to a file of ``scripts/``; return its exit code."""
    verb = next(verb for verb in VERBS.values() if verb.script == name)
    return verb.run(verb.load_parser(name, _as_scripts), sys.argv[1:])


def _as_scripts(text: str) -> str:
    """A help whose examples name the scripts."""
    for verb in VERBS.values():
        if verb.script:
            text = text.replace(f"\n  selfattn {verb.words} ", f"\n  python scripts/{verb.script} ")
    return text


def _find_benchmarks(words: str) -> None:
    """Make ``benchmarks`` importable, which is beside this package or not there at all."""
    root = Path(__file__).resolve().parents[2]
    if not (root / "benchmarks" / "__init__.py").is_file():
        raise UserError(
            f"selfattn {words} works in a clone only, because the benchmarks are not installed"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
