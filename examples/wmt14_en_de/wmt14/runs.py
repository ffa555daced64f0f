"""What was trained and how it scored, as ``scores.json`` in each run's folder."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from selfattn.errors import UserError
from selfattn_tasks.files import write_json
from selfattn_tasks.translation.metrics import Score

from .bleu import FAIRSEQ

if TYPE_CHECKING:
    from torch import Tensor

SCORES = "scores.json"
# The old name, from before both ways of splitting were named after their scripts.
_OLD_NAMES = {"compound-split": FAIRSEQ}

# tensor2tensor 1.9.0: transformer_base (Setup 2) and transformer_base_single_gpu (Setup 1), as
# fairseq spells them. "batch" is --max-tokens x processes x --update-freq.
_COMMON: dict[str, Any] = {
    "encoder_layers": 6, "decoder_layers": 6, "encoder_embed_dim": 512, "decoder_embed_dim": 512,
    "encoder_ffn_embed_dim": 2048, "decoder_ffn_embed_dim": 2048,
    "encoder_attention_heads": 8, "decoder_attention_heads": 8,
    "encoder_normalize_before": True, "decoder_normalize_before": True,
    "share_all_embeddings": True, "dropout": 0.1, "attention_dropout": 0.1,
    "activation_dropout": 0.1, "criterion": "label_smoothed_cross_entropy", "label_smoothing": 0.1,
    "optimizer": "adam", "adam_betas": (0.9, 0.997), "adam_eps": 1e-9, "clip_norm": 0.0,
    "weight_decay": 0.0, "lr_scheduler": "inverse_sqrt", "warmup_init_lr": 0.0,
    "fp16": False, "bf16": False, "amp": False, "max_source_positions": 256,
    "max_target_positions": 256,
}  # fmt: skip
SETUPS: dict[int, dict[str, Any]] = {
    1: _COMMON
    | {"warmup_updates": 16_000, "lr": 0.000698771, "batch": 2_048, "max_update": 250_000},
    2: _COMMON
    | {"warmup_updates": 8_000, "lr": 0.000988212, "batch": 24_576, "max_update": 133_000},
}
# The initial bias of source2token (bias_start in the authors' commands).
_S2T_BIAS = {1: 5.0, 2: 0.0}


@dataclass(frozen=True)
class Run:
    """One checkpoint's translation of the test set."""

    checkpoint: str  # last or average16, for example
    setup: int | None  # 1 or 2 by its warm-up, None for any other
    attention: str  # of the encoder
    seed: int
    updates: int  # that the checkpoint has seen
    parameters: int  # shared ones count once
    departures: tuple[str, ...]  # what is not as published
    scores: Mapping[str, Score]  # by flavour of BLEU


def describe(checkpoint: Path, name: str, scores: Mapping[str, Score]) -> Run:
    """Read off a checkpoint what it is, and call it ``name``.

    Raises:
        UserError: if the file is not a fairseq checkpoint.
    """
    # Here, because the table needs no torch, which takes seconds to import.
    from selfattn_tasks import checkpoints

    state = checkpoints.read(checkpoint)
    flags = checkpoints.flags(state)
    # Under torchrun only this one knows of processes on other hosts.
    flags |= (state.get("cfg") or {}).get("distributed_training") or {}
    flags["batch"] = batch_tokens(flags)
    updates = int(state["optimizer_history"][-1]["num_updates"])
    warm_up = flags.get("warmup_updates")
    setup = next((n for n, setup in SETUPS.items() if setup["warmup_updates"] == warm_up), None)
    return Run(
        checkpoint=name,
        setup=setup,
        attention=str(flags.get("encoder_attention", "multihead")),
        seed=int(flags.get("seed", 1)),
        updates=updates,
        parameters=_parameters(state["model"]),
        departures=tuple(departures(flags, setup, updates)) if setup else (),
        scores=scores,
    )


