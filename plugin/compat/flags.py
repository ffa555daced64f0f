"""Flags: values that are refused, and defaults that commands need."""

import json
import math
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import Any

from fairseq import options
from fairseq.data.encoders import TOKENIZER_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY

from selfattn.errors import UserError
from selfattn_tasks.cli import option
from selfattn_tasks.files import check_output, check_output_folder
from selfattn_tasks.sentences.folder import META, Folder
from selfattn_tasks.sentences.record import Kind
from selfattn_tasks.srl.prepare import LABELS
from selfattn_tasks.words.embeddings import vector_width

from ._patch import check_flags, wrap
from .literals import literal
from .search import check_search

# How names of what validations log end, by what is better: more or less of it.
_SCORES = (
    "accuracy", "bleu", "f1", "precision", "recall", "perfect_props", "pearson", "spearman",
    "reward",
)  # fmt: skip
_LOSSES = ("loss", "ppl", "mse")
_BELOW_1 = math.nextafter(1, 0)
# What numbers may be, by their flags: at least, and at most.
_RANGES: dict[str, tuple[int, float]] = {
    **dict.fromkeys(
        "update_freq log_interval save_interval validate_interval beam nbest batch_size "
        "batch_size_valid max_tokens max_tokens_valid encoder_embed_dim decoder_embed_dim "
        "encoder_layers decoder_layers".split(),
        (1, math.inf),
    ),
    **dict.fromkeys(("lr", "warmup_updates", "num_workers"), (0, math.inf)),
    **dict.fromkeys(
        "dropout attention_dropout activation_dropout encoder_layerdrop decoder_layerdrop".split(),
        (0, _BELOW_1),
    ),
    "label_smoothing": (0, 1),
    "seed": (0, 2**32 - 1),
}
_TASKS = {  # of criterions that read what only these tasks put into a batch
    "bio_tagging": "srl_tagging",
    "bio_crf": "srl_tagging",
    "sentence_classification": "sentences",
    "sentence_relatedness": "sentences",
}
_CRITERIONS = {"sentences": "sentence_classification", "srl_tagging": "bio_tagging"}
_ONE_RATE = ("cosine", "inverse_sqrt", "reduce_lr_on_plateau", "tri_stage", "triangular")
_BATCH_SIZE = ("--batch-size", "--max-sentences")
_FILES = (
    "sentencepiece_model", "encoder_embed_path", "decoder_embed_path", "ema_seed_model",
    "quantization_config_path",
)  # fmt: skip
_ARCHITECTURES = {"sentences": "sentence_encoder_mtsa", "srl_tagging": "deepatt_mtsa"}


@check_flags
def check_numbers(flags: Namespace) -> None:
    """Refuse impossible numbers.

    Break: fairseq divides by ``--log-interval 0``, makes one batch of all data with ``--max-tokens
    0``, climbs with ``--lr -1``, and lets torch find ``--dropout 1.5`` or ``--adam-betas 0.9`` in
    the first update. Fix: look first.
    """
    for name, (low, high) in _RANGES.items():
        value = getattr(flags, name, None)
        for number in value if isinstance(value, list) else [value]:
            if isinstance(number, int | float) and not low <= number <= high:
                until = "below 1" if high == _BELOW_1 else high
                allowed = f"at least {low}" if high == math.inf else f"{low} to {until}"
                raise UserError(f"{option(name)} {number} is not allowed; it must be {allowed}")
    scheduler, rates = getattr(flags, "lr_scheduler", None), getattr(flags, "lr", None)
    if scheduler in _ONE_RATE and isinstance(rates, list) and len(rates) > 1:
        raise UserError(
            f"--lr {','.join(map(str, rates))} is a rate for each epoch, but --lr-scheduler "
            f"{scheduler} takes one rate; give one, or --lr-scheduler fixed"
        )
    if scheduler == "inverse_sqrt" and getattr(flags, "warmup_updates", 1) == 0:  # it divides
        raise UserError("--warmup-updates 0 is not allowed; inverse_sqrt needs at least 1")
    for name in ("adam_betas", "adamax_betas"):
        betas = getattr(flags, name, None)
        if isinstance(betas, str) and not _is_pair(literal(betas)):
            raise UserError(
                f"{option(name)} {betas} is not allowed; it must be two numbers from 0 to below "
                "1, such as '(0.9, 0.98)'"
            )


def _is_pair(betas: Any) -> bool:
    if not (isinstance(betas, tuple | list) and len(betas) == 2):
        return False
    return all(isinstance(beta, int | float) and 0 <= beta < 1 for beta in betas)


