"""Which networks a checkpoint becomes, and what a program must know to feed them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from selfattn import __version__
from selfattn.errors import UserError, needed
from selfattn.layers import BiBloSA
from selfattn.layers.base import split_heads

from .. import checkpoints
from ..files import write_json, writing
from ..model_folder import WEIGHTS
from ..sentences.model import predictor as sentences
from ..sentences.model.state import KEY as SENTENCES
from ..sentences.record import LOWEST, Kind
from ..srl.tagger import predictor as tagging
from ..srl.tagger.state import KEY as TAGGING
from ..words.vocabulary import PADDING, UNKNOWN, Vocabulary
from . import FACTS, graphs
from .graphs import Network

_WORDS, _PLACE = ("batch", "length"), ("batch",)
# Sizes of examples: all different, none 0 or 1; a length has so many blocks.
_BATCH, _BLOCKS, _SENTENCES = 3, 9, 4


@dataclass(frozen=True)
class Exported:
    """The networks of a model, and what ``export.json`` says beside their inputs.

    Args:
        networks: each becomes a file.
        facts: plain values.
        tokenizer: of Hugging Face's tokenizers, if texts need one.
    """

    networks: Sequence[Network]
    facts: dict[str, Any]
    tokenizer: Any = None


def export(
    path: Path, folder: Path, form: str, data: str | None = None, int8: bool = False
) -> Exported:
    """Write a checkpoint's networks, and ``export.json`` beside them.

    Args:
        path: a checkpoint of translation, of a tagger or of sentences.
        folder: what to write.
        form: ``"onnx"`` or ``"torch"``.
        data: folder of a translation model's dictionaries; default: see ``parts.find_data``.
        int8: quantise; see ``graphs.content``.

    Raises:
        UserError: if the checkpoint cannot be read, or the model cannot be exported.
    """
    if form == "onnx":
        for package in ("onnx", "onnxscript", *(["onnxruntime"] if int8 else [])):
            needed(package, "selfattn[onnx]")
    found = read(path, data)
    ending = graphs.ENDINGS[form]
    contents = {n.name + ending: graphs.content(n, form, int8) for n in found.networks}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        with writing(folder / name) as file:
            file.write(content)
    if found.tokenizer is not None:
        found.tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    files = {n.name + ending: n.describe() for n in found.networks}
    head = {"selfattn": __version__, "int8": int8, "files": files}
    write_json(folder / FACTS, head | found.facts)
    return found


def read(path: Path, data: str | None = None) -> Exported:
    """The networks of a checkpoint; see ``export``.

    Raises:
        UserError: as there.
    """
    kinds: dict[str, Callable[[Path], Exported]] = {TAGGING: _tagger, SENTENCES: _sentences}
    return checkpoints.by_task(path, kinds, lambda p: _translation(p, data))(path)


class TaggerGraph(nn.Module):
    """Words and the place of a predicate to log-probabilities of labels."""

    def __init__(self, tagger: nn.Module) -> None:
        super().__init__()
        self.tagger = tagger

    def forward(
        self,
        words: Tensor,
        predicate: Tensor,
        spellings: Tensor | None = None,
        places: Tensor | None = None,
    ) -> Tensor:
        """``(B, T)``, ``(B,)``; for characters ``(U, W)``, ``(B, T)`` -> ``(B, T, labels)``."""
        position = torch.arange(words.shape[1], device=words.device)
        inputs = {"words": words, "indicator": (position == predicate[:, None]).long()}
        if spellings is not None and places is not None:
            inputs |= {"spellings": spellings, "places": places}
        scores = self.tagger(**inputs, padding_mask=words == PADDING)
        return torch.log_softmax(scores, -1)


class SentencesGraph(nn.Module):
    """Words of sentences to log-probabilities of classes, of whole scores, or of candidates."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, words: Tensor, missing: Tensor | None = None) -> Tensor:
        """``(B, S, T)`` and, for candidates, bool ``(B, S)`` -> ``(B, classes)``."""
        if missing is None:
            return torch.log_softmax(self.model(words), -1)
        # As SentenceModel.forward, with the question as a hidden candidate: torch.cond takes no
        # length such as S - 1.
        question = self.model.encode(words[:, :1], self.model.question)[:, 0]
        gaps = torch.cat([torch.ones_like(missing[:, :1]), missing[:, 1:]], 1)
        scores = self.model.head(question, self.model.encode(words), gaps)[:, 1:]
        return torch.log_softmax(scores, -1)


