"""Words in context: the last hidden states of a Hugging Face encoder, beside word vectors."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.errors import UserError, needed

from ...words.vocabulary import spread

logger = logging.getLogger(__name__)
# No piece of a word.
NONE = -1


@dataclass(frozen=True)
class FeaturesConfig:
    """Which encoder, and all of it but its weights.

    Args:
        folder: what ``save_pretrained`` wrote, of the encoder and of its tokenizer.
        encoder: its configuration in JSON.
        tokenizer: in JSON.
        width: features of a word.
        longest: pieces of a sentence that the encoder can read, special ones included.
        tuned: it is trained with the tagger, and checkpoints hold its weights; else they name the
            folder.
        checksum: of the weights in the folder.
    """

    folder: str
    encoder: str
    tokenizer: str
    width: int
    longest: int
    tuned: bool
    checksum: int

    @classmethod
    def read(cls, folder: str, *, tuned: bool) -> FeaturesConfig:
        """Describe the encoder in a folder; nothing is downloaded.

        Raises:
            UserError: if transformers is not installed, or there is no encoder with its tokenizer.
        """
        encoder = _read_encoder(folder)
        tokens = _from_folder("AutoTokenizer", folder, add_prefix_space=True)
        if not tokens.is_fast:
            raise UserError(f"--features {folder} holds no fast tokenizer (tokenizer.json)")
        if encoder.config.is_encoder_decoder:
            raise UserError(f"--features {folder} holds a decoder, too; give an encoder alone")
        # RoBERTa counts positions from 2; where the tokenizer names its limit, that is smaller.
        positions = getattr(encoder.config, "max_position_embeddings", None) or 0
        longest = min(tokens.model_max_length, positions - 2 if positions > 2 else 2**31 - 1)
        return cls(
            str(Path(folder).resolve()),
            encoder.config.to_json_string(),
            tokens.backend_tokenizer.to_str(),
            encoder.config.hidden_size,
            longest,
            tuned,
            _checksum(encoder),
        )

    def near(self, place: Path) -> FeaturesConfig:
        """The same, but where a frozen encoder's folder is gone, one of its name in ``place``."""
        moved = place / Path(self.folder).name
        is_gone = not self.tuned and not Path(self.folder).is_dir()
        return replace(self, folder=str(moved)) if is_gone and moved.is_dir() else self


# The numbers of a sentence's pieces, and the place of each word's first piece among them.
Pieces = tuple[Sequence[int], Sequence[int]]


