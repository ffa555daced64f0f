"""A core attention layer behind the interface of fairseq's ``MultiheadAttention``."""

from __future__ import annotations

from typing import Any, NoReturn

from selfattn.errors import UserError
from selfattn.layers import ReSA, SelfAttention
from selfattn.models import AsMultihead

_EXPORT = "use `selfattn export`, or multihead without switches"
_LAYERS = "leave out layers instead, by --model-overrides \"{'encoder_layers_to_keep': '0,2'}\""


class EncoderAttention(AsMultihead):
    """What torch calls, which fairseq calls in the same way, time first; and fairseq's own hooks.

    Args:
        attention: a layer of the core with ``output_dim`` equal to ``embed_dim``.
        name: the mechanism's name, for messages.

    Raises:
        UserError: if the layer changes the width of its input.
    """

    def __init__(self, attention: SelfAttention, name: str) -> None:
        super().__init__(attention, name=name)
        self.retain_dropout = False

    def make_generation_fast_(
        self,
        name: str,
        retain_dropout: bool = False,
        retain_dropout_modules: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """fairseq's hook before generation; makes ``--retain-dropout`` keep attention dropout.

        In ``--retain-dropout-modules`` this is ``MultiheadAttention``, as fairseq's own.
        """
        listed = retain_dropout_modules is None or "MultiheadAttention" in retain_dropout_modules
        self.retain_dropout = retain_dropout and listed
        self.train(self.training)

    def train(self, mode: bool = True) -> EncoderAttention:
        """Set the mode, except that dropout to be retained stays on."""
        super().train(mode)
        self.attention.train(mode or self.retain_dropout)
        if isinstance(self.attention, ReSA):  # it samples in training; dropout is in its parts
            self.attention.training = mode
        return self

    # What fairseq offers for its own attention would be silently wrong for this one.

    def __prepare_scriptable__(self) -> NoReturn:
        self._refuse("TorchScript export", _EXPORT)

    def prepare_for_onnx_export_(self, **kwargs: Any) -> NoReturn:
        """Refuse fairseq's export to ONNX."""
        self._refuse("ONNX export", _EXPORT)

    def _get_reserve_head_index(self, num_heads_to_keep: int) -> NoReturn:
        self._refuse("head pruning", _LAYERS)

    def _adaptive_prune_heads(self, reserve_head_index: Any) -> NoReturn:
        self._refuse("head pruning", _LAYERS)

    def _refuse(self, what: str, advice: str) -> NoReturn:
        raise UserError(f"{what} does not work with the encoder's attention {self.name}; {advice}")
