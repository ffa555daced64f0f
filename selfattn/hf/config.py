"""The configuration of all models for transformers."""

from dataclasses import fields
from typing import Any

from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

from ..config import CONFIGS, AttentionConfig
from ..errors import UserError, check_boolean, check_choice, check_integer, check_rate, meant
from ..models.pool import POOLS

POSITIONS = ("sinusoidal", "learned", "none")
SHARED = ("all", "output", "none")
LEAST = {
    **dict.fromkeys(("vocab_size", "hidden_size", "num_attention_heads", "intermediate_size"), 1),
    **dict.fromkeys(("max_position_embeddings", "decoder_attention_heads", "decoder_ffn_dim"), 1),
    **dict.fromkeys(("num_hidden_layers", "decoder_layers"), 0),
}
SWITCHED = ("norm_first", "embedding_norm", "scale_embedding", "tie_word_embeddings")
# What torch and other models call our arguments.
SYNONYMS = {
    **dict.fromkeys(("d_model", "embed_dim", "n_embd"), "hidden_size"),
    **dict.fromkeys(("n_positions", "max_seq_length"), "max_position_embeddings"),
    **{"activation_function": "hidden_act", "num_decoder_layers": "decoder_layers"},
    **dict.fromkeys(("num_layers", "n_layers", "n_layer", "encoder_layers"), "num_hidden_layers"),
    **dict.fromkeys(("nhead", "num_heads", "n_heads", "n_head"), "num_attention_heads"),
    "encoder_attention_heads": "num_attention_heads",
    **dict.fromkeys(("dim_feedforward", "ffn_dim", "d_ff", "n_inner"), "intermediate_size"),
    "encoder_ffn_dim": "intermediate_size",
    **dict.fromkeys(("hidden_dropout_prob", "resid_pdrop", "dropout_rate"), "dropout"),
    **dict.fromkeys(("attention_probs_dropout_prob", "attn_pdrop"), "attention_dropout"),
}
# What an argument of from_pretrained that changes something sets aside: what a folder stores of
# another attention or preset, and of two settings that say one thing the one that is not given.
_SET_ASIDE = {
    "attention": ("preset", "switches"),
    "preset": ("switches",),
    "share_embeddings": ("tie_word_embeddings",),
    "tie_word_embeddings": ("share_embeddings",),
}
# Near to our names, but right where they are.
_OF_TOKENIZERS = {"bos_token_id", "cls_token_id", "mask_token_id", "sep_token_id", "unk_token_id"}