class Features(nn.Module):
    """The encoder's last hidden state at each word's first piece, as BERT has it for names.

    A frozen encoder never drops anything out, and is no part of the module's weights. Sentences
    that are longer than the encoder's positions are cut: the words beyond have features of 0, as
    has a word of which the tokenizer leaves nothing.

    Args:
        config: which encoder; a frozen one is read from its folder, a tuned one starts with random
            weights until :meth:`start` or a checkpoint gives others.

    Raises:
        UserError: if transformers is not installed, or a frozen encoder is not in its folder, or no
            longer the same.
    """

    def __init__(self, config: FeaturesConfig) -> None:
        super().__init__()
        self.config = config
        self._warned = False
        self._tokenizer = needed("tokenizers").Tokenizer.from_str(config.tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(config.longest)
        if config.tuned:
            transformers = needed("transformers")
            sizes = transformers.AutoConfig.for_model(**json.loads(config.encoder))
            self.encoder = transformers.AutoModel.from_config(sizes)
            for name, parameter in self.encoder.named_parameters():
                parameter.requires_grad_("pooler" not in name)  # reads no hidden state of a word
        else:
            if not Path(config.folder).is_dir():
                raise UserError(
                    f"the tagger needs the encoder that was in {config.folder} when it was trained;"
                    " put it there, or under the same name beside the checkpoint"
                )
            # Not registered: neither trained nor stored, and always as in evaluation.
            self._frozen = [_read_encoder(config.folder)]
            if _checksum(self._frozen[0]) != config.checksum:
                raise UserError(
                    f"the encoder in {config.folder} is not the one that the tagger was trained "
                    "with (--features); put that one there"
                )
        self._padding = json.loads(config.encoder).get("pad_token_id") or 0

    def kept_parameters(self) -> list[nn.Parameter]:
        """All: a tagger's initialiser does not touch them."""
        return list(self.parameters())

    def start(self) -> None:
        """Give a tuned encoder the weights in its folder."""
        if self.config.tuned:
            self.encoder.load_state_dict(_read_encoder(self.config.folder).state_dict())

    def pieces(self, words: Sequence[str]) -> Pieces:
        """Split the words of a sentence; a word without a piece has the place ``NONE``."""
        found = self._tokenizer.encode(list(words), is_pretokenized=True)
        if found.overflowing and not self._warned:
            self._warned = True
            logger.warning(
                "a sentence of %d words has more pieces than the %d that the encoder in %s can "
                "read: the words beyond them have features of 0; others are not reported",
                len(words), self.config.longest, self.config.folder,
            )  # fmt: skip
        places = {word: place for place, word in reversed([*enumerate(found.word_ids)])}
        return found.ids, [places.get(word, NONE) for word in range(len(words))]

    def forward(self, pieces: Tensor, firsts: Tensor) -> Tensor:
        """Features of words; a sentence that several rows have is read once.

        Args:
            pieces: ``(B, S)``, ``NONE`` at padding.
            firsts: ``(B, T)``, the place of each word's first piece; ``NONE`` where there is none.

        Returns:
            ``(B, T, width)``.
        """
        pieces, rows = pieces.unique(dim=0, return_inverse=True)
        known = pieces != NONE
        encoder = self.encoder if self.config.tuned else self._frozen[0].to(pieces.device)
        with torch.set_grad_enabled(self.config.tuned and torch.is_grad_enabled()):
            hidden: Tensor = encoder(
                input_ids=pieces.masked_fill(~known, self._padding), attention_mask=known.long()
            ).last_hidden_state
        at = firsts.clamp_min(0)[..., None].expand(-1, -1, hidden.shape[-1])
        return hidden[rows].gather(1, at).masked_fill((firsts == NONE)[..., None], 0.0)


def piece_input(pieces: Sequence[Pieces]) -> dict[str, Tensor]:
    """The arguments of :meth:`Features.forward` for the ``pieces`` of a batch."""
    numbers, firsts = zip(*pieces, strict=True)
    return {
        "pieces": torch.tensor(spread(numbers, NONE)),
        "firsts": torch.tensor(spread(firsts, NONE)),
    }


def _read_encoder(folder: str) -> Any:
    encoder, found = _from_folder(
        "AutoModel", folder, dtype=torch.float32, output_loading_info=True
    )
    for name in sorted(found["missing_keys"]):  # transformers draws them at random
        if "pooler" not in name:
            raise UserError(f"--features {folder} lacks weights of its encoder, such as {name}")
        nn.init.zeros_(encoder.get_parameter(name))  # not used, but in the checksum
    return encoder.eval().requires_grad_(False)


def _from_folder(kind: str, folder: str, **options: Any) -> Any:
    if not Path(folder).is_dir():
        raise UserError(f"--features {folder} is not a folder; give one of `save_pretrained`")
    transformers = needed("transformers")
    try:
        return getattr(transformers, kind).from_pretrained(folder, local_files_only=True, **options)
    except Exception as error:  # each file format raises errors of its own
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(
            f"--features {folder} holds no encoder with a tokenizer: {reason}"
        ) from None


def _checksum(encoder: Any) -> int:
    """CRC-32 of all weights."""
    found = 0
    for tensor in encoder.state_dict().values():
        found = zlib.crc32(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data, found)
    return found
