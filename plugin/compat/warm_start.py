"""``--finetune-from-model``: start from another Transformer, whatever its encoder's attention."""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer
from torch import Tensor, nn

from selfattn.errors import UserError

from ._patch import wrap

logger = logging.getLogger(__name__)
# fairseq's attention holds its weights itself, ours one level further down.
_ATTENTION = re.compile(r"(encoder\.layers\.\d+\.self_attn\.)(?:attention\.)?(.+)")


class _Start:
    """The checkpoint that a new run is starting from; None at all other times."""

    path: str | None = None
    task_state: Mapping[str, Any] = {}


@wrap(Trainer, "load_checkpoint")
def start_from_other_attentions(
    original: Any, self: Trainer, filename: str, *args: Any, **kwargs: Any
) -> Any:
    """Let ``--finetune-from-model`` take a Transformer with another attention in its encoder.

    Break: fairseq/trainer.py, load_checkpoint, loads strictly, reads on one rank alone, and with
    --store-ema ends in a KeyError. Fix: models whose ``load_state_dict`` calls :func:`fit` get what
    fits, on every rank; the average starts from it.
    """
    cfg = self.cfg
    if filename != cfg.checkpoint.finetune_from_model:
        return original(self, filename, *args, **kwargs)
    usual = cfg.checkpoint.load_checkpoint_on_all_dp_ranks, cfg.ema.store_ema
    # What fits depends on the checkpoint's task, too, which fairseq shows to the rank that reads.
    cfg.checkpoint.load_checkpoint_on_all_dp_ranks, cfg.ema.store_ema = True, False
    _Start.path = filename
    try:
        return original(self, filename, *args, **kwargs)
    finally:
        _Start.path, _Start.task_state = None, {}
        cfg.checkpoint.load_checkpoint_on_all_dp_ranks, cfg.ema.store_ema = usual


@wrap(checkpoint_utils, "load_checkpoint")
def explain_start(original: Any, *args: Any, **kwargs: Any) -> Any:
    """Say that ``--finetune-from-model`` names no file, or which flags exclude it.

    Break: fairseq/checkpoint_utils.py raises ValueErrors, with the whole configuration after the
    sentence. Fix: the sentence alone.
    """
    try:
        return original(*args, **kwargs)
    except ValueError as error:
        if isinstance(error, UserError) or not str(error).startswith("--finetune-from-model"):
            raise
        raise UserError(re.sub(r" together: .*", " together", str(error))) from None


def saw(state: Mapping[str, Any]) -> None:
    """Keep what a model that is starting may ask of its checkpoint, beside the weights."""
    _Start.task_state = state.get("task_state") or {}


def is_starting() -> bool:
    """Whether a model's weights are to come from the checkpoint of another one."""
    return _Start.path is not None


def takes_what_fits(model: nn.Module) -> bool:
    """Whether a model is starting from a checkpoint of which it may leave some weights."""
    return is_starting() and getattr(model, "starts_from_other_attentions", False)


def task_state() -> Mapping[str, Any]:
    """What the checkpoint that is read holds of its task."""
    return _Start.task_state


def fit(model: nn.Module, state: dict[str, Any]) -> dict[str, Any]:
    """The weights that a model starts from.

    Outside of ``--finetune-from-model`` these are the checkpoint's. There, the encoder's attention
    takes those of the same name and shape (q, k, v and output projections between most mechanisms)
    and keeps its own new ones elsewhere; the log says how many. Everything else must still fit.

    Args:
        model: the new model.
        state: a checkpoint's weights by name; upgraded in place, as fairseq does.

    Raises:
        UserError: if the model ties embeddings that differ in the checkpoint.
    """
    if _Start.path is None:
        return state
    model.upgrade_state_dict(state)  # type: ignore[operator]
    stored, rest = _apart(state)
    own = model.state_dict(keep_vars=True)
    fairseqs = {name: m[1] + m[2] for name in own if (m := _ATTENTION.fullmatch(name))}
    found, inside, new = _fitting(
        {name: own[name] for name in fairseqs}, {n: stored.get(fairseqs[n]) for n in fairseqs}
    )
    start = rest | found
    _check_tied(own, start)
    taken = [name for name in own if name not in new]
    logger.info(
        "warm start from %s: %s are the checkpoint's, of which the encoder's attention has %s (%s)",
        _Start.path, _size(model, taken), _size(model, inside), _parts(inside),
    )  # fmt: skip
    logger.info("new in the encoder's attention: %s (%s)", _size(model, new), _parts(new))
    return start