@check_flags
def check_named_files(flags: Namespace) -> None:
    """Refuse what a flag names if it is missing, cannot be written, or should be JSON and is not.

    Break: fairseq's commands end in a traceback, some after the data is loaded. Fix: look first.
    """
    if not getattr(flags, "path", "of a run"):
        raise UserError("--path is missing; give a checkpoint")
    if log := getattr(flags, "log_file", None):
        check_output("--log-file", Path(log))
    for name in ("tensorboard_logdir", "results_path"):
        if folder := getattr(flags, name, None):
            check_output_folder(option(name), Path(folder))
    for name in _FILES:
        path = getattr(flags, name, None)
        if path and "://" not in path and not os.path.isfile(path):  # fairseq fetches others
            raise UserError(f"{option(name)} {path}: there is no such file")
    for side in ("encoder", "decoder"):
        _check_vectors(side, flags)
    typed = getattr(flags, "input", "-")  # of fairseq-interactive
    if typed != "-" and not os.path.exists(typed):
        raise UserError(f"--input {typed}: there is no such file")
    if getattr(flags, "write_checkpoints_asynchronously", False) and find_spec("iopath") is None:
        raise UserError(
            "--write-checkpoints-asynchronously needs iopath: install it with `pip install "
            "iopath`, or leave the flag out"
        )
    detok = getattr(flags, "eval_bleu_detok", None)
    if detok not in (None, *TOKENIZER_REGISTRY):
        raise UserError(
            f"--eval-bleu-detok {detok} is not known; it must be one of "
            f"{', '.join(TOKENIZER_REGISTRY)}"
        )
    for name in ("eval_bleu_args", "eval_bleu_detok_args"):
        value = getattr(flags, name, None)
        if value is None:
            continue
        given = _dictionary(value)
        if given is None:
            raise UserError(f'{option(name)} is {value!r}, but must be JSON such as {{"beam": 1}}')
        for check in (check_numbers, check_search):
            check(Namespace(**given))


def _check_vectors(side: str, flags: Namespace) -> None:
    path, width = (getattr(flags, f"{side}_embed_{what}", None) for what in ("path", "dim"))
    if not path or width is None or not os.path.isfile(path):
        return
    if (found := vector_width(Path(path))) != width:
        raise UserError(
            f"--{side}-embed-path {path} holds vectors of {found} numbers, but "
            f"--{side}-embed-dim is {width}; they must be equal"
        )


