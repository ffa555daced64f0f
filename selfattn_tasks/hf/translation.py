"""Translation models: fairseq's checkpoints and Hugging Face folders."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from selfattn.errors import UserError
from selfattn.hf import SelfattnForConditionalGeneration, SelfattnTokenizer

from .. import checkpoints, saved
from ..files import read_object, writing
from ..model_folder import CONFIG, WEIGHTS, checkpoint, translates
from ..translation import vocabulary
from ..translation.parts import find_data
from ..translation.prepare import SUMMARY, lowercased
from . import names
from .pieces import SPECIAL, build_tokenizer, read_dictionary


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
    """Write a checkpoint of fairseq's translation task as a Hugging Face folder.

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
) -> tuple[Any, Any, Path | None]:
    """A checkpoint of fairseq's translation task as a model of this project.

    Args:
        path: the checkpoint.
        data: folder of the dictionaries; default: see ``parts.find_data``.
        state: what the file holds, if it was read.

    Returns:
        the model, its tokenizer, and the file of its SentencePiece model.

    Raises:
        UserError: if the checkpoint is of another kind, or its dictionaries are not found.
    """
    state = state or checkpoints.read(path)
    flags = checkpoints.flags(state)
    place, spm = find_data(path.parent, Path(data) if data else None, lambda: state)
    languages = _languages(state, path)
    entries = read_dictionary(place / f"dict.{languages[0]}.txt")
    if read_dictionary(place / f"dict.{languages[1]}.txt") != entries:
        raise UserError(
            f"the dictionaries of {place} differ, but a Hugging Face tokenizer has one; "
            "prepare the data with one for both languages (--joined-dictionary)"
        )
    stored = (state.get("task_state") or {}).get(vocabulary.FINGERPRINTS, {}).get("source")
    if stored and tuple(stored) != vocabulary.fingerprint(entries):
        raise UserError(
            f"the dictionaries of {place} are not those that {path} was trained with; put those "
            "there"
        )
    config = names.config_of(flags, state["model"], path)
    for name, language in zip(("source_lang", "target_lang"), languages, strict=True):
        setattr(config, name, language)
    if config.vocab_size != len(entries):
        raise UserError(
            f"{path} has {config.vocab_size} tokens, but the dictionary in {place} has "
            f"{len(entries)}: it is another data's"
        )
    model = SelfattnForConditionalGeneration(config)
    weights = names.ours_of(state["model"])
    given, own = ({n: t.shape for n, t in w.items()} for w in (weights, model.state_dict()))
    if wrong := dict(given.items() ^ own.items()):
        raise UserError(
            f"{path} has --arch {flags.get('arch')}, and {min(wrong)} is not as in a Transformer "
            "with its flags; only Transformers of fairseq's translation task are exported"
        )
    model.load_state_dict(weights)
    longest = config.max_position_embeddings
    return model, tokenizer_of(place, entries, spm, longest), spm


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
    return SelfattnTokenizer(
        tokenizer_object=build_tokenizer(entries, spm, bool(lowercased(place))),
        known=len(entries),
        model_max_length=longest,
        **dict(zip(("bos_token", "pad_token", "eos_token", "unk_token"), SPECIAL, strict=True)),
    )


def read_folder(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer of a Hugging Face folder.

    Raises:
        UserError: if it holds no translation model of this project, or is broken.
    """
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
        folder: a Hugging Face folder with a translation model.
        path: the checkpoint to write; it and the dictionaries are all that
            ``fairseq-interactive`` needs.

    Raises:
        UserError: if the folder holds no such model, or one that fairseq's cannot be like, or other
            dictionaries lie there already.
    """
    model, tokenizer = read_folder(folder)
    size, known = model.config.vocab_size, tokenizer.known
    if known is not None and size != known:
        raise UserError(
            f"{folder} has {size} tokens, but its dictionary {known}: its embeddings were resized, "
            "and the others would count as words of the dictionary; export the model as it was"
        )
    args = names.flags_of(model, folder / CONFIG) | {
        "task": "translation",
        "criterion": "cross_entropy",
        "optimizer": "adam",
        "source_lang": getattr(model.config, "source_lang", None) or "src",
        "target_lang": getattr(model.config, "target_lang", None) or "tgt",
        "data": str(path.parent),
        "left_pad_source": True,
        "left_pad_target": False,
    }
    entries = list(tokenizer.convert_ids_to_tokens(list(range(size))))
    if tuple(entries[: len(SPECIAL)]) != SPECIAL or None in entries:
        raise UserError(f"{folder}: a vocabulary of fairseq begins with {', '.join(SPECIAL)}")
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
    saved.write(checkpoint(names.fairseqs_of(model), args, task_state), path)


def set_search(settings: Any, search: Search) -> None:
    """Write a search into a model's ``generation_config``."""
    settings.num_beams = search.beam
    if search.beam > 1:  # of one, transformers refuses to save them
        settings.length_penalty = search.lenpen
        settings.early_stopping = True  # fairseq ends a sentence with its first `beam` hypotheses
    settings.max_len_a, settings.max_len_b = search.max_len_a, search.max_len_b


def _languages(state: dict[str, Any], path: Path) -> tuple[str, str]:
    task = checkpoints.task_flags(state)
    source, target = task.get("source_lang"), task.get("target_lang")
    if not (source and target):
        if task.get("_name") == "translation":
            raise UserError(
                f"{path} does not say its languages: fairseq guessed and did not store them; train "
                "with --source-lang and --target-lang, or with --user-dir"
            )
        raise UserError(f"{path} does not say its languages: it is not one of translation")
    return str(source), str(target)
