"""Translation models: fairseq's checkpoints and folders of Hugging Face."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from selfattn.config import CONFIGS
from selfattn.errors import UserError

from .. import checkpoints, saved
from ..files import read_object, writing
from ..model_folder import CONFIG, WEIGHTS, checkpoint, translates
from ..translation import vocabulary
from ..translation.parts import find_parts
from ..translation.prepare import SUMMARY, lowercased
from . import names
from .pieces import SPECIAL, build_tokenizer, read_dictionary

# What fairseq's Transformer can be and these models cannot.
_REFUSED = (
    "adaptive_input",
    "adaptive_softmax_cutoff",
    "base_layers",
    "character_embeddings",
    "cross_self_attention",
    "merge_src_tgt_embed",
    "no_cross_attention",
    "no_decoder_final_norm",
    "relu_dropout",
    "scale_attn",
    "scale_fc",
    "scale_heads",
    "scale_resids",
)


@dataclass(frozen=True)
class Search:
    """How translations are searched for, in fairseq-generate's words.

    Args:
        beam: width of the beam.
        lenpen: exponent of the length by which scores are divided.
        max_len_a: most tokens of a translation for each token of the source.
        max_len_b: most tokens of a translation, added to that.
    """

    beam: int = 5
    lenpen: float = 1.0
    max_len_a: float = 0.0
    max_len_b: int = 200


def to_hf(
    state: dict[str, Any],
    folder: Path,
    path: Path,
    data: str | None = None,
    search: Search | None = None,
) -> Any:
    """Write a checkpoint of fairseq's translation task as a folder of Hugging Face.

    Weights keep their precision; the configuration has transformers compute in float32.

    Args:
        state: the checkpoint.
        folder: what to write.
        path: of the checkpoint.
        data: as for ``read_model``.
        search: how to translate.

    Returns:
        the model.

    Raises:
        UserError: as for ``read_model``.
    """
    model, tokenizer, spm = read_model(path, data, state)
    set_search(model.generation_config, search or Search())
    folder.mkdir(parents=True, exist_ok=True)
    weights = model.state_dict()
    kinds = {t.dtype for t in state["model"].values() if t.is_floating_point()}
    if len(kinds) == 1 and (kind := kinds.pop()) != torch.float32:
        halves = {tensor.data_ptr(): tensor.to(kind) for tensor in weights.values()}
        weights = {name: halves[tensor.data_ptr()] for name, tensor in weights.items()}  # tied
    model.save_pretrained(folder, state_dict=weights)
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)  # safetensors lets nobody else read it
    tokenizer.save_pretrained(folder)
    if spm:
        shutil.copyfile(spm, folder / "spm.model")
    return model


def read_model(
    path: Path, data: str | None = None, state: dict[str, Any] | None = None
) -> tuple[Any, Any, str | None]:
    """A checkpoint of fairseq's translation task as a model of this project.

    Args:
        path: the checkpoint.
        data: folder of the dictionaries; default: see ``parts.find_parts``.
        state: what the file holds, if it was read.

    Returns:
        the model, its tokenizer, and the file of its SentencePiece model.

    Raises:
        UserError: if the checkpoint is of another kind, or its dictionaries are not found.
    """
    state = state or checkpoints.read(path)
    flags = checkpoints.flags(state)
    # One that begins with a dot would be below the checkpoint's folder, as it is in fairseq.
    found = find_parts(path.parent, path.name, data and str(Path(data).absolute()))
    place = Path(found["data_name_or_path"])
    languages = _languages(state, path)
    entries = read_dictionary(place / f"dict.{languages[0]}.txt")
    if read_dictionary(place / f"dict.{languages[1]}.txt") != entries:
        raise UserError(
            f"the dictionaries of {place} differ, but a tokenizer of Hugging Face has one; "
            "prepare the data with one for both languages (--joined-dictionary)"
        )
    stored = (state.get("task_state") or {}).get(vocabulary.FINGERPRINTS, {}).get("source")
    if stored and tuple(stored) != vocabulary.fingerprint(entries):
        raise UserError(
            f"the dictionaries of {place} are not those that {path} was trained with; name their "
            "folder with --data"
        )
    from selfattn.hf import SelfattnForConditionalGeneration

    spm = found.get("sentencepiece_model")
    config = config_of(flags, state["model"], path)
    for name, language in zip(("source_lang", "target_lang"), languages, strict=True):
        setattr(config, name, language)
    if config.vocab_size != len(entries):
        raise UserError(
            f"{path} has {config.vocab_size} tokens, but the dictionary in {place} has "
            f"{len(entries)}: it is another data's"
        )
    model = SelfattnForConditionalGeneration(config)
    try:
        model.load_state_dict(names.ours_of(state["model"]))
    except RuntimeError as error:
        raise UserError(f"the weights in {path} do not fit its flags: {error}") from None
    longest = config.max_position_embeddings
    return model, tokenizer_of(place, entries, Path(spm) if spm else None, longest), spm


def tokenizer_of(place: Path, entries: Sequence[str], spm: Path | None, longest: int) -> Any:
    """The tokenizer of prepared text.

    Args:
        place: folder of the dictionaries; it or the one above says how text was cleaned.
        entries: of the dictionary.
        spm: SentencePiece's model, if there is one.
        longest: tokens that the model can read.

    Raises:
        UserError: as for ``build_tokenizer``.
    """
    from selfattn.hf import SelfattnTokenizer

    return SelfattnTokenizer(
        tokenizer_object=build_tokenizer(entries, spm, bool(lowercased(place))),
        known=len(entries),
        model_max_length=longest,
        **dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), SPECIAL, strict=True)),
    )


def config_of(flags: Mapping[str, Any], weights: Mapping[str, Tensor], path: Path) -> Any:
    """The configuration of a checkpoint's model.

    Args:
        flags: of the model.
        weights: by name.
        path: the checkpoint, for messages.

    Raises:
        UserError: if these models cannot be like it.
    """
    from selfattn.hf import SelfattnConfig

    if "decoder.embed_tokens.weight" not in weights or "encoder_embed_dim" not in flags:
        raise UserError(f"{path} is not a Transformer of fairseq's translation task")
    for name in _REFUSED:
        if flags.get(name):
            raise UserError(
                f"{path} was trained with --{name.replace('_', '-')}, which is not exported"
            )
    for name in ("embed_dim", "learned_pos"):
        sides = [flags.get(f"{side}_{name}") for side in ("encoder", "decoder")]
        if sides[0] != sides[1]:
            raise UserError(
                f"{path} has --encoder-{name.replace('_', '-')} {sides[0]}, but {sides[1]} in its "
                "decoder; only models where they are equal are exported"
            )
    positions = "learned" if flags["encoder_learned_pos"] else "sinusoidal"
    share = "output" if flags.get("share_decoder_input_output_embed") else "none"
    name = "multihead"
    if any(names.WRAPPED in weight for weight in weights):
        name = flags.get("encoder_attention", "mtsa")
    stored = {s: flags.get(f"{name}_{s}") for s in CONFIGS[name].switch_names()}
    given = {s: value for s, value in stored.items() if f"{name}_{s}" in flags}
    return SelfattnConfig(
        vocab_size=len(weights["decoder.embed_tokens.weight"]),
        attention=name,
        preset=flags.get(f"{name}_preset"),
        switches={**CONFIGS[name].formerly, **given},
        positions="none" if flags.get("no_token_positional_embeddings") else positions,
        share_embeddings="all" if flags.get("share_all_embeddings") else share,
        scale_embedding=not flags.get("no_scale_embedding"),
        **{field: flags[flag] for flag, field in names.FIELDS.items() if flag in flags},
    )


def read_folder(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer of a folder of Hugging Face.

    Raises:
        UserError: if it holds no translation model of this project, or is broken.
    """
    from selfattn.hf import SelfattnForConditionalGeneration, SelfattnTokenizer

    if not translates(folder / WEIGHTS):
        held = read_object(folder / CONFIG).get("architectures")
        raise UserError(f"{folder} holds {held}, not a translation model of this project")
    try:
        model, found = SelfattnForConditionalGeneration.from_pretrained(
            folder, output_loading_info=True
        )
        tokenizer = SelfattnTokenizer.from_pretrained(folder)
    except Exception as error:  # of transformers, safetensors and the system
        reason = f"{error} ".splitlines()[0].strip()
        raise UserError(f"the model in {folder} cannot be read: {reason}") from error
    if found["missing_keys"]:  # transformers draws them at random
        raise UserError(f"{folder / WEIGHTS} lacks {min(found['missing_keys'])}")
    return model, tokenizer


