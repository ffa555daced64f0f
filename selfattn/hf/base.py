"""What all models for transformers share: how weights are drawn, and the sense of a mask."""

from itertools import chain
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.cache_utils import Cache

from ..errors import UserError
from ..masks import holds, padding_from_attention_mask
from .config import SelfattnConfig

# What a mask is called in torch and in this project's own layers, where True hides a token.
_MASKS = ("padding_mask", "key_padding_mask", "src_key_padding_mask", "attn_mask", "mask")


class SelfattnPreTrainedModel(PreTrainedModel):  # type: ignore[misc]
    """Saving, loading and initialisation.

    A new model keeps what the constructors of its modules draw. ``from_pretrained`` builds a model
    without memory, and gives weights that the folder lacks, such as a new head's, what the
    constructors of a second, new model draw.
    """

    config_class = SelfattnConfig
    base_model_prefix = "encoder"
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # losses are means over a batch: Trainer divides by its batches
    _no_split_modules = ("EncoderLayer", "DecoderLayer")
    # What other models return if they are asked, and where it is.
    _lacks: ClassVar[dict[str, str]] = {
        "output_attentions": "the models return no attention weights; layers[i]"
        ".self_attn.inspect() has those of a layer"
    }

    def __new__(cls, *args: Any, **kwargs: Any) -> "SelfattnPreTrainedModel":
        """A subclass may take more than a configuration, which a second model takes, too."""
        model = super().__new__(cls)
        model.__dict__["_given"] = args, kwargs
        return model

    def __init__(self, config: SelfattnConfig, *args: Any, **kwargs: Any) -> None:
        super().__init__(config, *args, **kwargs)
        self._without_memory = torch.empty(0).is_meta
        self._drawn: list[SelfattnPreTrainedModel] = []  # a list hides it from nn.Module

    def _init_weights(self, module: nn.Module) -> None:
        """transformers' hook for a module, which may lack weights."""
        if module not in self.modules():  # of resize_token_embeddings(..., mean_resizing=False)
            init.normal_(module.weight, std=self.config.hidden_size**-0.5)
            return
        own = chain(module.named_parameters(recurse=False), module.named_buffers(recurse=False))
        missing = [(n, t) for n, t in own if not getattr(t, "_is_hf_initialized", False)]
        if self._without_memory and missing:
            if not self._drawn:
                args, kwargs = self._given
                self._drawn.append(type(self)(*args, **kwargs))
            path = next(name for name, found in self.named_modules() if found is module)
            new = self._drawn[0].get_submodule(path)
            for name, tensor in missing:
                init.copy_(tensor, getattr(new, name))

    def initialize_weights(self) -> None:
        """transformers' hook, which calls the one above for each module."""
        super().initialize_weights()
        for module in self.modules():  # an encoder within has drawn a model of its own
            if isinstance(module, SelfattnPreTrainedModel):
                module._drawn.clear()

    def refuse(self, given: dict[str, Any]) -> None:
        """Say what is not returned, and what a mask is called, if it would be ignored otherwise.

        Args:
            given: arguments of ``forward`` that it does not name.

        Raises:
            UserError: if they hold a mask, positions, embeddings of the target or a cache, or they
                or the configuration ask for what no model has.
        """
        for name, where in self._lacks.items():
            asked = given.get(name)
            if asked or (asked is None and getattr(self.config, name)):
                raise UserError(f"{name}=True: {where}")
        for name in _MASKS:
            if given.get(name) is not None:
                raise UserError(
                    f"{name} is given, but these models read attention_mask alone, 1 for tokens "
                    "to keep and 0 for padding"
                )
        for name in ("position_ids", "decoder_inputs_embeds"):
            if given.get(name) is not None:
                raise UserError(
                    f"{name} is given, but these models count positions and embed "
                    "the target themselves; leave it out"
                )
        for name, value in given.items():
            if isinstance(value, Cache):  # without it, generate() would go on from nothing
                raise UserError(
                    f"{name} is a cache, but this model takes none by that name; "
                    "transformers 5.4 to 5.24 are known to work"
                )


def refuse_types(token_type_ids: Tensor | None) -> None:
    """Refuse a second sentence, which a model would read as a part of the first one.

    Args:
        token_type_ids: None, or of any shape.

    Raises:
        UserError: if they are not all 0.
    """
    if token_type_ids is not None:
        said = "token_type_ids are not all 0, but this model reads one sentence; leave them out"
        if not holds((token_type_ids == 0).all(), said):
            raise UserError(said)


def token_loss(logits: Tensor, labels: Tensor | None) -> Tensor | None:
    """The mean cross-entropy of tokens, in nats and in float32: 16 bits tell no checkpoints apart.

    Args:
        logits: ``(B, T, V)``.
        labels: ``(B, T)``, -100 where none is asked for; None: no loss.
    """
    if labels is None:
        return None
    return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def check_types(token_type_ids: Tensor, input_ids: Tensor) -> None:
    """Refuse what does not tell of each token whether it is of type 0 or 1.

    Raises:
        UserError: if they have another shape than ``input_ids`` or other values.
    """
    said = (
        f"token_type_ids have shape {tuple(token_type_ids.shape)}; they must be 0 or 1, for each "
        f"of input_ids {tuple(input_ids.shape)}"
    )
    same = token_type_ids.shape == input_ids.shape
    if not same or not holds(((token_type_ids == 0) | (token_type_ids == 1)).all(), said):
        raise UserError(said)


def padding_of(
    input_ids: Tensor | None, attention_mask: Tensor | None, pad_token_id: int | None, x: Tensor
) -> Tensor | None:
    """The padding mask, True = padding, of transformers' mask, where 1 means to keep a token.

    Args:
        input_ids: ``(B, T)``; without a mask, its padding tokens are padding.
        attention_mask: ``(B, T)`` of 0 and 1, or None.
        pad_token_id: the padding token.
        x: embeddings ``(B, T, C)``, for the shape.

    Raises:
        UserError: if the mask has another shape or other values.
    """
    if attention_mask is None:
        if input_ids is None or pad_token_id is None:
            return None
        return input_ids == pad_token_id
    attention_mask = torch.as_tensor(attention_mask, device=x.device)
    if attention_mask.shape != x.shape[:2]:
        raise UserError(
            f"attention_mask has shape {tuple(attention_mask.shape)}; it must be "
            f"{tuple(x.shape[:2])}, 1 for tokens to keep and 0 for padding"
        )
    return padding_from_attention_mask(attention_mask)