class SelfattnConfig(PreTrainedConfig):  # type: ignore[misc]
    """Sizes, attention and vocabulary of a model; ``config.json`` holds all of it.

    The attention's switches are stored completely, so that another default of a later version
    changes no saved model.

    Args:
        vocab_size: tokens.
        attention: a name in ``selfattn.layers.ATTENTIONS``.
        preset: a published form of the attention.
        switches: of the attention, what differs from the preset.
        hidden_size: width of the encoder, and of the decoder if there is one.
        num_hidden_layers: encoder layers.
        num_attention_heads: heads of an encoder layer.
        intermediate_size: width of an encoder layer's feed-forward network.
        hidden_act: its activation, a name that transformers knows.
        dropout: on embeddings and on what each sublayer adds.
        attention_dropout: on the attention weights of encoder and decoder.
        activation_dropout: after the feed-forward network's activation.
        norm_first: layer norm before each sublayer, and once at the end, instead of after each.
        embedding_norm: layer norm on the embeddings.
        scale_embedding: multiply embeddings of tokens by the square root of their width.
        positions: what is added to them: ``sinusoidal``, ``learned`` or ``none``.
        max_position_embeddings: longest sequence, in tokens, of ``learned`` positions; whatever
            they are, ``generate()`` writes none that is longer.
        first_position: number of a sequence's first position; the one after ``pad_token_id`` by
            default, as in fairseq. It is stored, so that a later ``pad_token_id`` moves nothing.
        pool: of sequence classification: ``source2token``, ``max`` or ``mean``.
        decoder_layers: decoder layers; as in the encoder by default, as are the next three.
        decoder_attention_heads: heads of a decoder layer.
        decoder_ffn_dim: width of its feed-forward network.
        decoder_norm_first: order of its layer norms.
        share_embeddings: which matrices are one: ``all`` of source, target and output, target and
            ``output``, or ``none``.
        pad_token_id: padding. With None only masks say what it is; translation needs a number.
        bos_token_id: beginning of a sentence, unused by translation.
        eos_token_id: end of a sentence.
        decoder_start_token_id: what the decoder starts with.
        tie_word_embeddings: follows from ``share_embeddings``, which is ``none`` for False.

    Raises:
        UserError: if a name, a switch or a value is unknown, or a number out of range.

    Example:
        >>> config = SelfattnConfig(vocab_size=100, attention="mtsa", switches={"window": 3})
        >>> config.attention_config.window
        3
    """

    model_type = "selfattn"
    keys_to_ignore_at_inference = ["cache", "past_key_values"]  # Trainer adds a list to it

    vocab_size: int = 4000
    attention: str = "mtsa"
    preset: str | None = None
    switches: dict[str, Any] | None = None
    hidden_size: int = 256
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    intermediate_size: int = 1024
    hidden_act: str = "relu"
    dropout: float = 0.1
    attention_dropout: float = 0.0
    activation_dropout: float = 0.0
    norm_first: bool = True
    embedding_norm: bool = False
    scale_embedding: bool = True
    positions: str = "sinusoidal"
    max_position_embeddings: int = 1024
    first_position: int = None  # type: ignore[assignment]
    pool: str = "source2token"
    decoder_layers: int = None  # type: ignore[assignment]
    decoder_attention_heads: int = None  # type: ignore[assignment]
    decoder_ffn_dim: int = None  # type: ignore[assignment]
    decoder_norm_first: bool = None  # type: ignore[assignment]
    share_embeddings: str = "all"
    pad_token_id: int | None = 1
    bos_token_id: int | None = 0
    eos_token_id: int | None = 2
    decoder_start_token_id: int | None = 2
    tie_word_embeddings: bool = True

    def __post_init__(self, **others: Any) -> None:
        _refuse_misspelt(others, [f.name for f in fields(type(self))])
        choices = {
            "positions": POSITIONS,
            "share_embeddings": SHARED,
            "hidden_act": ACT2FN,
            "pool": POOLS,
        }
        for name, allowed in choices.items():
            check_choice(name, getattr(self, name), allowed)
        for name, default in (
            ("decoder_layers", self.num_hidden_layers),
            ("decoder_attention_heads", self.num_attention_heads),
            ("decoder_ffn_dim", self.intermediate_size),
            ("decoder_norm_first", self.norm_first),
        ):
            if getattr(self, name) is None:
                setattr(self, name, default)
        for name in (*SWITCHED, "decoder_norm_first"):
            check_boolean(name, getattr(self, name))
        if not self.tie_word_embeddings:
            self.share_embeddings = "none"
        self.tie_word_embeddings = self.share_embeddings != "none"
        for name, least in LEAST.items():
            setattr(self, name, check_integer(name, getattr(self, name), least))
        if self.pad_token_id is not None:
            self.pad_token_id = check_integer(
                "pad_token_id", self.pad_token_id, 0, self.vocab_size - 1
            )
        first = (self.pad_token_id or 0) + 1 if self.first_position is None else self.first_position
        self.first_position = check_integer("first_position", first, 0)
        for name in ("dropout", "activation_dropout"):
            setattr(self, name, check_rate(name, getattr(self, name)))
        found = self.attention_config
        self.switches = {name: getattr(found, name) for name in found.switch_names()}
        self.attention_dropout = self.switches.pop("attention_dropout")
        super().__post_init__(**others)

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """See ``PreTrainedConfig``; what is given here is checked as for a new configuration.

        Switches change those of the folder; another attention or preset brings its own.

        Args:
            config_dict: what a folder holds.
            **kwargs: changes of it, and what models and transformers read.

        Raises:
            UserError: as for a new configuration.
        """
        known = {f.name for f in fields(cls)}
        own = known - {f.name for f in fields(PreTrainedConfig)}
        # transformers sets what it is given after all checks, and drops what it does not know.
        given = {name: kwargs.pop(name) for name in own & kwargs.keys()}
        others = {n: v for n, v in kwargs.items() if not (n in config_dict or hasattr(cls, n))}
        _refuse_misspelt(others, sorted(known))
        kept = dict(config_dict)
        for name in given.keys() & _SET_ASIDE.keys():
            if given[name] != config_dict.get(name, getattr(cls, name)):
                for other in _SET_ASIDE[name]:
                    kept.pop(other, None)
        if isinstance(given.get("switches"), dict):
            given["switches"] = {**(kept.get("switches") or {}), **given["switches"]}
        return super().from_dict({**kept, **given}, **kwargs)

    @property
    def attention_config(self) -> AttentionConfig:
        """The attention's own configuration, validated."""
        check_choice("attention", self.attention, CONFIGS)
        given = {} if self.switches is None else self.switches
        if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
            raise UserError(
                f"switches {given!r} is not allowed; it must be a dict of names and values, such "
                "as {'window': 3}"
            )
        switches = {"attention_dropout": self.attention_dropout, **given}
        return CONFIGS[self.attention].make(self.preset, **switches)


def _refuse_misspelt(others: dict[str, Any], known: list[str]) -> None:
    """transformers keeps whatever it is given, so that a misspelt argument would do nothing."""
    switches = {name for config in CONFIGS.values() for name in config.switch_names()}
    for name in others:
        if name in switches:
            raise UserError(
                f"{name!r} is a switch of the attention; give switches={{{name!r}: ...}}"
            )
        if name in _OF_TOKENIZERS:
            continue
        if near := SYNONYMS.get(name) or meant(name, [*known, *sorted(switches)]):
            given = f"switches={{{near!r}: ...}}" if near in switches else repr(near)
            raise UserError(f"SelfattnConfig has no argument {name!r}; do you mean {given}?")
