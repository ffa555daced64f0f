"""The encoder with a decoder: translation."""

import copy
import math
from collections.abc import Mapping
from contextvars import ContextVar
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, GenerationMixin
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput
from transformers.utils import can_return_tuple

from ..errors import UserError, check_integer
from ..masks import padding_from_attention_mask
from .base import SelfattnPreTrainedModel, padding_of, token_loss
from .cache import CACHE, BeamCache
from .config import SelfattnConfig
from .decoder import Decoder
from .encoder import SelfattnModel
from .limits import Limits

# The cache of the beam search that this thread is in.
_SEARCH: ContextVar[BeamCache | None] = ContextVar("search", default=None)


class SelfattnForConditionalGeneration(SelfattnPreTrainedModel, GenerationMixin):  # type: ignore[misc]
    """The Transformer of the translation experiments: any encoder attention, fairseq's decoder.

    Args:
        config: sizes and switches.

    Raises:
        UserError: if it lacks the token of padding, of the end or of the decoder's start.
    """

    def __init__(self, config: SelfattnConfig) -> None:
        for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
            given = getattr(config, name)
            many = name == "eos_token_id" and isinstance(given, list) and given
            for token in given if many else [given]:
                check_integer(name, token, 0, config.vocab_size - 1)
        if config.tie_word_embeddings != (config.share_embeddings != "none"):
            raise UserError(
                f"share_embeddings {config.share_embeddings!r} and tie_word_embeddings "
                f"{config.tie_word_embeddings} contradict each other; change both"
            )
        config = copy.deepcopy(config)  # the caller may make an encoder of it, too
        config.is_encoder_decoder = True
        super().__init__(config)
        self.encoder = SelfattnModel(config)
        self.decoder = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        nn.init.normal_(self.lm_head.weight, std=config.hidden_size**-0.5)
        source, target = (f"{side}.embeddings.tokens.weight" for side in ("encoder", "decoder"))
        self._tied_weights_keys = {"lm_head.weight": target}
        if config.share_embeddings == "all":
            self._tied_weights_keys = {"lm_head.weight": source, target: source}
        self.post_init()

    def _resize_token_embeddings(self, *args: Any) -> nn.Module:
        """transformers' hook; the decoder has the same tokens."""
        old = self.decoder.embeddings.tokens
        new = self._get_resized_embeddings(old, *args)
        self.decoder.embeddings.tokens = new.requires_grad_(old.weight.requires_grad)
        source: nn.Module = super()._resize_token_embeddings(*args)
        return source

    @can_return_tuple  # type: ignore[untyped-decorator]
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: BaseModelOutput | tuple[Tensor, ...] | None = None,
        past_key_values: EncoderDecoderCache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        decoder_attention_mask: Tensor | None = None,
        cache: EncoderDecoderCache | None = None,
        **others: Any,
    ) -> Seq2SeqLMOutput:
        """Logits of the next tokens.

        Args:
            input_ids: source ``(B, S)``.
            attention_mask: of the source, see ``SelfattnModel.forward``.
            decoder_input_ids: target ``(B, T)`` after the cache, padding on the right; by default
                the labels, moved by one.
            encoder_outputs: of an earlier call, instead of ``input_ids``.
            past_key_values: ``cache``, as transformers called it before 5.24.
            labels: target ``(B, T)``, -100 where none is asked for.
            use_cache: return a cache for the next call.
            decoder_attention_mask: of the target; only says where its padding is.
            cache: of an earlier call.
            **others: see ``SelfattnModel.forward``.

        Returns:
            ``logits`` ``(B, T, vocab_size)`` and, with labels, the mean cross-entropy in nats;
            hidden states of both sides if they are asked for.

        Raises:
            UserError: if there is no target, its padding is not on the right, attention weights
                are asked for, or the cache is of another kind.
        """
        self.refuse(others)
        asked = others.get("output_hidden_states")
        asked = self.config.output_hidden_states if asked is None else asked
        mask = None if torch.compiler.is_compiling() else decoder_attention_mask
        if mask is not None and mask.dim() != 4:  # of pairs, as generate() makes it with a cache
            hidden = padding_from_attention_mask(mask, "decoder_attention_mask")
            if (hidden[:, :-1] > hidden[:, 1:]).any():
                raise UserError(
                    "decoder_attention_mask hides a token before another one; the decoder takes "
                    "padding on the right alone"
                )
        if encoder_outputs is None:
            encoder_outputs = self.encoder(input_ids, attention_mask, return_dict=True, **others)
        source = encoder_outputs[0]
        if decoder_input_ids is None:
            if labels is None:
                raise UserError("give labels or decoder_input_ids, or call generate()")
            decoder_input_ids = self.prepare_decoder_input_ids_from_labels(labels)
        cache = past_key_values if cache is None else cache
        if cache is not None and not isinstance(cache, EncoderDecoderCache):
            raise UserError(
                f"{CACHE} is a {type(cache).__name__}; it must be an EncoderDecoderCache, as an "
                "earlier call returns it"
            )
        if use_cache and cache is None:
            cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        padding = padding_of(input_ids, attention_mask, self.config.pad_token_id, source)
        states: list[Tensor] | None = [] if asked else None
        rest = decoder_input_ids, source, padding
        if isinstance(cache, BeamCache):
            logits = self._next(*rest, cache, states)
        else:
            logits = self.lm_head(self.decoder(*rest, cache, states))
        loss = token_loss(logits, labels)
        return Seq2SeqLMOutput(
            loss=loss,
            logits=logits,
            **{CACHE: cache},
            decoder_hidden_states=None if states is None else tuple(states),
            encoder_last_hidden_state=source,
            encoder_hidden_states=getattr(encoder_outputs, "hidden_states", None),
        )

    def prepare_decoder_input_ids_from_labels(self, labels: Tensor) -> Tensor:
        """What the decoder reads to predict ``labels`` ``(B, T)``: the same, one token later.

        Raises:
            UserError: if there is none, or one follows -100, which would be read as a token before
                it.
        """
        if labels.dim() != 2 or not labels.shape[1]:
            raise UserError(
                f"labels have shape {tuple(labels.shape)}; they must be (B, T), T at least 1"
            )
        asked = labels != -100
        if not torch.compiler.is_compiling() and (asked[:, :-1] < asked[:, 1:]).any():
            raise UserError(
                "labels have -100 before a label; the decoder takes padding on the right alone; "
                "where a beginning is given, give decoder_input_ids, too"
            )
        moved = labels.roll(1, 1)
        moved[:, 0] = self.config.decoder_start_token_id
        return moved.masked_fill(moved == -100, self.config.pad_token_id)

    def generate(
        self,
        inputs: Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        logits_processor: list[Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """``GenerationMixin.generate`` with fairseq's limits.

        Where the generation configuration has ``max_len_a`` and ``max_len_b``, a source of n tokens
        (with its end) gets at most ``max_len_a * n + max_len_b`` tokens and an end, unless
        ``max_length`` or ``max_new_tokens`` is given, too, or nearer: here, in the caller's
        configuration, or in the model's. Never padding, and at least one token. ``min_length`` and
        ``min_new_tokens`` come first.

        Args:
            inputs: source ``(B, S)``, as ``input_ids``.
            generation_config: what it leaves open is the model's.
            logits_processor: of the caller, applied first.
            **kwargs: whatever transformers takes.

        Raises:
            UserError: if there is no source, or ``max_len_a`` or ``max_len_b`` is no number, or the
                first is given alone.

        Note:
            fairseq-generate takes n from the longest sentence of a batch; here no translation
            depends on its batch.
        """
        config = copy.deepcopy(generation_config or GenerationConfig())
        is_cut = _is_cut(kwargs, vars(config), vars(self.generation_config))
        # As transformers has it, what the caller leaves open is the model's.
        stored = self.generation_config.to_dict()
        config.update(**stored, defaults_only=True, allow_custom_entries=True)
        alone = kwargs.get("max_len_a") is not None
        a, b = (kwargs.pop(x, getattr(config, x, None)) for x in ("max_len_a", "max_len_b"))
        for name, value in (("max_len_a", a), ("max_len_b", b)):
            if value is not None and not (isinstance(value, Real) and math.isfinite(value)):
                raise UserError(f"{name} {value!r} is not allowed; it must be a finite number")
        if alone and b is None:
            raise UserError(f"max_len_a {a!r} has no effect alone; give max_len_b, too")

        def setting(name: str) -> Any:
            places = kwargs.get(name), getattr(config, name), getattr(self.config, name, None)
            return next((value for value in places if value is not None), None)

        sources = (inputs, *map(kwargs.get, ("input_ids", "inputs_embeds", "encoder_outputs")))
        source = next((given for given in sources if given is not None), None)
        if source is None:
            raise UserError("there is no source; give input_ids, inputs_embeds or encoder_outputs")
        x = source if isinstance(source, Tensor) else source[0]
        mask = kwargs.get("attention_mask")
        if mask is None:
            # Tokens, else embeddings or encodings, of which none is padding.
            keep = x != self.config.pad_token_id if x.dim() == 2 else x.new_ones(x.shape[:2])
            mask = keep.long()
        mask = kwargs["attention_mask"] = torch.as_tensor(mask, device=x.device)
        if not len(mask):
            raise UserError("the batch has 0 sources; generate() takes at least 1")
        processors = list(logits_processor or [])
        if b is not None:
            longest = self.config.max_position_embeddings
            least = max(1, setting("min_new_tokens") or 0, (setting("min_length") or 0) - 1)
            found = [int((a or 0.0) * length + b) for length in mask.sum(1).tolist()]
            limits = [min(max(limit, least), longest - 1) for limit in found]
            if is_cut:
                limits = [longest - 1] * len(limits)
            else:
                kwargs["max_new_tokens"] = max(limits) + 1
            ends = torch.tensor(limits, device=mask.device)
            processors.append(Limits(ends, setting("pad_token_id"), setting("eos_token_id")))
        return super().generate(inputs, generation_config, processors, **kwargs)

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """As in transformers, but the ``max_len_a`` of a new model can be read again."""
        self.generation_config._from_model_config = False
        super().save_pretrained(*args, **kwargs)

    def _next(
        self,
        tokens: Tensor,
        source: Tensor,
        padding: Tensor | None,
        cache: BeamCache,
        states: list[Tensor] | None,
    ) -> Tensor:
        """Logits of a beam search's next tokens ``(B, T, vocab_size)``, 0 in finished sentences."""
        padding = None if padding is None else cache.of_rows(padding)[:: cache.beams]
        # Only the first call, in which no sentence is finished, reads the source.
        x = self.decoder(cache.of_rows(tokens), source[:: cache.beams], padding, cache, states)
        if states is not None:
            states[:] = [cache.of_batch(state, len(tokens)) for state in states]
        return cache.of_batch(self.lm_head(x), len(tokens))

    # Where transformers renames the next two, its search is as right as before, and slower.

    def _beam_search(self, input_ids: Tensor, *, generation_config: Any, **kwargs: Any) -> Any:
        """transformers' hook: its search with a cache that knows which sentences are finished."""
        given = getattr(kwargs.get(CACHE), "self_attention_cache", None)
        search = None
        if isinstance(given, DynamicCache) and not (given.offloading or given.get_seq_length()):
            search = kwargs[CACHE] = BeamCache(generation_config.num_beams)
        token = _SEARCH.set(search)
        try:
            return super()._beam_search(input_ids, generation_config=generation_config, **kwargs)
        finally:
            _SEARCH.reset(token)

    def _update_finished_beams(self, *args: Any, **kwargs: Any) -> Any:
        """transformers' hook, which says last which hypotheses of each sentence are complete."""
        found = super()._update_finished_beams(*args, **kwargs)
        cache = _SEARCH.get()
        if cache is not None and kwargs.get("early_stopping") is True:
            cache.finished = found[3].all(1)
        return found


def _is_cut(*places: Mapping[str, Any]) -> bool:
    """Whether transformers' own limits of length count: of these places, the nearest one says."""
    for place in places:
        own = [place.get(name) for name in ("max_length", "max_new_tokens")]
        if any(value is not None for value in (*own, place.get("max_len_b"))):
            return any(value is not None for value in own)
    return False