class EncoderGraph(nn.Module):
    """A source to its encoding, and the decoder's keys and values of it."""

    def __init__(self, model: Any, lacking: range) -> None:
        from ..hf.pieces import SPECIAL

        super().__init__()
        self.encoder, self.decoder = model.encoder, model.decoder
        self.size, self.lacking = model.config.vocab_size, lacking
        self.unknown = SPECIAL.index("<unk>")

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """``(B, S)`` -> ``(B, S, C)``, ``(L, 2, B, H, S, D)``."""
        # tokenizer.json gives pieces that the dictionary lacks numbers behind it, for which a
        # model that was resized has rows.
        unknown = source >= self.size
        if self.lacking.start < min(self.size, self.lacking.stop):
            unknown |= (source >= self.lacking.start) & (source < self.lacking.stop)
        source = source.masked_fill(unknown, self.unknown)
        encoded = self.encoder(source).last_hidden_state
        memory = []
        for attention in (layer.encoder_attn for layer in self.decoder.layers):
            both = (attention.k_proj(encoded), attention.v_proj(encoded))
            memory.append(torch.stack([split_heads(t, attention.heads) for t in both]))
        return encoded, torch.stack(memory)


class StepGraph(nn.Module):
    """One step of the decoder, with its state as an input and an output."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.decoder, self.head = model.decoder, model.lm_head
        self.padding = model.config.pad_token_id

    def forward(
        self, source: Tensor, memory: Tensor, token: Tensor, past: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The next token's log-probabilities.

        Args:
            source: ``(B, S)``, of which only padding counts.
            memory: the encoder's, ``(L, 2, B, H, S, D)``.
            token: the last one ``(B, 1)``, at first the end of sentence.
            past: ``(L, 2, B, H, T, D)`` of the T tokens before it.

        Returns:
            ``(B, V)``, and the past of the next step ``(L, 2, B, H, T + 1, D)``.
        """
        cache = _Cache(past, memory)
        length_alone = memory[0, 0, :, 0]  # (B, S, D): keys and values are made already
        x = self.decoder(token, length_alone, source == self.padding, cache)
        return torch.log_softmax(self.head(x[:, 0]), -1), torch.stack(cache.present)


class _Cache:
    """What ``Decoder`` asks of transformers' cache, on tensors of all layers."""

    is_compileable = False

    def __init__(self, past: Tensor, memory: Tensor) -> None:
        self.past, self.present = past, list[Tensor]()
        self.layers = [SimpleNamespace(keys=layer[0], values=layer[1]) for layer in memory]
        self.is_updated = dict.fromkeys(range(len(self.layers)), True)
        self.self_attention_cache = self.cross_attention_cache = self

    def get_seq_length(self) -> int:
        """Tokens of the past."""
        return self.past.shape[4]

    def update(self, keys: Tensor, values: Tensor, index: int) -> tuple[Tensor, Tensor]:
        """A layer's keys and values of the past and of this token."""
        self.present.append(torch.cat([self.past[index], torch.stack([keys, values])], 3))
        return self.present[-1][0], self.present[-1][1]


def _tagger(path: Path) -> Exported:
    loaded = tagging.Predictor.load(path)
    tagger, vocabulary = (loaded.finders or loaded.members)[0]
    if tagger.config.features is not None:
        raise UserError(
            f"{path} reads --features, a Hugging Face encoder, and cannot be exported: how "
            "many sentences that encoder reads depends on the words"
        )
    block = block_of(tagger)
    words = torch.full((_BATCH, _BLOCKS * block), UNKNOWN)
    inputs = {"words": words, "predicate": torch.arange(_BATCH)}
    axes: dict[str, Sequence[str | int]] = {"words": _WORDS, "predicate": _PLACE}
    if tagger.config.characters:
        inputs |= {"spellings": torch.full((5, 7), UNKNOWN), "places": torch.zeros_like(words)}
        axes |= {"spellings": ("different", "characters"), "places": _WORDS}
    axes["log_probs"] = (*_WORDS, len(vocabulary.labels))
    facts = {"kind": "tagger", "needs_viterbi": loaded.needs_viterbi, **_facts(vocabulary)}
    return Exported([Network("tagger", TaggerGraph(tagger), inputs, axes, block)], facts)