def _dictionary(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


@check_flags
def check_adaptive_softmax(flags: Namespace) -> None:
    """Refuse to train with half of what an adaptive softmax needs.

    Break: fairseq's criterions end in a traceback, most in the first update. Fix: look first.
    """
    if not hasattr(flags, "arch"):
        return
    cutoff = getattr(flags, "adaptive_softmax_cutoff", None)
    if flags.criterion != "adaptive_loss":
        if cutoff:
            raise UserError(
                f"--adaptive-softmax-cutoff needs --criterion adaptive_loss, not {flags.criterion}"
            )
    elif not cutoff:
        raise UserError(
            "--criterion adaptive_loss needs --adaptive-softmax-cutoff, such as 10000,20000"
        )
    elif flags.ddp_backend in ("c10d", "pytorch_ddp"):
        raise UserError(
            f"--criterion adaptive_loss needs --ddp-backend legacy_ddp, not {flags.ddp_backend}"
        )


@check_flags
def check_refinement(flags: Namespace) -> None:
    """Refuse ``--criterion nat_loss`` for models that do not refine what they have written.

    Break: fairseq/criterions/nat_loss.py ends in a traceback in the first update. Fix: look first.
    """
    if getattr(flags, "criterion", None) != "nat_loss" or not hasattr(flags, "arch"):
        return
    if "tgt_tokens" not in signature(ARCH_MODEL_REGISTRY[flags.arch].forward).parameters:
        raise UserError(
            f"--criterion nat_loss does not fit --arch {flags.arch}; it is for non-autoregressive "
            "models such as --arch cmlm_transformer"
        )


@check_flags
def check_best(flags: Namespace) -> None:
    """Refuse a ``--best-checkpoint-metric`` of which the worst checkpoint would count as the best.

    Break: fairseq/checkpoint_utils.py, save_checkpoint, takes every metric for a loss, or none with
    ``--maximize-best-checkpoint-metric``. Fix: know which is which.
    """
    metric = str(getattr(flags, "best_checkpoint_metric", ""))
    if metric.endswith(_SCORES) and not flags.maximize_best_checkpoint_metric:
        end = "the higher it is: add --maximize-best-checkpoint-metric"
    elif metric.endswith(_LOSSES) and flags.maximize_best_checkpoint_metric:
        end = "the lower it is: leave out --maximize-best-checkpoint-metric"
    else:
        return
    raise UserError(f"--best-checkpoint-metric {metric} is better {end}")


@check_flags
def check_criterion(flags: Namespace) -> None:
    """Refuse flags of fairseq that the plugin's criterions do not follow.

    They would do nothing, read another file, or end in a traceback. Fix: say so.
    """
    task = getattr(flags, "task", None)
    for name in ("criterion", "supervised_criterion"):
        criterion = getattr(flags, name, None)
        needed = _TASKS.get(str(criterion), task)
        if task != needed:
            raise UserError(
                f"{option(name)} {criterion} does not fit --task {task}; it is for --task {needed}"
            )
    if task == "srl_tagging" and getattr(flags, "sentence_avg", False):
        raise UserError(
            f"--sentence-avg does not fit --criterion {flags.criterion}, whose loss is a mean over "
            "words; leave it out"
        )
    if task in _CRITERIONS and getattr(flags, "combine_valid_subsets", None):
        raise UserError(
            f"--combine-valid-subsets does not fit --task {task}; name the sets, such as "
            "--valid-subset valid,valid1"
        )
    subset = getattr(flags, "train_subset", "train")
    if getattr(flags, "scaffold", None) and subset != "train":
        raise UserError(
            f"--train-subset {subset} does not fit --scaffold, which reads the sentences of "
            "the set train; leave one of them out"
        )
    validates = not getattr(flags, "disable_validation", False)
    validated = getattr(flags, "valid_subset", "").split(",")
    if task == "srl_tagging" and validates and "train" in validated:
        raise UserError(
            f"--valid-subset {flags.valid_subset}: the set train is read without the propositions "
            "that scores need; copy train.txt and train.conll to another name, and give that"
        )


def _before_parsing(prepare: Callable[[ArgumentParser, Sequence[str]], None]) -> Any:
    """Decorator: have a function change the parser of a fairseq command before it parses words."""

    @wrap(options, "parse_args_and_arch")
    def parse_args_and_arch(
        original: Any, parser: ArgumentParser, input_args: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        prepare(parser, sys.argv[1:] if input_args is None else list(input_args))
        return original(parser, input_args, *args, **kwargs)

    return prepare


@_before_parsing
def complete_validation(parser: ArgumentParser, given: Sequence[str]) -> None:
    """Let fairseq-validate do without ``--task`` and a batch size, as fairseq-generate does.

    Break: fairseq/options.py, get_validation_parser, has no default task and ends in ``KeyError:
    None``; fairseq_cli/validate.py then asserts a batch size. Fix: fairseq-generate's defaults. The
    task only decides which flags are known here: the one that runs is the checkpoint's.
    """
    # fairseq-validate's is the only parser whose --task has no default.
    if any(a.dest == "task" and a.default is None for a in parser._actions):
        sized = any(word.partition("=")[0] in _BATCH_SIZE for word in given)
        parser.set_defaults(task="translation", max_tokens=None if sized else 12000)


@_before_parsing
def complete_help(parser: ArgumentParser, given: Sequence[str]) -> None:
    """Let ``--help`` show the flags of the given architecture, task and criterion.

    Break: fairseq/options.py, parse_args_and_arch, parses once to learn their names, and a parser
    that meets ``--help`` prints what it knows so far and exits; without ``--arch`` it raises an
    empty error. Fix: leave ``--help`` out at first; say what is missing.
    """
    rest = [word for word in given if word not in ("-h", "--help")]
    parse = parser.parse_known_args

    def first(_: Any = None, namespace: Any = None) -> Any:
        parser.parse_known_args = parse  # type: ignore[method-assign]
        found = parse(rest, namespace)
        if getattr(found[0], "arch", "") is None:
            parse(given, namespace)  # ends here, if it is asked for help
            arch = _ARCHITECTURES.get(found[0].task, "transformer_mtsa")
            raise UserError(f"--arch is missing; give one, such as --arch {arch}")
        return found

    parser.parse_known_args = first  # type: ignore[assignment, method-assign]


def criterion_of(kind: Kind) -> str:
    """The name of the criterion for what is asked of sentences."""
    return "sentence_relatedness" if kind.target == "score" else "sentence_classification"


@_before_parsing
def complete_criterion(parser: ArgumentParser, given: Sequence[str]) -> None:
    """Let ``--task sentences`` do without ``--criterion``: its data say which one it needs.

    Break: fairseq/options.py has one default for all tasks, the cross-entropy of translation, and
    calls the flags of others unrecognized. Fix: one of the task, where neither flag nor
    configuration names another. A ``--task`` that is forgotten or that of other data is named.
    """
    trains = any(action.dest == "arch" for action in parser._actions)
    only_task = ArgumentParser(add_help=False, allow_abbrev=False)
    only_task.add_argument("--task", default="translation" if trains else None)
    task = only_task.parse_known_args(given)[0].task
    if task in _CRITERIONS:
        parser.set_defaults(criterion=_CRITERIONS[task])
    for folder in (word for word in given if os.path.isfile(os.path.join(word, META))):
        is_srl = os.path.isfile(os.path.join(folder, LABELS))
        needed = "srl_tagging" if is_srl else "sentences"
        if task in ("translation", *_CRITERIONS) and task != needed:
            raise UserError(f"{folder} is data for --task {needed}, not for --task {task}")
        if task == "sentences":
            parser.set_defaults(criterion=criterion_of(Folder(folder).kind))