def batch_tokens(flags: Mapping[str, Any]) -> int:
    """Tokens of an update, padding counted: ``--max-tokens`` x processes x ``--update-freq``."""
    tokens, processes = flags.get("max_tokens") or 0, flags.get("distributed_world_size", 1)
    return int(tokens * processes * _first(flags.get("update_freq", [1])))


def departures(flags: Mapping[str, Any], setup: int, updates: int) -> list[str]:
    """How a run departs from the published one.

    ``flags`` are fairseq-train's, as argparse spells them, and ``batch``.
    """
    wanted = SETUPS[setup] | _switches(flags, _S2T_BIAS[setup])
    found = [
        f"{name} is {_first(flags.get(name))}, published {value}"
        for name, value in wanted.items()
        if not _equal(flags.get(name), value)
    ]
    # Published are encoders without these biases, both of them.
    if flags.get("mtsa_projections") == "preset":
        found.append("mtsa_projections is preset, but the recipe's baseline has fairseq's biases")
    if updates < wanted["max_update"] and not any(text.startswith("max_update") for text in found):
        found.append(f"it has {updates:,} of {wanted['max_update']:,} updates")
    return found


def _switches(flags: Mapping[str, Any], s2t_bias: float) -> dict[str, Any]:
    """The published values of the attention's switches that a checkpoint holds."""
    from selfattn.config import MTSAConfig, MultiHeadConfig  # here for the same reason as above

    if flags.get("encoder_attention") != "mtsa":  # fairseq's own attention holds none
        usual = {f"multihead_{f.name}": f.default for f in fields(MultiHeadConfig)}
        return {name: value for name, value in usual.items() if name in flags}
    published = asdict(MTSAConfig.make("nmt", s2t_bias_init=s2t_bias))
    for name in ("backend", "attention_dropout", *MTSAConfig.as_fairseq()):
        del published[name]
    return {"mtsa_preset": "nmt"} | {f"mtsa_{name}": v for name, v in published.items()}


def _equal(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, tuple):
        # fairseq keeps the betas as they were typed.
        values = ast.literal_eval(found) if isinstance(found, str) else found
        return isinstance(values, list | tuple) and tuple(values) == wanted
    found = _first(found)
    if isinstance(wanted, float) and isinstance(found, int | float):
        return math.isclose(found, wanted, rel_tol=1e-6, abs_tol=1e-12)
    return bool(found == wanted)


def _first(value: Any) -> Any:
    """fairseq stores lists of values by epoch, for lr and update_freq."""
    return value[0] if isinstance(value, list) and value else value


def _parameters(weights: Mapping[str, Tensor]) -> int:
    """Numbers in all weights; tensors that share their memory count once."""
    sizes = {
        (tensor.data_ptr(), tensor.shape): tensor.numel()
        for name, tensor in weights.items()
        # fairseq's markers of the layout's version and of the device.
        if not name.endswith((".version", "._float_tensor"))
    }
    return sum(sizes.values())


def save(folder: Path, run: Run) -> None:
    """Add a run to ``scores.json`` in ``folder``; an older entry of the same checkpoint goes."""
    path = folder / SCORES
    entries = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    entries[run.checkpoint] = asdict(run)
    write_json(path, entries)


def load(folder: Path) -> list[Run]:
    """The runs in a folder's ``scores.json``.

    Raises:
        UserError: if there is none, or it is damaged.
    """
    path = folder / SCORES
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return [
            Run(**{
                **entry,
                "departures": tuple(entry["departures"]),
                "scores": {
                    _OLD_NAMES.get(name, name): Score(**score)
                    for name, score in entry["scores"].items()
                },
            })
            for entry in entries.values()
        ]  # fmt: skip
    except FileNotFoundError:
        raise UserError(f"{folder} holds no {SCORES}: run evaluate.sh on it first") from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UserError(f"{path} is damaged ({error}): run evaluate.sh again") from None