def fit_names(model: nn.Module, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """The weights that a model starts from, where models of other tasks may lend some of theirs.

    Outside of ``--finetune-from-model`` these are the checkpoint's. There, a weight of the same
    name and shape is taken, and any other stays new; the log says which.

    Raises:
        UserError: if nothing fits.
    """
    if _Start.path is None:
        return state
    start, taken, new = _fitting(model.state_dict(), state)
    if not any(name in taken for name, _ in model.named_parameters()):
        raise UserError(
            f"--finetune-from-model {_Start.path} has no weight of the name and shape of one of "
            "this model: use the context and the sizes it was trained with"
        )
    for what, names in (("the checkpoint's", taken), ("new", new)):
        inside = sorted({name.rpartition(".")[0] for name in names}) or ["none"]
        logger.info(
            "warm start from %s: %s are %s: %s",
            _Start.path, _size(model, names), what, ", ".join(inside),
        )  # fmt: skip
    return start


def advice(model: nn.Module) -> str:
    """What to add to a refusal of a checkpoint, where ``--finetune-from-model`` would help."""
    if _Start.path is not None or not getattr(model, "starts_from_other_attentions", False):
        return ""
    return ", or take what fits with --finetune-from-model"


def _fitting(
    own: Mapping[str, Any], given: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str], list[str]]:
    """The weights of a new model: what is given and fits, else its own; and the names of both."""
    taken = {
        name: other
        for name, value in own.items()
        if (other := given.get(name)) is not None
        and (name.endswith("_extra_state") or other.shape == value.shape)
    }
    return {**own, **taken}, list(taken), [name for name in own if name not in taken]


def _apart(state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The encoder's attention under fairseq's names, and everything else."""
    attention, rest = {}, {}
    for name, value in state.items():
        match = _ATTENTION.fullmatch(name)
        if match is None:
            rest[name] = value
        elif match[2].startswith("in_proj_"):  # before fairseq 0.8: q, k and v in one
            kind = match[2].removeprefix("in_proj_")
            for letter, rows in zip("qkv", value.chunk(3), strict=True):
                attention[f"{match[1]}{letter}_proj.{kind}"] = rows
        else:
            attention[match[1] + match[2]] = value
    return attention, rest


def _check_tied(own: dict[str, Any], start: dict[str, Any]) -> None:
    """Refuse one tensor that would get two values, of which the later one would stay."""
    first: dict[int, str] = {}
    for name, value in own.items():
        if not isinstance(value, Tensor) or name not in start:
            continue
        twin = first.setdefault(id(value), name)
        if start[twin].shape == start[name].shape and not start[twin].equal(start[name]):
            raise UserError(
                f"{twin} and {name} are one here and differ in the checkpoint {_Start.path}; share "
                "embeddings as it does (--share-all-embeddings, "
                "--share-decoder-input-output-embed)"
            )


def _size(model: nn.Module, names: Iterable[str]) -> str:
    chosen = set(names)
    sizes = [p.numel() for name, p in model.named_parameters() if name in chosen]
    return f"{len(sizes)} tensors ({sum(sizes):,} parameters)"


def _parts(names: Iterable[str]) -> str:
    found = (_ATTENTION.fullmatch(name) for name in names)
    return ", ".join(sorted({m[2].split(".")[0] for m in found if m} - {"_extra_state"})) or "none"
