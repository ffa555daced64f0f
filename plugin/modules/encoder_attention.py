"""A core attention layer behind the interface of fairseq's ``MultiheadAttention``."""

from __future__ import annotations

from typing import Any, NoReturn

from torch import Tensor, nn

from selfattn.errors import UserError
from selfattn.layers import SelfAttention
from selfattn.masks import check_padding_mask


class EncoderAttention(nn.Module):
    """Time-first tensors in, time-first tensors out; no other file transposes them.

    Args:
        attention: a layer of the core with ``output_dim`` equal to ``embed_dim``.
        name: the mechanism's name, for messages.

    Raises:
        UserError: if the layer changes the width of its input.
    """

    def __init__(self, attention: SelfAttention, name: str) -> None:
        super().__init__()
        if attention.output_dim != attention.embed_dim:
            raise UserError(
                f"the encoder's attention {name} turns width {attention.embed_dim} into "
                f"{attention.output_dim}, but an encoder layer must keep its width; turn the "
                f"output projection on or change the head width"
            )
        self.attention = attention
        self.name = name
        self.retain_dropout = False

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
    ) -> tuple[Tensor, None]:
        """Self-attention on ``query`` ``(T, B, C)``.

        Args:
            query: the layer's input; key and value must be the same tensor.
            key: see query.
            value: see query.
            key_padding_mask: bool ``(B, T)``, True = padding.
            need_weights: accepted for fairseq's sake; since a pair of tokens has no single weight,
                None is returned.
            attn_mask: refused, since masks here belong to heads.

        Returns:
            ``(T, B, C)`` and None.

        Raises:
            UserError: if key or value differ from query, the padding mask is not bool ``(B, T)``,
                or an attn_mask is given.
        """
        if (key is not None and key is not query) or (value is not None and value is not query):
            raise UserError(
                f"attention {self.name!r} is self-attention; key and value must be the query"
            )
        if attn_mask is not None:
            raise UserError(
                f"attention {self.name!r} takes no attn_mask; its switches set positional masks"
            )
        x = query.transpose(0, 1)
        check_padding_mask(key_padding_mask, x.shape[:2])
        return self.attention(x, key_padding_mask).transpose(0, 1), None

    def make_generation_fast_(
        self,
        name: str,
        retain_dropout: bool = False,
        retain_dropout_modules: list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """fairseq's hook before generation; makes ``--retain-dropout`` keep attention dropout."""
        listed = retain_dropout_modules is None or type(self).__name__ in retain_dropout_modules
        self.retain_dropout = retain_dropout and listed
        self.train(self.training)

    def train(self, mode: bool = True) -> EncoderAttention:
        """Set the mode, except that dropout to be retained stays on."""
        super().train(mode)
        self.attention.train(mode or self.retain_dropout)
        return self

    # What fairseq offers for its own attention would be silently wrong for this one.

    def __prepare_scriptable__(self) -> NoReturn:
        self._refuse("TorchScript export", "run the model in Python, or export multihead")

    def prepare_for_onnx_export_(self, **kwargs: Any) -> NoReturn:
        """Refuse fairseq's export to ONNX."""
        self._refuse("ONNX export", "run the model in Python, or export multihead")

    def _get_reserve_head_index(self, num_heads_to_keep: int) -> NoReturn:
        self._refuse("head pruning", "prune layers with --encoder-layers-to-keep instead")

    def _adaptive_prune_heads(self, reserve_head_index: Any) -> NoReturn:
        self._refuse("head pruning", "prune layers with --encoder-layers-to-keep instead")

    def _refuse(self, what: str, advice: str) -> NoReturn:
        raise UserError(f"{what} does not work with the encoder's attention {self.name}; {advice}")