def _sentences(path: Path) -> Exported:
    model, state = sentences.Predictor.load(path).members[0]
    shape: int | str = {"single": 1, "pair": 2}.get(state.kind.shape, "sentences")
    size = shape if isinstance(shape, int) else _SENTENCES
    block = block_of(model.encoder)
    if size == _SENTENCES and block > 1:
        raise UserError(
            f"{path} looks at candidates in blocks (Bi-BloSA) and cannot be exported: how many "
            "blocks there are depends on their number"
        )
    inputs = {"words": torch.full((_BATCH, size, _BLOCKS * block), UNKNOWN)}
    axes: dict[str, Sequence[str | int]] = {"words": ("batch", shape, "length")}
    if size == _SENTENCES:
        inputs["missing"] = torch.zeros(_BATCH, size, dtype=torch.bool)
        axes["missing"] = ("batch", shape)
    assert state.config is not None
    axes["log_probs"] = ("batch", state.config.classes if size < _SENTENCES else "candidates")
    facts = {
        "kind": f"sentences: {state.kind}",
        "tokens": dict(state.meta["tokens"]),
        "lowest_score": LOWEST if state.kind is Kind.RELATEDNESS else None,
        **_facts(state.vocabulary),
    }
    return Exported([Network("sentences", SentencesGraph(model), inputs, axes, block)], facts)


def _translation(path: Path, data: str | None) -> Exported:
    from ..hf import translation

    if path.name == WEIGHTS:
        model, tokenizer = translation.read_folder(path.parent)
    else:
        model, tokenizer, _ = translation.read_model(path, data)
    config = model.config
    facts = {
        "kind": "translation",
        "padding": config.pad_token_id,
        "start": config.decoder_start_token_id,
        "end": config.eos_token_id,
        "longest": config.max_position_embeddings,
    }
    pieces = tokenizer.vocab_size
    lacking = range(pieces if tokenizer.known is None else tokenizer.known, pieces)
    return Exported(translation_networks(model.float(), lacking), facts, tokenizer)


def translation_networks(model: Any, lacking: range = range(0)) -> list[Network]:
    """Encoder and decoder of a ``SelfattnForConditionalGeneration``.

    Args:
        model: it.
        lacking: numbers of the tokenizer's pieces that its dictionary lacks.
    """
    config = model.config
    size, heads = config.hidden_size, config.decoder_attention_heads
    ahead: tuple[str | int, ...] = (config.decoder_layers, 2, "batch", heads)
    block = block_of(model.encoder)
    source = torch.full((_BATCH, _BLOCKS * block), 4)
    shape = (config.decoder_layers, 2, _BATCH, heads, source.shape[1], size // heads)
    given = {
        "source": source,
        "memory": torch.zeros(shape),
        "token": source[:, :1],
        "past": torch.zeros(*shape[:4], 5, shape[5]),
    }
    read: dict[str, Sequence[str | int]] = {"source": _WORDS}
    memory = (*ahead, "length", shape[5])
    encoder = {**read, "encoded": (*_WORDS, size), "memory": memory}
    step = {
        **read,
        "memory": memory,
        "token": ("batch", 1),
        "past": (*ahead, "past", shape[5]),
        "log_probs": ("batch", config.vocab_size),
        "present": (*ahead, "past + 1", shape[5]),
    }
    return [
        Network("encoder", EncoderGraph(model, lacking), {"source": source}, encoder, block),
        Network("step", StepGraph(model), given, step, block),
    ]


def block_of(module: nn.Module) -> int:
    """Of how many tokens a length must be a multiple: the blocks of Bi-BloSA."""
    return max([m.block_length for m in module.modules() if isinstance(m, BiBloSA)], default=1)


def _facts(vocabulary: Vocabulary) -> dict[str, Any]:
    """Words with their rows, such that the rule is: as it stands, else in lower case."""
    known = (*vocabulary.words, *vocabulary.frozen)
    facts = {
        "padding": PADDING,
        "unknown": UNKNOWN,
        "labels": vocabulary.labels,
        "words": dict(zip(known, vocabulary.encode(known), strict=True)),
    }
    return facts | ({"alphabet": vocabulary.alphabet} if vocabulary.alphabet else {})