def to_fairseq(folder: Path, path: Path) -> None:
    """Write a folder as a checkpoint for fairseq-generate, and beside it how text was prepared.

    Args:
        folder: of Hugging Face, with a translation model.
        path: the checkpoint to write; it and the dictionaries are all that
            ``fairseq-interactive`` needs.

    Raises:
        UserError: if the folder holds no such model, or one that fairseq's cannot be like, or other
            dictionaries lie there already.
    """
    model, tokenizer = read_folder(folder)
    names.check_fairseq_has(model.config, folder / CONFIG)
    entries = list(tokenizer.convert_ids_to_tokens(list(range(model.config.vocab_size))))
    if tuple(entries[: len(SPECIAL)]) != SPECIAL or None in entries:
        raise UserError(f"{folder}: a vocabulary of fairseq begins with {', '.join(SPECIAL)}")
    flags, attention = model.config, model.config.attention
    wrapped = names.WRAPPED if attention != "multihead" or not _is_plain(flags) else ""
    args = {
        "arch": f"transformer_{attention if attention != 'multihead' else 'mtsa'}",
        "task": "translation",
        "criterion": "cross_entropy",
        "optimizer": "adam",
        "source_lang": getattr(flags, "source_lang", None) or "src",
        "target_lang": getattr(flags, "target_lang", None) or "tgt",
        "data": str(path.parent),
        "left_pad_source": True,
        "left_pad_target": False,
        "encoder_attention": attention,
        "decoder_embed_dim": flags.hidden_size,
        "decoder_input_dim": flags.hidden_size,
        "decoder_output_dim": flags.hidden_size,
        "encoder_learned_pos": flags.positions == "learned",
        "decoder_learned_pos": flags.positions == "learned",
        "no_token_positional_embeddings": flags.positions == "none",
        "no_scale_embedding": not flags.scale_embedding,
        "share_all_embeddings": flags.share_embeddings == "all",
        "share_decoder_input_output_embed": flags.share_embeddings != "none",
        "max_source_positions": flags.max_position_embeddings,
        f"{attention}_preset": flags.preset,
        **{flag: getattr(flags, field) for flag, field in names.FIELDS.items()},
    }
    if wrapped:
        args |= {f"{attention}_{name}": value for name, value in flags.switches.items()}
    if attention == "biblosa":  # 0 would have fairseq derive another number from its data
        for layer in model.encoder.layers:
            args["biblosa_block_length"] = layer.self_attn.block_length
    task_state = {
        vocabulary.FINGERPRINTS: dict.fromkeys(
            ("source", "target"), vocabulary.fingerprint(entries)
        )
    }
    dictionary = "".join(f"{entry} 1\n" for entry in entries[len(SPECIAL) :]).encode("utf-8")
    beside = {f"dict.{args[side]}.txt": dictionary for side in ("source_lang", "target_lang")}
    cleaning = {"lowercase": '"Lowercase"' in tokenizer.backend_tokenizer.to_str()}
    beside[SUMMARY] = json.dumps({"options": {"cleaning": cleaning}}).encode()
    if (folder / "spm.model").is_file():
        beside["spm.model"] = (folder / "spm.model").read_bytes()
    for name, content in beside.items():
        if Path(name).name != name:
            raise UserError(
                f"{folder / CONFIG}: the language {name[5:-4]!r} is not allowed; it must be a word"
            )
        old = path.parent / name
        if old.exists() and old.read_bytes() != content:
            raise UserError(f"{old} belongs to another model; name a checkpoint in another folder")
    for name, content in beside.items():
        with writing(path.parent / name) as file:
            file.write(content)
    saved.write(checkpoint(names.fairseqs_of(model.state_dict(), wrapped), args, task_state), path)


def _is_plain(config: Any) -> bool:
    """Whether a multi-head encoder is fairseq's own, without a switch."""
    own = config.attention_config
    return bool(own == type(own).make(attention_dropout=config.attention_dropout))


def set_search(settings: Any, search: Search) -> None:
    """Write a search into a model's ``generation_config``."""
    settings._from_model_config = False  # else transformers forgets the last two
    settings.num_beams = search.beam
    if search.beam > 1:  # of one, transformers refuses to save them
        settings.length_penalty = search.lenpen
        settings.early_stopping = True  # fairseq ends a sentence with its first `beam` hypotheses
    settings.max_len_a, settings.max_len_b = search.max_len_a, search.max_len_b


def _languages(state: dict[str, Any], path: Path) -> tuple[str, str]:
    task = checkpoints.task_flags(state)
    source, target = task.get("source_lang"), task.get("target_lang")
    if not (source and target):
        raise UserError(f"{path} does not say its languages: it is not one of translation")
    return str(source), str(target)
